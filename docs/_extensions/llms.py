"""The pages as text for language models: `llms.txt` lists them, and `llms-full.txt` contains all (https://llmstxt.org).

Each page is also saved as Markdown next to its HTML, such as `how-to/cells.md` next to `how-to/cells.html`.
"""

import inspect
import re
from pathlib import Path

import nbformat
from sphinx.application import Sphinx

import nbagent

#: Text that readers don't see: set-up cells and table markers.
_HIDDEN = re.compile(r"<!--.*?-->\n?|\A---\n.*?\n---\n", re.DOTALL)
#: A `toctree`.
_PAGES = re.compile(r"```\{toctree\}\n(?::caption: (.*)\n)?((?::.*\n)*)\n((?:[^`].*\n)*)```\n?")
#: An entry of it: its title and its name.
_PAGE = re.compile(r"^(?:(.+) <(.+)>|(.+))$", re.MULTILINE)
#: A list of names of the API reference.
_NAMES = re.compile(r"```\{eval-rst\}(.*?)```\n?", re.DOTALL)


def _documented(names: re.Match[str]) -> str:
    """Return the signatures and docstrings of the listed names and their methods."""
    parts = []
    for name in re.findall(r"^   (\w+)$", names[1], re.MULTILINE):
        value = getattr(nbagent, name)
        members = vars(value).items() if inspect.isclass(value) else ()
        for full, each in [(name, value), *((f"{name}.{part}", each) for part, each in members if part[0] != "_")]:
            if text := inspect.getdoc(each):
                call = re.sub(r", \*\*unknown\b", "", str(_signature(each))) if callable(each) else ""
                parts.append(f"### `{full}{call}`\n\n{text}\n")
    return "\n".join(parts)


def _signature(value: object) -> inspect.Signature | str:
    """Return the signature without types, which the pages show."""
    try:
        signature = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)


def _links(pages: re.Match[str], all_pages: dict[str, str]) -> str:
    """Return a list of pages as links. `all_pages` has the titles of the pages that `*` matches."""
    caption, options, listed = pages.groups()
    if ":hidden:" in options:
        return ""
    lines = [f"**{caption}**\n"] if caption else []
    for title, name, alone in _PAGE.findall(listed.strip()):
        found = all_pages if alone == "*" else {name or alone: title or all_pages.get(alone, alone)}
        lines += [f"- [{shown}]({page}.md)" for page, shown in found.items()]
    return "\n".join(lines) + "\n"


def markdown(source: Path, children: dict[str, str] | None = None) -> str:
    """Return a page without its hidden parts, or a notebook's cells with their printed outputs.

    `children` are the titles of the pages below an index.
    """
    if source.suffix != ".ipynb":
        text = _HIDDEN.sub("", source.read_text("utf-8"))
        text = _PAGES.sub(lambda found: _links(found, children or {}), text)
        return _NAMES.sub(_documented, text).strip() + "\n"
    parts = []
    for cell in nbformat.read(source, as_version=4).cells:
        parts.append(cell.source if cell.cell_type == "markdown" else f"```python\n{cell.source}\n```")
        for output in cell.get("outputs", []):
            shown = output.get("text") or output.get("data", {}).get("text/plain")
            if shown:
                parts.append(f"```text\n{shown.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def _write(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    env, out = app.env, Path(app.outdir)
    pages, seen = [], {app.config.root_doc}

    def visit(page: str) -> None:
        for child in env.toctree_includes.get(page, []):
            if child not in seen:
                seen.add(child)
                pages.append(child)
                visit(child)

    visit(app.config.root_doc)
    intro = app.config.llms_summary
    listed, full, group = [f"# {app.config.project}\n\n> {intro}\n"], [f"# {app.config.project}\n\n{intro}\n"], None
    for page in pages:
        source = Path(env.doc2path(page))
        if source.suffix == ".rst" or page in app.config.llms_left_out:  # the page that lists the names has their text
            continue
        below = env.toctree_includes.get(page, [])
        text = markdown(source, {each.rpartition("/")[2]: env.titles[each].astext() for each in below})
        (out / page).with_suffix(".md").write_text(text, "utf-8")
        folder = page.partition("/")[0] if "/" in page else ""
        if folder != group:
            group = folder
            listed.append(f"\n## {env.titles[f'{folder}/index'].astext() if folder else 'Start'}\n\n")
        listed.append(f"- [{env.titles[page].astext()}]({page}.md)\n")
        full.append(text)
    (out / "llms.txt").write_text("".join(listed), "utf-8")
    (out / "llms-full.txt").write_text("\n\n".join(full), "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry point."""
    app.add_config_value("llms_summary", "", "html")
    app.add_config_value("llms_left_out", (), "html")
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

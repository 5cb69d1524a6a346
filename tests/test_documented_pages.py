"""The documentation's pages run, and produce the output that they show (see `support.documents`)."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from support.documents import LLMOCK, commands, is_shown, pages, steps
from support.kernels import Cell, Kernel

from nbagent.cli import _parser
from nbagent.providers.local.provider import LocalProvider

ROOT = Path(__file__).parents[1]
PAGES = [str(path.relative_to(ROOT)) for path in pages(ROOT)]

#: Nothing of the machine that runs the tests.
EMPTY = dict.fromkeys(
    ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "NBAGENT_MAX_COST"), ""
)


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


@pytest.mark.kernel
@pytest.mark.local_model
@pytest.mark.parametrize("page", [page for page in PAGES if list(steps(text_of(page)))])
def test_a_page_runs(page, tmp_path):
    cells = list(steps(text_of(page)))
    shutil.copytree(ROOT / "notebooks" / "data", tmp_path / "work" / "data")
    shutil.copytree(ROOT / "notebooks" / "skills", tmp_path / "work" / "skills")
    with Kernel(tmp_path, {**EMPTY, "NBAGENT_MODEL": "local"}, tmp_path / "work") as kernel:
        if any("llmock." in cell.code for cell in cells):
            kernel.ok(LLMOCK)
        for cell in cells:
            done = kernel.run(cell.code, allow_stdin=False)
            assert done.status == "ok", f"{page}, line {cell.line}: {done.traceback}"
            if cell.shows is not None:
                shown = text_shown(done)
                assert is_shown(cell.shows, shown), f"{page}, line {cell.line} shows:\n{shown}"


def test_pages_describe_the_embedded_model_in_the_same_words():
    said = "nbagent itself chooses the tool and takes the arguments from your prompt. The answer quotes the tool's "
    said += "result. A large model does all of this itself."
    pages = ("README.md", "docs/start.md", "docs/explanation/embedded-model.md", "notebooks/01_quickstart.ipynb")
    for text in (*map(text_of, pages), LocalProvider.__doc__):
        assert said in re.sub(r'(\\n",)?\s+"?', " ", text)


def text_shown(cell: Cell) -> str:
    """Return the cell's output as plain text, first what it printed."""
    return "\n".join(filter(None, [cell.stdout, cell.text, cell.result]))


def test_commands_on_the_pages_exist():
    for page in PAGES:
        for command in commands(text_of(page)):
            assert _parser().parse_args(shlex.split(command)[1:]), f"{page}: {command}"


def test_links_on_the_pages_lead_to_files():
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text_of(page))]
    assert [(page, link) for page, link in links if not ((ROOT / page).parent / link).exists()] == []

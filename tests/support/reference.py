"""The tables of `docs/` that are made from the code. `make reference` writes them into their pages.

Each stands between two comments, `<!-- made by make reference: NAME -->` and `<!-- end -->`. With `--check`, run as a
script, nothing is written: it fails for the pages that are not current, and for tables that stand in none.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

from nbagent import cli, errors
from nbagent.core.events import AnyEvent, Event
from nbagent.errors import NbagentError
from nbagent.notebook.magics.agent_magic import AgentMagics
from nbagent.notebook.magics.commands import COMMANDS
from nbagent.pricing import priced_models
from nbagent.providers.catalog import CATALOG, NAMES
from nbagent.providers.larger_models import LARGER_MODELS
from nbagent.trace.schema import COUNT, DESCRIBED, FLAG, JSON, REAL, SHARED, TEXT, TIME, Column

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
_PART = re.compile(r"(<!-- made by make reference: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_TYPES = {TEXT: "text", COUNT: "integer", REAL: "number", FLAG: "flag", TIME: "time", JSON: "object"}
_WHEN = {"always": "yes", "unthinking": "while not thinking", "never": "no"}
#: The providers that are asked over HTTP.
_PROVIDERS = [CATALOG[name] for name in NAMES if name not in ("local", "replay", "scripted")]


def _table(heads: str, rows: Iterable[Iterable[str]]) -> str:
    lines = [heads, "|" + "---|" * (heads.count("|") - 1)]
    return "\n".join([*lines, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)])


def _prose(text: str | None) -> str:
    return " ".join((text or "").split())


def _listed(values: Iterable[str]) -> str:
    return ", ".join(f"`{value}`" for value in values)


def events_table() -> str:
    rows = []
    for kind in get_args(AnyEvent):
        fields = [name for name in kind.__dataclass_fields__ if name not in Event.__dataclass_fields__]
        rows.append((f"`{kind.type}`", f"`{kind.__name__}`", _prose(kind.__doc__), _listed(fields)))
    return _table("| `type` | class | what it says | more fields |", rows)


def errors_tree() -> str:
    """The tree that the module of errors draws of itself."""
    tree = inspect.cleandoc(errors.__doc__ or "").partition("::\n\n")[2].partition("\n\nMessages")[0]
    return f"```text\n{inspect.cleandoc(tree)}\n```"


def errors_table() -> str:
    rows = []
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, NbagentError):
            flags = ["yes" if getattr(kind, name, False) else "" for name in ("retryable", "may_fall_back")]
            rows.append((f"`{kind.__name__}`", _prose(kind.__doc__), *flags))
    return _table("| error | meaning | sent again | falls back |", rows)


def _arguments(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if action.dest != "help" and not isinstance(action, argparse._SubParsersAction):
            value = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
            names = ", ".join(f"`{name}{value}`" for name in action.option_strings)
            yield names or f"`{action.metavar or action.dest}`", _prose(action.help)


def cell_options() -> str:
    return _table("| option | meaning |", _arguments(AgentMagics.agent.parser))


def line_commands() -> str:
    rows = ((f"`{f'%agent {name} {command.usage}'.strip()}`", command.help) for name, command in COMMANDS.items())
    return _table("| command | what it does |", rows)


def command_line() -> str:
    (commands,) = (each for each in cli._parser()._actions if isinstance(each, argparse._SubParsersAction))
    parts = []
    for name, parser in commands.choices.items():
        parts += [f"## `nbagent {name}`", _prose(parser.description)]
        if arguments := list(_arguments(parser)):
            parts.append(_table("| argument | meaning |", arguments))
    return "\n\n".join(parts)


def larger_models_table() -> str:
    rows = [(f"`{each.name}`", each.size, f"{each.memory_gb} GB", each.licence) for each in LARGER_MODELS.values()]
    return _table("| name | download | memory | licence |", rows)


def providers_table() -> str:
    """The providers, and where their keys come from."""
    rows = []
    for each in _PROVIDERS:
        priced = "yes" if each.reports_cost or priced_models(each.name) else "no"
        rows.append((f"`{each.name}`", each.title or each.name, f"`{each.model}`", priced, _listed(each.key_vars)))
    return _table("| name | what it is | default model | prices known | key |", rows)


def addresses_table() -> str:
    """Where requests go, and which variable changes that."""
    rows = ((f"`{each.name}`", _listed([each.address_of(None)]), _listed(each.base_url_vars)) for each in _PROVIDERS)
    return _table("| name | address | variable |", rows)


def regions_table() -> str:
    """The sites of providers that have several."""
    rows = []
    for each in _PROVIDERS:
        for name, region in each.regions.items():
            names = _listed(each.key_vars_at(region.base_url)), _listed(each.region_vars)
            rows.append((f"`{each.name}`", f"`{name}`", f"`{region.base_url}`", *names))
    return _table("| name | `region` | address | key | variable |", rows)


def chinese_providers() -> str:
    """The addresses and keys of China's providers, in Chinese."""
    rows = []
    for each in (CATALOG[name] for name in ("qwen", "zhipu", "minimax", "deepseek", "moonshot", "siliconflow")):
        regions = {f"`{name}`": region.base_url for name, region in each.regions.items()} or {"": each.base_url}
        for name, address in regions.items():
            rows.append((f"`{each.name}`", f"`{each.model}`", name, f"`{address}`", _listed(each.key_vars_at(address))))
    return _table("| 名字 | 默认模型 | `region` | 地址 | key 的环境变量 |", rows)


def hosts_list() -> str:
    """Where requests go, unless a `base_url` says otherwise."""
    rows = []
    for each in _PROVIDERS:
        addresses = [region.base_url for region in each.regions.values()] or [each.base_url]
        hosts = dict.fromkeys(urlsplit(address).netloc for address in addresses)
        rows.append((f"`{each.name}`", _listed(hosts)))
    return _table("| provider | hosts |", rows)


def thinking_table() -> str:
    """What `thinking`, `temperature` and a forced `tool_choice` can be for each provider's default model."""
    rows = []
    for provider in _PROVIDERS:
        profile = provider.profile(provider.model)
        default = {True: "thinks", False: "does not", None: "not known"}[profile.thinks_by_default]
        off = "no" if profile.thinking_off is None else "yes"
        forced = _WHEN[profile.forced_tools] if "required" in provider.tool_choices else "no"
        if forced == "no" and "named" in provider.tool_choices:
            forced = f"a tool's name: {_WHEN[profile.forced_tools]}"
        levels = _listed(profile.levels) or "on, off"
        rows.append((f"`{provider.name}:{provider.model}`", default, levels, off, _WHEN[profile.temperature], forced))
    heads = "model | by default | levels of `thinking` | can be switched off | `temperature` | forced `tool_choice`"
    return _table(f"| {heads} |", rows)


def abilities_table() -> str:
    """What requests to each provider can hold."""
    outputs = {"schema": "JSON Schema", "object": "JSON object", "": "through the prompt"}
    rows = []
    for provider in _PROVIDERS:
        least = provider.compaction.least_tokens if provider.compaction else None
        summarises = "" if least is None else f"from {least:,} tokens" if least else "yes"
        images, pdfs = "some models" if provider.no_images else "yes", "yes" if provider.pdfs else "as text"
        output = outputs[provider.json_output]
        rows.append((f"`{provider.name}`", images, pdfs, output, _listed(provider.cache_ttls), summarises))
    return _table("| name | images | PDFs | structured output | `cache` | summarises long conversations |", rows)


def provider_tools_table() -> str:
    """Who runs which tool itself, and with which options."""
    rows = []
    for name in sorted({name for provider in _PROVIDERS for name in provider.tools}):
        for provider in _PROVIDERS:
            if forms := provider.tools.get(name, ()):
                options = dict.fromkeys(option for form in forms for option in form.options)
                costs = ", ".join(f"${price:g}" for price in sorted({form.price for form in forms if form.price}))
                rows.append((f"`{name}`", f"`{provider.name}`", _listed(options), costs))
    return _table("| tool | provider | options | a call costs |", rows)


def columns_table(columns: Mapping[str, Column]) -> str:
    """Columns of the trace, with their types and what they are. Categories list their values."""
    rows = []
    for name, (kind, text) in columns.items():
        is_category = not isinstance(kind, str)
        parts = [_listed(kind), text] if is_category else [text]
        rows.append((f"`{name}`", "category" if is_category else _TYPES[kind], "; ".join(filter(None, parts))))
    return _table("| column | type | what it is |", rows)


#: What stands in the pages, by the name in its mark.
PARTS: dict[str, Callable[[], str]] = {
    "events": events_table,
    "errors_tree": errors_tree,
    "errors": errors_table,
    "cell_options": cell_options,
    "line_commands": line_commands,
    "command_line": command_line,
    "larger_models": larger_models_table,
    "providers": providers_table,
    "addresses": addresses_table,
    "regions": regions_table,
    "chinese_providers": chinese_providers,
    "hosts": hosts_list,
    "thinking": thinking_table,
    "abilities": abilities_table,
    "provider_tools": provider_tools_table,
    "shared_columns": partial(columns_table, SHARED),
    **{f"columns_{table}": partial(columns_table, columns) for table, columns in DESCRIBED.items()},
}


def main(check: bool) -> str:
    """Write the pages that are not current, or only name them. Returns what is wrong."""
    pages = {path: path.read_text("utf-8") for path in sorted(FOLDER.parent.glob("[!_]*/*.md"))}
    missing = PARTS.keys() - {name for page in pages.values() for _, name, *_ in _PART.findall(page)}
    wrong = [f"docs/ has no place for `<!-- made by make reference: {name} -->`" for name in missing]
    for path, page in pages.items():
        made = _PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]()}\n\n{part[4]}", page)
        if not check:
            path.write_text(made, "utf-8")
        elif made != page:
            wrong.append(f"docs/{path.parent.name}/{path.name} is not what the code says: run `make reference`")
    return "\n".join(wrong)


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv) or None)

"""The pages of `docs/reference/` say what the code does: names, types, options, variables."""

import re
import tomllib
from dataclasses import fields

import pandas as pd
import pytest
from support.reference import FOLDER, current

import nbagent
from nbagent.core.limits import VARIABLE_PREFIX, Limits
from nbagent.core.request_options import RequestOptions
from nbagent.trace.columns import _SHARED, COLUMNS, COUNT, FLAG, JSON, REAL, TEXT, TIME
from nbagent.trace.open_run import USAGE

PACKAGE = FOLDER.parents[1] / "nbagent"
TYPES = {TEXT: "text", COUNT: "integer", REAL: "number", FLAG: "flag", TIME: "time", JSON: "object"}


def read(page: str) -> str:
    return (FOLDER / page).read_text("utf-8")


def columns_of(section: str) -> list[tuple[str, str]]:
    """Name and type of each row of a table of columns."""
    return re.findall(r"^\| [`*]([\w ]+)[`*] \| (\w*) ?\|", section, re.MULTILINE)


@pytest.mark.parametrize("page", sorted(path.name for path in FOLDER.glob("*.md")))
def test_what_is_made_from_the_code_is_current(page):
    assert read(page) == current(read(page)), "run `make reference`"


def test_the_page_of_names_has_each_public_name_once():
    blocks = re.findall(r"```\{eval-rst\}(.*?)```", read("api.md"), re.DOTALL)
    names = [name for block in blocks for name in re.findall(r"^   (\w+)$", block, re.MULTILINE)]
    names += re.findall(r"py:data:: nbagent\.(\w+)", read("api.md"))
    assert sorted(names) == nbagent.__all__


@pytest.mark.parametrize("table", COLUMNS)
def test_the_columns_of_a_table(table):
    section = read("trace.md").partition(f"\n## `{table}`\n")[2].partition("\n## ")[0]
    found = []
    for name, kind in columns_of(section):
        found += [(name, "integer") for name in USAGE] if name == "token counts" else [(name, kind)]
    expected = [
        (name, "category" if isinstance(dtype, pd.CategoricalDtype) else TYPES[dtype])
        for name, dtype in COLUMNS[table].items()
        if name not in _SHARED
    ]
    assert found == expected


def test_the_columns_that_tables_share():
    first = read("trace.md").partition("\n## ")[0]
    shared = [(name, TYPES[dtype]) for name, dtype in _SHARED.items()]
    assert columns_of(first) == shared + [(name, "integer") for name in USAGE]


@pytest.mark.parametrize("table", COLUMNS)
def test_the_values_of_categories_are_listed(table):
    for name, dtype in COLUMNS[table].items():
        if isinstance(dtype, pd.CategoricalDtype):
            section = read("trace.md").partition(f"\n## `{table}`\n")[2].partition("\n## ")[0]
            (row,) = re.findall(rf"^\| `{name}` \|.*$", section, re.MULTILINE)
            assert re.findall(r"`(\w+)`", row)[1:] == list(dtype.categories)


def test_who_asks_is_listed():
    (row,) = re.findall(r"^\| `source` \| text \| who asked.*$", read("trace.md"), re.MULTILINE)
    folders = [path for path in PACKAGE.rglob("*.py") if "skills" not in path.parts and "display" not in path.parts]
    named = {name for path in folders for name in re.findall(r'"source": "(\w+)"', path.read_text("utf-8"))}
    assert set(re.findall(r"`(\w+)`", row)[1:]) == named


def test_the_options_of_a_request_are_those_of_the_type():
    rows = re.findall(r"^\| (?:`.*?` \||(?:OpenAI|Claude|Qwen|Gemini).*)", read("options.md"), re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(RequestOptions.__annotations__)


def test_every_environment_variable_is_listed():
    listed = set(re.findall(r"`((?:NBAGENT|OTEL)_\w+)`", read("environment.md")))
    read_by_the_code = {VARIABLE_PREFIX + each.name.upper() for each in fields(Limits)}
    for path in PACKAGE.rglob("*.py"):
        read_by_the_code |= set(re.findall(r'"((?:NBAGENT|OTEL)_[A-Z_]*[A-Z])"', path.read_text("utf-8")))
    assert listed == read_by_the_code


def test_every_extra_is_listed():
    extras = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    section = (FOLDER.parent / "start.md").read_text("utf-8").partition("\n## Extras\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)`", section, re.MULTILINE) == [
        name for name in extras if name not in ("all", "dev", "docs", "browser")
    ]

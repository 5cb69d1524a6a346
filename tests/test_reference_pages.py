"""The handwritten parts of the pages in `docs/reference/` match the code: names, options, variables.

Their other tables come from the code: `make reference` writes them, and `make check` compares them.
"""

import re
import tomllib
from dataclasses import fields

from support.reference import FOLDER

import nbagent
from nbagent.core.limits import VARIABLE_PREFIX, Limits
from nbagent.core.request_options import RequestOptions
from nbagent.trace.schema import DESCRIBED

PACKAGE = FOLDER.parents[1] / "nbagent"


def read(page: str) -> str:
    return (FOLDER / page).read_text("utf-8")


def test_the_page_of_names_has_each_public_name_once():
    blocks = re.findall(r"```\{eval-rst\}(.*?)```", read("api.md"), re.DOTALL)
    names = [name for block in blocks for name in re.findall(r"^   (\w+)$", block, re.MULTILINE)]
    names += re.findall(r"py:data:: nbagent\.(\w+)", read("api.md"))
    assert sorted(names) == nbagent.__all__


def test_every_source_is_listed():
    _, who_asked = DESCRIBED["runs"]["source"]
    folders = [path for path in PACKAGE.rglob("*.py") if "skills" not in path.relative_to(PACKAGE).parts]
    said = r'(?:"source": |\bsource(?:: str = |=))"(\w+)"'
    named = {name for path in folders for name in re.findall(said, path.read_text("utf-8"))}
    assert set(re.findall(r"`(\w+)`", who_asked)) == named


def test_the_request_options_match_the_type():
    rows = re.findall(r"^\| `.*?` \|", read("options.md"), re.MULTILINE)
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

"""The tools of `SkillHost(builtin=True)`, and the example skills."""

from pathlib import Path

import pytest
from skills_ref import validate
from support.skills import BUILTIN

from nbagent import SkillHost

EXAMPLES = Path(__file__).parents[3] / "notebooks" / "skills"
OWN = sorted(path.parent for path in BUILTIN.glob("*/SKILL.md"))
FOLDERS = OWN + sorted(path.parent for path in EXAMPLES.glob("*/SKILL.md"))
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "skills.md"


@pytest.fixture(scope="module")
def host():
    return SkillHost(builtin=True, discover=False)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_skill_passes_the_validator_of_the_specification(folder):
    assert validate(folder) == []


def test_all_are_tools_without_problems(host):
    found = {name: host.tools.get_function(name).source for name in host.tools.names()}
    assert found == {folder.name.replace("-", "_"): f"skill:{folder.name}" for folder in OWN}
    assert len(found) >= 5
    assert len(host.diagnostics) == 0
    numbers = host.tools.get_function("calculator").parameters["properties"]["numbers"]
    assert numbers["items"] == {"type": "number"}


@pytest.mark.parametrize("folder", OWN, ids=lambda folder: folder.name)
def test_the_page_of_skills_has_a_row_for_each(folder):
    assert f"\n| `{folder.name.replace('-', '_')}` |" in PAGE.read_text("utf-8"), f"add it to {PAGE}"


@pytest.fixture(scope="module")
def examples():
    return SkillHost(EXAMPLES, discover=False)


def test_the_examples_load_without_problems(examples):
    assert list(examples.skills) == ["penguin-guide", "unit-converter"]
    assert len(examples.diagnostics) == 0


async def test_the_example_tool_converts_units(examples):
    async def converted(values, given, wanted):
        return await examples.invoke("unit_converter", {"values": values, "from_unit": given, "to_unit": wanted})

    assert (await converted([0, -40], "C", "F")).data["values"] == [32.0, -40.0]
    refused = await converted([1], "kg", "km")
    assert (refused.success, "kg can't be converted to km" in refused.error) == (False, True)

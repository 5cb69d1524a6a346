"""The built-in skills and the example skills in agents: the tools of `SkillHost(builtin=True)`, and whole scenarios."""

import json
from pathlib import Path

import pytest
from skills_ref import validate
from support.skills import BUILTIN

from nbagent import Agent, FunctionCall, ScriptedProvider, SkillHost

EXAMPLES = Path(__file__).parents[3] / "notebooks" / "skills"
OWN = sorted(path.parent for path in BUILTIN.glob("*/SKILL.md"))
FOLDERS = OWN + sorted(path.parent for path in EXAMPLES.glob("*/SKILL.md"))
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "skills.md"


@pytest.fixture(scope="module")
def host():
    return SkillHost(builtin=True, discover=False)


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "tools.md").write_text("# Tools\nThe calculator computes means.\n", "utf-8")
    (tmp_path / "app.log").write_text("2026-01-20 10:00:00 ERROR app: disk full\n" * 3, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_skill_passes_the_validator_of_the_specification(folder):
    assert validate(folder) == []


def test_all_are_tools_without_any_diagnostics(host):
    found = {name: host.tools.get_function(name).source for name in host.tools.names()}
    assert found == {folder.name.replace("-", "_"): f"skill:{folder.name}" for folder in OWN}
    assert len(found) >= 5
    assert len(host.diagnostics) == 0
    numbers = host.tools.get_function("calculator").parameters["properties"]["numbers"]
    assert numbers["items"] == {"type": "number"}


@pytest.mark.parametrize("folder", OWN, ids=lambda folder: folder.name)
def test_the_page_of_skills_has_a_row_for_each(folder):
    assert f"\n| `{folder.name.replace('-', '_')}` |" in PAGE.read_text("utf-8"), f"add it to {PAGE}"


async def test_wrong_arguments_and_refusals_come_back_to_the_model(host, project):
    turns = [
        FunctionCall("calculator", {"numbers": "many"}),
        FunctionCall("file_search", {"query": "x", "root_dir": "/etc"}),
        FunctionCall("log_transform", {}),
        FunctionCall("log_transform", {"path": "app.log"}),
        "Three errors.",
    ]
    result = await Agent(ScriptedProvider(turns)).use(host).chat("Mean, and what is wrong?")
    wrong, refused, empty, right = result.function_calls
    assert "numbers: must be a valid" in wrong["result"]
    assert (refused["is_error"], "expected a path inside" in refused["result"]) == (True, True)
    assert "\n  - arguments: expected either path or text" in empty["result"]
    assert 'Expected shape:\n{"path":' in empty["result"]
    found = json.loads(right["result"])["data"]
    assert found["counts_by_level"] == {"ERROR": 3}
    assert found["top_messages"] == [{"message": "app: disk full", "count": 3, "level": "ERROR"}]


@pytest.fixture(scope="module")
def examples():
    return SkillHost(EXAMPLES, discover=False)


def test_the_examples_load_without_diagnostics(examples):
    assert list(examples.skills) == ["penguin-guide", "unit-converter"]
    assert len(examples.diagnostics) == 0


async def test_units_are_converted_in_a_process_of_its_own(examples):
    async def converted(values, given, wanted):
        return await examples.invoke("unit_converter", {"values": values, "from_unit": given, "to_unit": wanted})

    assert (await converted([0, -40], "C", "F")).data["values"] == [32.0, -40.0]
    refused = await converted([1], "kg", "km")
    assert (refused.success, "kg can't be converted to km" in refused.error) == (False, True)

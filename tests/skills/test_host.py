"""`SkillHost`: finding skills, offering them to an agent, and calls."""

import importlib.metadata
import re
import shutil
from types import SimpleNamespace

import pytest
from support.skill_folders import ENTRY, write_executable, write_skill

from nbagent import Agent, FunctionCall, ScriptedProvider, SkillHost, SkillResult
from nbagent.skills import discovery, trust


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A user without skills or answers, in an empty project."""
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/config"))
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr(trust, "_session_answers", {})
    yield tmp_path / "home"
    trust.set_asker(None)


def states(host):
    return dict(zip(host.table["skill"], host.table["state"], strict=True))


async def test_an_executable_skill_is_a_tool_of_an_agent(tmp_path):
    write_executable(tmp_path / "skills", entry=ENTRY.replace("def run", "async def run"))
    host = SkillHost(tmp_path / "skills")
    agent = Agent(ScriptedProvider([[FunctionCall("average", {"numbers": [1, 2, 6]})], "It is 3."])).use(host)
    result = await agent.chat("Average?")
    assert [call["result"] for call in result.function_calls] == ['{"success": true, "data": {"mean": 3.0}}']
    assert list(agent.trace.tool_calls["source"]) == ["skill:average"]
    (tool,) = agent.function_registry.list_functions()
    assert tool["description"] == "The mean of numbers."
    assert tool["parameters"]["properties"]["numbers"]["description"] == "The numbers"


async def test_every_call_returns_a_result(tmp_path):
    fails = ENTRY.replace("return", "if 7 in input.numbers: raise SystemExit('seven')\n    return")
    write_executable(tmp_path / "skills", entry=fails)
    host = SkillHost(tmp_path / "skills")
    done = await host.invoke("average", {"numbers": [1, 2]})
    assert done == SkillResult(True, {"mean": 1.5}, None, done.trace_id, done.duration_ms)
    refused = await host.invoke("average", {"numbers": ["x"]})
    assert (refused.success, refused.data) == (False, None)
    assert "\n  - numbers[0]: must be a valid number" in refused.error
    assert refused.error.endswith('Expected shape:\n{"numbers": ["<number>"]}')
    assert (await host.invoke("average", {"numbers": [7]})).error == "SystemExit: seven"
    assert "did you mean average?" in (await host.invoke("avrage")).error


def test_a_broken_skill_does_not_affect_others(tmp_path):
    folder = tmp_path / "skills"
    write_executable(folder, "good")
    write_executable(folder, "a-script", entry="1 / 0")
    write_executable(folder, "raises", entry="1 / 0", more="timeout: 1")
    write_executable(folder, "wrong", more="parameters: {type: array}")
    write_skill(folder, "empty", description="")
    host = SkillHost(folder, tmp_path / "missing")
    assert "good" in host.tools.names()
    assert states(host) == dict.fromkeys(("empty", "raises", "wrong"), "off: it is broken") | {
        "good": "on",
        "a-script": "on",
    }
    problems = host.diagnostics
    messages = dict(zip(problems["skill"], problems["message"], strict=True))
    assert "has no function 'run'" in messages["raises"]
    assert "a JSON Schema of type object" in messages["wrong"]
    assert messages[""] == "there is no such folder or package"


def test_reload_follows_changes(tmp_path):
    folder = write_executable(tmp_path / "skills")
    host = SkillHost(tmp_path / "skills")
    (folder / "skill.py").write_text(ENTRY.replace("numbers", "values").replace("The mean", "An average"))
    write_executable(tmp_path / "skills", "another")
    host.reload()
    assert host.tools.get_function("average").description == "An average of values."
    assert host.invoke_sync("average", {"values": [4]}).data == {"mean": 4.0}
    shutil.rmtree(folder)
    host.reload()
    assert host.tools.names() == ["another"]


def test_a_projects_skill_wins_over_the_users(tmp_path, home):
    for place in (tmp_path / "project/.agents/skills", home / ".claude/skills", tmp_path / "given"):
        write_skill(place, "tea", description=f"Tea of {place}")
    trust.set_asker(lambda project, names: True)
    host = SkillHost()
    assert host.skills["tea"].scope == "project"
    assert list(host.table["state"].str.startswith("off")) == [False, True]
    assert SkillHost(tmp_path / "given").skills["tea"].scope == "given"
    assert SkillHost(discover=False).skills == {}


def test_trust_is_asked_for_once_and_covers_the_current_files(tmp_path, caplog):
    folder = write_skill(tmp_path / "project/.agents/skills", "tea")
    asked = []
    trust.set_asker(lambda project, names: asked.append((project.name, list(names))))
    host = SkillHost()
    assert host.skills == {}
    assert "there is nobody to ask" in states(host)["tea"]
    trust.set_asker(lambda project, names: asked.append(names) or True)
    host.reload()
    assert list(host.skills) == ["tea"]
    assert asked == [("project", ["tea"]), ["tea"]]
    trust.set_asker(lambda *_: pytest.fail("asked again"))
    trust._session_answers.clear()  # another process
    assert list(SkillHost().skills) == ["tea"]
    (folder / "helper.py").write_text("1")
    trust.set_asker(lambda *_: None)
    assert "there is nobody to ask" in states(SkillHost())["tea"]
    assert "have changed. They are off" in caplog.text
    host.trust()
    assert list(host.skills) == list(SkillHost().skills) == ["tea"]
    host.trust(False)
    assert "is not trusted" in states(host)["tea"]
    assert SkillHost().skills == {}


async def test_even_a_trusted_projects_code_runs_only_in_approved_calls(tmp_path):
    marks = f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n{ENTRY}"
    folder = write_executable(tmp_path / "project/.agents/skills", entry=marks)
    host = SkillHost()
    host.trust()
    call = [FunctionCall("average", {"numbers": [1]})]
    agent = Agent(ScriptedProvider(["Hello.", call, "no", call, "yes"])).use(host)
    await agent.chat("Hello")
    await agent.chat("Average?")
    assert not (tmp_path / "ran").exists()
    agent.tool_executor.approver = lambda *_: True
    assert '"mean": 1.0' in (await agent.chat("Average?")).function_calls[0]["result"]
    assert (tmp_path / "ran").exists()
    (folder / "skill.py").write_text("raise SystemExit('not trusted')\n" + ENTRY)
    error = (await host.invoke("average", {"numbers": [1]})).error
    assert re.search(r"have changed since they were trusted.*host\.trust\(\)", error)


def test_trust_covers_compiled_files(tmp_path):
    entry = "from importlib import import_module\ndef run():\n    return import_module(__name__ + '.helper').NAME\n"
    folder = write_executable(tmp_path / "project/.agents/skills", entry=entry)
    (folder / "helper.py").write_text("NAME = 'trusted'")
    host = SkillHost()
    host.trust()
    assert [host.invoke_sync("average").data for _ in range(2)] == ["trusted"] * 2, "a call left compiled files"
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__/helper.cpython-311.pyc").touch()
    assert "have changed since they were trusted" in host.invoke_sync("average").error


async def test_executable_skills_of_the_user_need_approval(home):
    write_executable(home / ".agents/skills")
    agent = Agent(ScriptedProvider([[FunctionCall("average", {"numbers": [1]})], "no"])).use(SkillHost())
    result = await agent.chat("?")
    assert "needs approval" in result.function_calls[0]["result"]


def test_entry_points(tmp_path, monkeypatch):
    write_skill(tmp_path / "acme_skills", "tea")
    write_skill(tmp_path / "acme_skills/more", "cake")
    (tmp_path / "acme_skills/__init__.py").write_text("1 / 0")
    (tmp_path / "acme_skills/more/__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    names = ("acme_skills.more", "acme_pots", "acme_pots.more", "acme_skills.more.none")
    points = [SimpleNamespace(name=name, value=name) for name in names]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points if group == "nbagent.skills" else [])
    host = SkillHost()
    assert host.skills["cake"].scope == "package"
    assert list(host.diagnostics["file"]) == list(names[1:])
    points[:] = [SimpleNamespace(name="acme", value="acme_skills")]
    assert {"tea", "cake"} <= set(SkillHost().skills)


def test_skills_inside_a_skills_folder_are_found(tmp_path):
    index = write_skill(tmp_path / "skills", "index")
    write_skill(index / "more", "tea")
    (tmp_path / "skills/SKILL.md").write_text("# All our skills")
    host = SkillHost(tmp_path / "skills", discover=False)
    assert states(host) == {"skills": "off: it is broken", "index": "on", "tea": "on"}


def test_a_search_that_ends_early_is_reported(tmp_path, monkeypatch):
    for number in range(10):
        write_skill(tmp_path / "skills", f"skill-{number}")
    monkeypatch.setattr(discovery, "MAX_FOLDERS", 8)
    host = SkillHost(tmp_path / "skills", discover=False)
    assert len(host.skills) == 7
    assert host.diagnostics["message"][0].startswith("it has more than 8 folders")


def test_links_in_a_project_are_not_followed(tmp_path):
    write_skill(tmp_path / "elsewhere", "tea")
    cake = write_skill(tmp_path / "project/.agents/skills", "cake")
    (tmp_path / "project/.agents/skills/link").symlink_to(tmp_path / "elsewhere")
    trust.set_asker(lambda *_: True)
    host = SkillHost()
    assert list(host.skills) == ["cake"]
    assert list(SkillHost(tmp_path / "project/.agents/skills", discover=False).skills) == ["cake", "tea"]
    for target in (
        tmp_path / "elsewhere/tea/SKILL.md",
        tmp_path / "elsewhere",
    ):  # they can change, unlike what is trusted
        (cake / "helper").symlink_to(target)
        host.reload()
        assert (host.skills, host.diagnostics["message"][0]) == ({}, "helper is a link, and links can't be trusted")
        (cake / "helper").unlink()


async def test_an_entry_that_hangs_is_stopped(tmp_path):
    hangs = ENTRY.replace("return", "import time\n    for _ in range(6000): time.sleep(0.01)\n    return")
    write_executable(tmp_path / "skills", entry=hangs, more="timeout: 1\ndescription: x\nparameters: {type: object}")
    host = SkillHost(tmp_path / "skills")
    result = await host.invoke("average", {"numbers": [1]})
    assert not result.success
    assert "it took more than 1 s" in result.error


def test_an_entry_may_print(tmp_path):
    write_executable(tmp_path / "skills", entry=ENTRY.replace("return", "print('{')\n    return"))
    assert SkillHost(tmp_path / "skills").invoke_sync("average", {"numbers": [1]}).data == {"mean": 1.0}

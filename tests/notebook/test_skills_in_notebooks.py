"""Skills in a real kernel: `%agent skills`, and `/name` in cells and in the panel, with completion."""

import pytest
from support.kernels import TIMEOUT, Kernel
from support.panels import Panel
from support.skill_folders import write_skill

pytestmark = pytest.mark.kernel

SETUP = """
seen = []
def answer(messages, tools):
    seen.append(messages)
    return f"answer {len(seen)}"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def shared(folder, tmp_path_factory):
    write_skill(folder / "skills", "tea", "Makes tea.", "# Tea\nPour {water}.")
    write_skill(folder / "skills", "tea-壶", "Washes <b>pots</b>.")
    write_skill(folder / "skills", "bad", "")
    write_skill(folder / "project/.agents/skills", "cake", "Bakes.")
    home = tmp_path_factory.mktemp("home")
    env = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")}
    with Kernel(tmp_path_factory.mktemp("kernel"), env=env, cwd=folder) as kernel:
        kernel.ok(SETUP)
        yield kernel


@pytest.fixture
def kernel(shared):
    shared.ok(
        "seen.clear(); agent = Agent(ScriptedProvider(answer), system_prompt='Be brief.')\n"
        "agent.use(nbagent.SkillHost('skills', discover=False))"
    )
    return shared


def last(kernel, index=-1):
    return kernel.value(f"(seen[-1][{index}].text, seen[-1][{index}].pinned)")


def test_the_table(kernel):
    shown = kernel.ok("%agent skills").of("execute_result")[-1]["data"]
    assert "tea" in shown["text/plain"]
    assert "off: it is broken" in shown["text/plain"]
    assert "the description is missing" in shown["text/plain"]
    assert "Washes &lt;b&gt;pots&lt;/b&gt;." in shown["text/html"]
    kernel.ok("agent = Agent(ScriptedProvider(answer))")
    assert kernel.ok("%agent skills").result.startswith("No skills:")
    assert "calculator" in kernel.ok("%agent skills use").result


def test_a_name_in_a_cell_activates_a_skill(kernel):
    kernel.ok("%%agent\n/tea Make some {1 + 1}.")
    text, pinned = last(kernel)
    assert pinned
    assert text.startswith('/tea Make some 2.\n\n<attached name="/tea" about="skill">\n<skill_content name="tea">')
    assert "Pour {water}." in text  # data, not a template
    kernel.ok("%%agent\n/tea More.")
    assert "Pour" not in last(kernel)[0]
    assert "already" in last(kernel)[0]
    for plain in ("/usr/bin is a folder", "/nothing", "Say /tea"):
        kernel.ok(f"%%agent\n{plain}")
        assert last(kernel) == (plain, False)


def test_a_dry_run_shows_what_skills_add(kernel):
    text = kernel.ok("%%agent --dry-run\n/tea Make some.").text
    assert "- tea: Makes tea." in text
    assert "tool: activate_skill(name)" in text
    assert "skills add ≈ " in text
    assert kernel.value("len(seen)") == 0
    assert "skills add" not in kernel.ok("%%agent --dry-run --no-tools\nHello").text


def test_completion(kernel):
    for code, matches in (
        ("%%agent\n/te", ["/tea", "/tea-壶"]),
        ("%%agent\nIs /te", ["/te"]),
        ("%agent skills ", ["use", "trust", "distrust", "reload"]),
    ):
        request = kernel.client.complete(code, len(code))
        while (reply := kernel.client.get_shell_msg(timeout=TIMEOUT))["parent_header"]["msg_id"] != request:
            pass
        assert reply["content"]["matches"] == matches


def test_a_name_in_the_panel_activates_a_skill(kernel):
    panel = Panel(kernel)
    panel.ask("/tea Make some.")
    panel.until_text("answer 1")
    text, pinned = last(kernel)
    assert pinned
    assert "Pour {water}." in text


def test_a_project_is_trusted_by_command(shared):
    shared.ok(
        "import os; os.chdir('project'); agent = Agent(ScriptedProvider(answer)).use(nbagent.SkillHost())",
        allow_stdin=False,
    )
    assert "there is nobody to ask" in shared.ok("%agent skills").result
    assert "off" not in shared.ok("%agent skills trust").result
    assert shared.value("list(nbagent.SkillHost().skills)") == ["cake"]
    assert "is not trusted" in shared.ok("%agent skills distrust").result
    shared.ok("os.chdir('..')")


def test_the_notebook_asks_once_whether_a_project_is_trusted(shared, folder):
    write_skill(folder / "cloned/.agents/skills", "pie", "Bakes.")
    shared.ok("os.chdir('cloned')")
    cell = shared.send("list(nbagent.SkillHost().skills)")
    asked = shared.client.get_stdin_msg(timeout=TIMEOUT)["content"]["prompt"]
    assert asked == f"The project {folder / 'cloned'} has skills: pie. Trust it, and use them? [y/N] "
    shared.client.input("y")
    assert shared.ok(cell).result == "['pie']"
    assert shared.value("list(nbagent.SkillHost().skills)") == ["pie"]
    shared.ok("os.chdir('..')")

"""Panels and cells that share an agent, on any kernel."""

import pytest
from support.kernels import WIPE
from support.panels import Panel, history, script

pytestmark = pytest.mark.kernel


@pytest.fixture
def kernel(shared):
    return shared


def test_a_cell_can_wait_for_a_panel_s_answer(kernel):
    script(kernel, "'one'", "'two'", "RuntimeError('it broke')", "'four'")
    panel = Panel(kernel, "panel = nbagent.ChatPanel(agent)\npanel")
    asked = kernel.ok("panel.ask('first?')")
    assert not asked.of("execute_result", "display_data")
    assert kernel.ok("(await panel.ask('second?')).content").result == "'two'"
    assert kernel.ok("list(agent.trace.runs['prompt'])").result == "['first?', 'second?']"
    assert kernel.run("await panel.ask('third?')").error == "RuntimeError"
    assert kernel.run("await panel.ask(' ')").error == "ConfigurationError"
    assert kernel.ok("print(await panel.ask('fourth?'))").stdout == "four\n"
    panel.until_text("one", "two", "it broke", "is empty", "four")


def test_stop_ends_the_wait_of_a_cell_and_an_interrupted_cell_leaves_the_run(kernel, tmp_path):
    gate = tmp_path / "gate"
    kernel.run(f"agent = Agent(Gated('begun ', 'ended', {str(gate)!r}))")
    panel = Panel(kernel, "panel = nbagent.ChatPanel(agent)\npanel")
    cell = kernel.send("await panel.ask('stopped?')")
    panel.until_text("begun")
    if kernel.takes_clicks:
        panel.click("Stop")
        kernel.wait(cell)
        assert cell.error == "CancelledError"
    else:
        kernel.interrupt()
        kernel.wait(cell)
        panel.click("Stop")
        panel.until_text("Interrupted.")
    cell = kernel.send("await panel.ask('let alone?')")
    panel.until(lambda: panel.text.count("begun") == 2)
    kernel.interrupt()
    kernel.wait(cell)
    assert cell.error in ("CancelledError", "KeyboardInterrupt")
    gate.touch()
    panel.until_text("let alone?", "begun ended")


def test_a_question_that_failed_or_was_refused_stays_on_screen_but_not_in_the_conversation(kernel):
    refused = "nbagent.LLMResponse('', finish_reason='refusal')"
    script(kernel, "'ok one'", "RuntimeError('it broke')", refused, "'ok two'", "'ok three'")
    panel = Panel(kernel)

    def ask_in_vain():
        return kernel.run("%%agent\nasked in vain", cell_id="vain")

    kernel.ok("%%agent\nfirst")
    assert ask_in_vain().error == "RuntimeError"
    panel.until_text("ok one", "asked in vain", "it broke")
    assert "asked in vain" not in history(kernel)
    ask_in_vain()
    panel.until(lambda: "model refused" in panel.text and panel.text.count("asked in vain") == 1)
    assert "asked in vain" not in history(kernel)
    kernel.ok("%%agent\nthird")
    panel.until_text("ok one", "asked in vain", "model refused", "third", "ok two")
    kernel.ok(ask_in_vain())
    panel.until(lambda: "ok three" in panel.text and "model refused" not in panel.text)
    assert history(kernel).count("asked in vain") == 1


def test_switching_a_tool_in_a_cell_or_panel_shows_in_both(kernel):
    kernel.run(WIPE)
    script(kernel, "'x'")
    panel = Panel(kernel)
    panel.tab("Setup")
    panel.until(lambda: panel.tools.get("wipe") is True)
    kernel.run("%agent tools drop wipe")
    panel.until(lambda: panel.tools.get("wipe") is False)
    panel.tell("offer", ["wipe", True])
    panel.until(lambda: kernel.run("agent.offered_tools()").result == "['wipe']")


def test_a_waiting_question_says_what_it_waits_for(kernel, tmp_path):
    gate = tmp_path / "gate"
    kernel.run(f"agent = Agent(Gated('begun ', 'ended', {str(gate)!r}))")
    one, two = Panel(kernel), Panel(kernel)
    cell = kernel.ok("task = asyncio.create_task(agent.chat('from the cell'))")  # old kernels take no clicks in a cell
    one.until_text("begun")
    number = cell.of("execute_input")[0]["execution_count"]
    one.ask("from one panel")
    one.until_text(f"waiting for the run in cell [{number}] to end…")
    two.ask("from the other")
    one.until_text("waiting for another panel's prompt…")
    waiting = kernel.send("%%agent\nfrom a cell")
    kernel.until(waiting, lambda: "waiting for an earlier prompt to this agent…" in waiting.text)
    gate.touch()
    one.until(lambda: one.text.count("begun ended") == 4)
    assert "waiting" not in one.text
    kernel.wait(waiting)


def test_retry_keeps_the_draft_and_shows_a_failure(kernel):
    script(kernel, "'a'", "RuntimeError('no')", "'c'")
    panel = Panel(kernel)
    panel.ask("one")
    panel.type("a draft")
    panel.click("Retry")
    panel.until_text("RuntimeErrorno")
    assert history(kernel) == "[('user', 'one'), ('assistant', 'a')]"
    panel.edit(-1)
    panel.until(lambda: panel.box == "one")
    panel.tell("leave")
    panel.click("Retry")
    panel.until(lambda: "c" in panel.text and "RuntimeError" not in panel.text and panel.text.count("one") == 1)


def test_stop_returns_unsent_prompts_to_the_box(kernel):
    kernel.ok("agent = Agent(Gated('begun ', 'never'))")
    panel = Panel(kernel)
    panel.ask("first")
    panel.until_text("begun")
    panel.ask("second")
    panel.ask("third")
    panel.until(lambda: panel.text.count("waiting for the prompt before it…") == 2)
    panel.click("Stop")
    panel.until(lambda: panel.box == "second\n\nthird")
    assert history(kernel) == "[('user', 'first'), ('assistant', 'begun ')]"

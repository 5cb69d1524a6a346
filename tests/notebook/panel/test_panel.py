"""The chat panel in a real kernel, driven by the messages that a front end sends."""

import json
import re

import pytest
from support.kernels import WIPE
from support.panels import Panel, history, result, script

pytestmark = pytest.mark.kernel


@pytest.fixture
def kernel(shared):
    """The kernel of this file, without the tools and messages of the previous test."""
    shared.forget()
    shared.ok("for name in nbagent.live.names(): nbagent.live.unregister(name)")
    return shared


def test_cells_and_panels_are_one_conversation(kernel):
    script(kernel, "'from a cell'", "'from the panel'", "'again a cell'")
    assert kernel.run("%%agent\nfirst").status == "ok"
    panel = Panel(kernel)
    other = Panel(kernel, "%agent panel")
    panel.until_text("first", "from a cell")
    panel.ask("second")
    panel.until_text("second", "from the panel")
    other.tab("Trace")
    assert kernel.run("%%agent\nthird").status == "ok"
    other.until(lambda: "third" in other.state["trace"])  # an open trace follows cells
    other.tab("Chat")
    for each in (panel, other):
        each.until_text("first", "from a cell", "second", "from the panel", "third", "again a cell")
        assert re.search(r"cell \[\d+\]third", each.text)
    assert history(kernel).count("'user'") == 3
    kernel.run("agent.undo()")
    panel.until(lambda: "third" not in panel.text and "second" in panel.text)
    kernel.run("agent.clear_history()")
    other.until(lambda: "second" not in other.text)


def test_an_empty_panel_greets_with_tools_data_and_questions_about_it(kernel):
    kernel.ok("import pandas as pd\nids, orders, n = pd.Series([1]), pd.DataFrame({'total': [3, 4]}), [5]")
    kernel.ok(
        "@nbagent.tool\ndef mean_of(column: str) -> float:\n    'Mean of a column.\\n\\nIn grams.'\n    return 1.0"
    )
    script(kernel, "'hello'")
    panel = Panel(kernel)
    greeting = panel.state["greeting"]
    assert ["mean_of", "Mean of a column."] in greeting["tools"]
    assert greeting["variables"][:2] == [["@orders", "DataFrame 2×1"], ["@ids", "Series 1"]]
    assert greeting["prompts"] == ["What is in @orders?", "What is in @ids?", "What can you do here?"]
    panel.ask(greeting["prompts"][0])
    panel.until(lambda: "greeting" not in panel.state)


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        (["LLMResponse('On', None, 'length', {'finish_reason_raw': 'max_tokens'})"], "is cut off (max_tokens)"),
        (["LLMResponse('', None, None, {'finish_reason_raw': 'OTHER'})"] * 2, "answered nothing (OTHER)."),
    ],
)
def test_an_incomplete_answer_says_so_in_cell_and_panel(kernel, turns, said):
    script(kernel, *turns, *turns)
    assert said in kernel.ok("%%agent\nfirst").text
    panel = Panel(kernel)
    panel.ask("second")
    panel.until(lambda: re.search(f"first.*{re.escape(said)}.*second.*{re.escape(said)}", panel.text, re.DOTALL))


def test_stop_denies_the_call_that_waits_for_approval(kernel):
    kernel.ok(WIPE)
    script(kernel, "FunctionCall('helper', {'question': 'wipe'}, 'c')", "'done'")
    kernel.ok("nbagent.live.add(Agent(ScriptedProvider([call, 'ok']), tools=[wipe]).as_tool('helper', 'Helps.'))")
    panel = Panel(kernel)
    panel.ask("wipe it")
    panel.until_text("helper(", "wipe asks to run", 'table = "cities"')  # both calls have the same provider id
    assert "wipe(" not in panel.text, "the call is shown once"
    panel.click("Stop")
    panel.until_text("Interrupted.")
    assert "asks to run" not in panel.text
    assert result(kernel, "wiped, agent.trace.tool_calls['error_type'].tolist()") == "([], ['interrupted'])"


def test_a_later_panel_shows_the_model_s_arguments_and_those_that_ran(kernel):
    kernel.ok(WIPE)
    script(kernel, "call", "'done'")
    panel = Panel(kernel)
    panel.ask("wipe it")
    panel.until_text("wipe asks to run")
    panel.click("Edit")
    panel.set({"value": json.dumps({"table": "rivers", "rows": 1})}, description="Arguments, as JSON")
    panel.click("Approve")
    panel.until_text("done")
    assert result(kernel, "wiped") == "[('rivers', 1)]"
    for shown in (panel, Panel(kernel)):
        shown.until_text('wipe(table="rivers", rows=1) edited', 'asked for by the model{"table": "cities", "rows": 3}')


def test_model_tools_and_prompt(kernel):
    kernel.ok(WIPE)
    kernel.ok("@tool\ndef add(a: int) -> int:\n    'Add.'\n    return a")
    script(kernel)
    kernel.ok("agent.provider = ScriptedProvider(lambda m, f: str((m[0].text, [t['name'] for t in f or []])))")
    panel = Panel(kernel)
    panel.tab("Setup")
    panel.tell("offer", ["wipe", False])
    panel.tell("prompt", "Be brief.")
    panel.tell("offer", ["web_search", True])
    panel.tab("Chat")
    panel.ask("who")
    panel.until_text("('Be brief.', ['add', 'web_search'])")
    panel.choose_model("nobody:knows")
    panel.until_text("nobody:knows: Unknown provider 'nobody'")
    panel.choose_model("open_source:qwen")
    panel.until(lambda: "Unknown provider" not in panel.text and panel.state["model"]["name"] == "qwen")


def test_streaming_a_long_answer_sends_little(kernel):
    def sent():
        return len(json.dumps([m["content"] for m in kernel.messages() if m["msg_type"].startswith("comm_")]))

    kernel.ok("answer = '\\n\\n'.join('word ' * 20 + str(i) for i in range(115))")
    kernel.ok("agent = Agent(ScriptedProvider([answer], delay=0.0015))")
    panel = Panel(kernel)
    before = sent()
    panel.ask("go")
    panel.until_text(" 114", " s")
    assert sent() - before < 300_000


def test_a_closed_panel_stops_listening(kernel):
    script(kernel, "'a'", "'b'")
    panel = Panel(kernel, "panel = nbagent.ChatPanel(agent); panel")
    panel.ask("one")
    panel.until(lambda: panel.can("Retry"))
    kernel.run("panel.close()")
    kernel.run("%%agent\ntwo")
    kernel.ok("while agent.observers: time.sleep(0.01)")
    again = Panel(kernel)
    again.until_text("one", "a", "two", "b")


def test_a_panel_needs_an_agent(kernel):
    cell = kernel.run("nbagent.ChatPanel('openai')")
    assert cell.error == "ConfigurationError"
    assert "expected an Agent, got 'openai'" in cell.reply["content"]["evalue"]


def test_the_panel_s_prompts_have_the_tags_of_the_open_block(kernel):
    script(kernel, "'one'", "'two'", "'three'")
    panel = Panel(kernel, "with agent.tagged('made'):\n    panel = nbagent.ChatPanel(agent)\npanel")
    panel.ask("before")
    panel.until_text("one")
    kernel.ok("block = agent.tagged('exam', user='u1'); block.__enter__()")  # for the cells that follow
    panel.ask("meanwhile")
    panel.until_text("two")
    kernel.ok("block.__exit__(None, None, None)")
    panel.ask("after")
    panel.until_text("three")
    labels = "agent.trace.runs[['tags', 'user']].astype(object).fillna('').to_numpy().tolist()"
    assert result(kernel, labels) == "[['', ''], ['[\"exam\"]', 'u1'], ['', '']]"

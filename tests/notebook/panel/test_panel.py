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


@pytest.fixture
def clicking(kernel):
    """A kernel that takes clicks while a cell runs."""
    if not kernel.takes_clicks:
        pytest.skip("kernels before ipykernel 7 take clicks between cells only")


def test_cells_and_panels_are_one_conversation(kernel):
    script(kernel, "'from a cell'", "'from the panel'", "'again a cell'")
    assert kernel.run("%%agent\nfirst").status == "ok"
    panel = Panel(kernel)
    other = Panel(kernel, "%agent panel")
    panel.until_text("first", "from a cell")
    panel.ask("second")
    panel.until_text("second", "from the panel")
    assert kernel.run("%%agent\nthird").status == "ok"
    for each in (panel, other):
        each.until_text("first", "from a cell", "second", "from the panel", "third", "again a cell")
        assert re.search(r"cell \[\d+\]third", each.text)
    assert history(kernel).count("'user'") == 3
    kernel.run("agent.undo()")
    panel.until(lambda: "third" not in panel.text and "second" in panel.text)
    kernel.run("agent.clear_history()")
    other.until(lambda: "second" not in other.text)


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        ("LLMResponse('On', None, 'length', {'finish_reason_raw': 'max_tokens'})", "is cut off (max_tokens)"),
        ("LLMResponse('', None, 'content_filter', {'finish_reason_raw': 'SAFETY'})", "blocked the answer (SAFETY)"),
    ],
)
def test_an_answer_that_is_not_whole_says_so_in_cell_and_panel(kernel, turn, said):
    script(kernel, turn, turn)
    assert said in kernel.ok("%%agent\nfirst").text
    panel = Panel(kernel)
    panel.until_text("first", said)
    panel.ask("second")
    panel.until(lambda: panel.text.count(said) == 2)


def test_enter_sends_and_a_backslash_breaks_the_line(kernel):
    script(kernel)
    kernel.run("agent.provider = ScriptedProvider(lambda m, f: repr(m[-1].text.upper()))")
    panel = Panel(kernel)
    panel.type("one")
    panel.type("one\\\n")
    panel.until(lambda: panel.find(value="one\n"))
    panel.type("one\ntwo\n")
    panel.until_text("'ONE\\nTWO'")
    assert panel.find(description="Your question", value="")
    panel.type("a pasted text that is longer than what one types\n")  # waits for a person
    panel.type("")
    panel.ask("three")
    panel.until_text("'THREE'")
    assert history(kernel).count("'user'") == 2


def test_the_script_in_the_page_sends_the_question(kernel):
    script(kernel, "'a'", "'b'")
    panel = Panel(kernel)
    page = panel.find(_model_name="AnyModel")
    kernel.tell(page, method="custom", content={"ready": True})
    panel.until(lambda: panel.find(placeholder="Ask, or Shift-Enter for a new line"))
    panel.type("one")
    panel.type("one\n")  # by Shift-Enter: nothing is sent
    panel.type("one\ntwo")
    kernel.tell(page, method="custom", content={"ask": "one\ntwo"})
    panel.type("")
    panel.until(lambda: panel.states()[page]["announcement"] == "a")
    assert history(kernel) == "[('user', 'one\\ntwo'), ('assistant', 'a')]"


def test_stop_keeps_the_text_so_far(kernel, tmp_path):
    kernel.run("agent = Agent(Gated('begun ', 'ended'))")
    panel = Panel(kernel)
    assert panel.states()[panel.find(description="Stop")]["disabled"]
    panel.ask("go")
    panel.until_text("begun")
    panel.click("Stop")
    panel.until_text("Interrupted.")
    assert history(kernel) == "[('user', 'go'), ('assistant', 'begun ')]"
    kernel.run("agent.provider = ScriptedProvider(['fine'])")
    panel.ask("next")
    panel.until_text("fine")
    assert result(kernel, "agent.trace.runs['status'].tolist()") == "['interrupted', 'ok']"


def test_the_panel_says_when_a_cell_blocks_the_kernel(kernel, tmp_path):
    script(kernel, "'a'")
    panel = Panel(kernel)
    gate = tmp_path / "gate"
    cell = kernel.send(f"while not os.path.exists({str(gate)!r}): time.sleep(0.01)")
    panel.until_text("The kernel is busy with a cell")
    gate.touch()
    kernel.wait(cell)
    panel.until(lambda: "busy" not in panel.text)
    cell = kernel.send("await asyncio.sleep(2.5)")
    kernel.wait(cell)
    kernel.run("1")
    told = [
        m["content"]["data"].get("state", {}).get("value", "") for m in cell.messages if m["msg_type"] == "comm_msg"
    ]
    assert not any("busy" in str(value) for value in told)


def test_errors_are_shown_and_retried(kernel):
    script(kernel, "RuntimeError('it <b>broke</b>')", "'works'")
    panel = Panel(kernel)
    panel.ask("try")
    panel.until_text("RuntimeErrorit <b>broke</b>")
    panel.click("Retry")
    panel.until_text("works")
    assert "broke" not in panel.text
    assert history(kernel) == "[('user', 'try'), ('assistant', 'works')]"
    assert not [m for m in kernel.elsewhere if m["msg_type"] in ("stream", "error")]


def test_the_last_question_can_be_edited(kernel):
    script(kernel, "'a'", "'b'", "'c'")
    panel = Panel(kernel)
    for question in ("one", "two"):
        panel.ask(question)
        panel.until(lambda: panel.find(description="Edit"))
    panel.until_text("two", "b")
    panel.click("Edit")
    panel.until(lambda: panel.find(description="Your question", value="two"))
    panel.until_text("Editing your last question")
    panel.ask("three")
    panel.until_text("three", "c")
    expected = "[('user', 'one'), ('assistant', 'a'), ('user', 'three'), ('assistant', 'c')]"
    assert history(kernel) == expected


@pytest.mark.parametrize(
    ("button", "wiped", "approval"),
    [
        ("Approve", "[('cities', 3)]", "approved"),
        ("Deny", "[]", "denied"),
        ("Edit", "[('rivers', 1)]", "edited"),
        ("Stop", "[]", "interrupted"),
    ],
)
def test_a_tool_asks_for_approval_in_the_panel(kernel, button, wiped, approval):
    kernel.run(WIPE)
    script(kernel, "call", "'done'")
    panel = Panel(kernel)
    panel.ask("wipe it")
    panel.until_text("wipe asks to run", 'table = "cities"', "waiting for you…")
    assert "running…" not in panel.text
    panel.click(button)
    if button == "Edit":
        panel.until(lambda: panel.find(description="Arguments, as JSON"))
        panel.set({"value": json.dumps({"table": "rivers", "rows": 1})}, description="Arguments, as JSON")
        panel.click("Approve")
    panel.until_text("Interrupted." if button == "Stop" else "done")
    assert "asks to run" not in panel.text
    assert "waiting for you" not in panel.text
    for shown in (panel, Panel(kernel)):  # a panel made later shows the same
        shown.until_text("wipe(")
        is_edited = 'wipe(table="rivers", rows=1) edited' in shown.text
        assert is_edited == (button == "Edit")
        assert is_edited == ('asked for by the model{"table": "cities", "rows": 3}' in shown.text)
    assert result(kernel, "wiped") == wiped
    column = "error_type" if button == "Stop" else "approval"
    assert result(kernel, f"agent.trace.tool_calls[{column!r}].tolist()") == f"[{approval!r}]"


@pytest.mark.parametrize("where", ["thread", "main thread"])
def test_stop_ends_a_sync_tool(kernel, where):
    kernel.run(f"""@tool(main_thread={where == "main thread"})
def spin() -> str:
    'Spin.'
    nbagent.spins = True
    try:
        time.sleep(0.001)
        while True: time.sleep(0.01)
    finally:
        nbagent.spins = False""")
    script(kernel, "FunctionCall('spin', {}, 'c')")
    panel = Panel(kernel)
    panel.ask("go")
    panel.until_text("spin()", "running…")
    if where == "thread":
        panel.click("Stop")
    else:  # the main thread takes no clicks meanwhile
        kernel.interrupt()
    panel.until_text("Interrupted.", "interrupted")
    assert result(kernel, "nbagent.spins") == "False"
    assert result(kernel, "agent.trace.tool_calls['error_type'].tolist()") == "['interrupted']"
    Panel(kernel).until_text("Interrupted.", "spin() interrupted")


def test_model_tools_and_prompt(kernel):
    kernel.run(WIPE)
    kernel.run("provider = ScriptedProvider(lambda m, f: str((m[0].text, [t['name'] for t in f or []])))")
    kernel.run("@tool\ndef add(a: int) -> int:\n    'Add.'\n    return a")
    script(kernel, "'x'")
    kernel.run("agent.provider = provider")
    panel = Panel(kernel)
    panel.tab("Setup")
    panel.set({"value": False}, description="wipe")
    panel.set({"value": "Be brief."}, description="System prompt")
    panel.tab("Chat")
    panel.ask("who")
    panel.until_text("('Be brief.', ['add'])")
    panel.tab("Setup")
    panel.set({"value": True}, description="web_search")
    panel.tab("Chat")
    panel.ask("and now?")
    panel.until_text("('Be brief.', ['add', 'web_search'])")
    panel.choose_model("nobody:knows")
    panel.until_text("nobody:knows: Unknown provider 'nobody'")
    assert kernel.run("agent.provider is provider").result == "True"
    panel.choose_model("open_source:qwen")
    panel.until(lambda: "Unknown provider" not in panel.text and panel.find(description="qwen"))
    assert kernel.run("agent.provider.model_name").result == "'qwen'"
    panel.choose_model("scripted:scripted")
    panel.until(lambda: kernel.run("agent.provider is provider").result == "True")


def test_meter_and_trace(kernel):
    usage = "LLMResponse('hi', None, 'stop', {'usage': nbagent.Usage(1000, 200)})"
    script(kernel, usage, "'<b>bold</b>'", options=", limits=nbagent.Limits(max_total_tokens=5000)")
    panel = Panel(kernel)
    panel.ask("<i>tell</i>")
    panel.until_text("1,200 tokens")
    panel.until(lambda: "Last run: 1,200 of 5,000 tokens (24%)" in panel.html())
    assert 'width:24%"' in panel.html()
    panel.tab("Trace")
    panel.until_text("agent.trace.runs", "<i>tell</i>", "Nothing yet.")
    assert "<i>" not in panel.html()
    kernel.run("%%agent\nmore")
    panel.until_text("<b>bold</b>")
    assert "<b>bold" not in panel.html()


def test_streaming_a_long_answer_sends_little(kernel):
    kernel.run("answer = '\\n\\n'.join('word ' * 20 + str(i) for i in range(115))")
    script(kernel, "answer", options="")
    kernel.run("agent.provider = ScriptedProvider([answer], delay=0.0015)")
    panel = Panel(kernel)
    made = sent_to_widgets(kernel)
    panel.ask("go")
    panel.until_text(" 114", " s")
    assert sent_to_widgets(kernel) - made < 200_000


def sent_to_widgets(kernel):
    """Characters of all messages to widgets, styles and scripts of a new panel included."""
    sent = [m["content"] for m in kernel.messages() if m["msg_type"].startswith("comm_")]
    return sum(len(json.dumps(content)) for content in sent)


def test_a_closed_panel_stops_listening(kernel):
    script(kernel, "'a'", "'b'")
    panel = Panel(kernel, "panel = nbagent.ChatPanel(agent); panel")
    panel.ask("one")
    panel.until_text("a")
    kernel.run("panel.close()")
    kernel.run("%%agent\ntwo")
    kernel.ok("while agent.observers: time.sleep(0.01)")
    again = Panel(kernel)
    again.until_text("one", "a", "two", "b")


def test_a_panel_needs_an_agent(kernel):
    cell = kernel.run("nbagent.ChatPanel('openai')")
    assert cell.error == "ConfigurationError"
    assert "expected an Agent, got 'openai'" in cell.reply["content"]["evalue"]


TAGGED = """
import asyncio
from pathlib import Path
with agent.tagged("exam", user="u1"):
    print("open", flush=True)
    while not Path({gate!r}).exists():
        await asyncio.sleep(0.01)
"""


def labels(kernel):
    """Of each question, by its text: the tags and the user."""
    code = "agent.trace.runs.set_index('prompt')[['tags', 'user']].astype(object).fillna('').T.to_dict('list')"
    return kernel.ok(code).result


def test_what_the_panel_is_asked_has_the_labels_of_a_block_that_is_open_then(kernel, clicking, tmp_path):
    script(kernel, "'one'", "'two'", "'three'")
    panel = Panel(kernel)
    panel.ask("before")
    panel.until_text("one")
    gate = tmp_path / "gate"
    cell = kernel.send(TAGGED.format(gate=str(gate)))
    kernel.until(cell, lambda: "open" in cell.stdout)
    panel.ask("meanwhile")
    panel.until_text("two")
    gate.touch()
    kernel.wait(cell)
    panel.ask("after")
    panel.until_text("three")
    assert labels(kernel) == "{'before': ['', ''], 'meanwhile': ['[\"exam\"]', 'u1'], 'after': ['', '']}"


def test_a_panel_that_was_made_in_a_block_is_labelled_only_while_it_is_open(kernel):
    script(kernel, "'one'", "'two'")
    panel = Panel(kernel, "with agent.tagged('exam'):\n    panel = nbagent.ChatPanel(agent)\npanel")
    panel.ask("after")
    panel.until_text("one")
    kernel.run("block = agent.tagged('exam', user='u1'); block.__enter__()")  # for the cells that follow
    panel.ask("in it")
    panel.until_text("two")
    kernel.run("block.__exit__(None, None, None)")
    assert labels(kernel) == "{'after': ['', ''], 'in it': ['[\"exam\"]', 'u1']}"


def test_a_question_that_waits_for_the_cell_has_the_labels_of_when_it_was_sent(kernel, clicking, tmp_path):
    gate = tmp_path / "gate"
    kernel.run(f"agent = Agent(Gated('begun ', 'ended', {str(gate)!r}))")
    panel = Panel(kernel)
    cell = kernel.send("with agent.tagged('exam'):\n    await agent.chat('from the cell')")
    panel.until_text("begun")
    panel.ask("from the panel")
    panel.until_text("Waiting for the run in cell [")
    gate.touch()
    kernel.wait(cell)
    panel.until(lambda: panel.text.count("begun ended") == 2)
    assert labels(kernel) == "{'from the cell': ['[\"exam\"]', ''], 'from the panel': ['[\"exam\"]', '']}"

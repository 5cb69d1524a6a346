"""Tools' printed and displayed output belongs to their call: live, in cells and panels, in the trace, for the model."""

import json
import re

import pytest
from support.hostile import PAYLOADS
from support.panels import Panel, result, script

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.chat.tool_call import outputs_html
from nbagent.core.current import current
from nbagent.core.tool_output import MAX_DISPLAYS, MAX_IMAGES, MAX_TEXT

TOOLS = """
import sys, warnings
import pandas as pd
from tqdm import tqdm
import matplotlib.pyplot as plt
gate = {gate!r}
def show():
    print('printed')
    warnings.warn('take care')
    display(pd.DataFrame({{'size': [41]}}))
    for _ in tqdm(range(3), desc='counting'): pass
    plt.plot([1, 2])
    plt.show()
@tool
def work() -> str:
    'Work.'
    show()
    while not os.path.exists(gate): time.sleep(0.01)
    print('at the end')
    return 'ok'
"""


@pytest.fixture
def kernel(shared, tmp_path):
    shared.ok(TOOLS.format(gate=str(tmp_path / "gate")))
    return shared


def shown_in(panel):
    panel.until_text("printed", "take care", "counting: 100%", "41")
    panel.until(lambda: panel.html().count('src="data:image/png;base64,') == 1)
    assert "<table" in panel.html()


def published(kernel, text):
    """Messages outside of panels that have this text."""
    shown = [json.dumps(m["content"]) for m in kernel.messages() if m["msg_type"] in ("stream", "display_data")]
    return [content for content in shown if text in content and "nbagent-saved" not in content]


@pytest.mark.kernel
def test_a_panel_shows_it_live_and_later(kernel, tmp_path):
    script(kernel, "FunctionCall('work', {}, 'c')", "'done'")
    panel = Panel(kernel)
    panel.ask("go")
    shown_in(panel)
    assert "at the end" not in panel.text
    (tmp_path / "gate").touch()
    panel.until_text("at the end", "done")
    outputs = json.loads(kernel.value("agent.trace.rows('tool_calls')[0]['outputs']"))
    assert outputs[0] == {"stream": "stdout", "text": "printed\n"}
    assert any("image/png" in part for part in outputs)
    later = Panel(kernel)
    shown_in(later)
    assert "at the end" in later.text
    assert not published(kernel, "printed"), "nothing is left for the log console"
    assert not published(kernel, "image/png")


@pytest.mark.kernel
def test_a_cell_shows_it_as_usual_and_a_panel_beside_it_too(kernel, tmp_path):
    script(kernel, "FunctionCall('work', {}, 'c')", "'done'")
    panel = Panel(kernel)
    cell = kernel.send("%%agent\ngo")
    shown_in(panel)
    assert cell.reply is None
    assert cell.stdout == "printed\n"
    (tmp_path / "gate").touch()
    kernel.ok(cell)
    assert cell.stdout == "printed\nat the end\n"
    assert sum("image/png" in bundle for bundle in cell.displays) == 1
    assert "printed" not in cell.html


@pytest.mark.kernel
@pytest.mark.parametrize("show", [";", "\nplt.show()"])
def test_the_plots_of_run_code_are_shown_once_and_go_to_the_model(kernel, show):
    kernel.ok("from nbagent.notebook.kernel_tools.kernel_tools import kernel_tools")
    call = FunctionCall("run_code", {"code": f"import matplotlib.pyplot as plt\nplt.plot([3, 1, 2]){show}\nNone"})
    turns = f"[FunctionCall('run_code', {call.arguments!r}), 'seen'] * 2"
    kernel.ok(f"agent = Agent(ScriptedProvider({turns}), tools=kernel_tools(), approve=lambda *_: True)")
    cell = kernel.ok("%%agent\nplot")
    assert sum("image/png" in bundle for bundle in cell.displays) == 1
    assert "data:image/png" not in cell.html
    panel = Panel(kernel)
    panel.until(lambda: panel.html().count('src="data:image/png;base64,') == 1)
    panel.ask("again")
    panel.until(lambda: panel.text.count("seen") == 2 and panel.html().count('src="data:image/png;base64,') == 2)
    kinds = "[[part['type'] for part in agent.conversation_history[n].content] for n in (2, 6)]"
    assert result(kernel, kinds) == "[['image'], ['image']]"
    assert kernel.value("plt.get_fignums()") == []


@pytest.mark.kernel
def test_a_plot_with_characters_that_no_font_has_causes_no_warnings(kernel):
    kernel.ok("""
@tool
def draw() -> str:
    'Draw.'
    plt.bar(["\\U00020000", "a"], [1, 2])
    plt.title("\\U00020001")
    plt.xlabel("\\U00020002 $x^2$")
    return 'drawn'
agent = Agent(ScriptedProvider([FunctionCall('draw', {}), 'Done.']), tools=[draw])""")
    cell = kernel.ok("%%agent\ndraw")
    assert sum("image/png" in bundle for bundle in cell.displays) == 1
    assert "glyph" not in f"{cell.stdout}{cell.stderr}{cell.html}".lower()


@pytest.mark.kernel
def test_typing_in_a_panel_leaves_the_figure_that_a_tool_draws_alone(kernel, tmp_path):
    kernel.ok("""
@tool
def draw() -> str:
    'Draw.'
    figure = plt.figure()
    print('drawing')
    while not os.path.exists(gate): time.sleep(0.01)
    return 'whole' if plt.gcf() is figure else 'torn'
agent = Agent(ScriptedProvider([FunctionCall('draw', {}), 'Done.']), tools=[draw])""")
    panel = Panel(kernel)
    panel.ask("go")
    panel.until_text("drawing")
    panel.tell("typed", "more")
    panel.until(lambda: panel.state["draft"]["line"])
    (tmp_path / "gate").touch()
    panel.until_text("Done.")
    assert "whole" in panel.text


# -- without a kernel -------------------------------------------------------------------------------------------------


def outputs_of(act):
    """The output that the trace keeps of a tool with a `ToolOutput`."""

    def tool() -> str:
        """Work."""
        act(current.get().call.output)
        return "ok"

    agent = Agent(ScriptedProvider([FunctionCall("tool", {}, "c"), "done"]), tools=[tool])
    agent.chat_sync("go")
    return agent.trace.tool_calls["outputs"].iloc[0]


def test_output_is_bounded():
    def act(output):
        for number in range(1000):
            output.write(f"{number} " * 1000)
            output.display({"text/plain": "x" * 1000, "image/png": "A" * (MAX_IMAGES // 3)})

    assert len(outputs_of(act)) < MAX_TEXT * 2 + MAX_IMAGES + MAX_DISPLAYS * 1_100


def test_only_the_last_state_is_kept():
    def act(output):
        output.write("gone")
        output.clear()
        for percent in range(100):
            output.write(f"\r{percent} %", "stderr")
        output.display({"text/plain": "before"}, "id")
        output.display({"text/plain": "after"}, "id", update=True)

    assert outputs_of(act) == '[{"stream":"stderr","text":"99 %"},{"text/plain":"after"}]'


LIVE = re.compile(
    r"<(script|img|iframe|svg|object|embed|form|input|meta|link|base|style|math)\b"
    r"|<[^>]*\s(on\w+|srcdoc|src)\s*="
    r'|href="(?!https?:|mailto:|#)',
    re.IGNORECASE,
)


@pytest.mark.parametrize("kind", ["text", "text/html"])
def test_hostile_output_is_harmless(kind):
    pages = {payload.text: outputs_html([{kind: payload.text}])[0] for payload in PAYLOADS}
    inside = {text: re.sub(r"^<div[^>]*>|</div>$", "", page) for text, page in pages.items()}
    assert [text for text, page in inside.items() if LIVE.search(page)] == []

"""What tools print and display belongs to their call: live, in cells and panels, in the trace, and for the model."""

import json
import re

import pytest
from support.hostile import PAYLOADS
from support.panels import Panel, result, script

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.core import events, tool_output
from nbagent.core.tool_output import MAX_DISPLAYS, MAX_IMAGES, MAX_TEXT, current_output
from nbagent.notebook.display import transcript as transcript_module
from nbagent.notebook.display.tool_call import outputs_html
from nbagent.notebook.display.transcript import Transcript

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
@tool(main_thread=True)
def on_main() -> str:
    'Work.'
    show()
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
    panel.until(lambda: re.search(r"running… [1-9]\d* s", panel.text))
    assert "at the end" not in panel.text
    (tmp_path / "gate").touch()
    panel.until_text("at the end", "done")
    outputs = json.loads(
        result(kernel, "agent.trace.tool_calls['outputs'].iloc[0]")[1:-1].encode().decode("unicode_escape")
    )
    assert outputs[0] == {"stream": "stdout", "text": "printed\n"}
    assert any("image/png" in part for part in outputs)
    later = Panel(kernel)
    shown_in(later)
    assert "at the end" in later.text
    assert not published(kernel, "printed"), "nothing is left for the log console"
    assert not published(kernel, "take care")
    assert not published(kernel, "image/png")


WIDGETS = """
import ipywidgets
from tqdm.notebook import tqdm as bar
slider = ipywidgets.IntSlider(7)
@tool
def slide() -> str:
    'Show a slider and a progress bar.'
    display(slider)
    for _ in bar(range(3), desc='counting'): pass
    return 'ok'
"""


@pytest.mark.kernel
def test_a_panel_shows_widgets_live_and_their_text_later(kernel):
    kernel.ok(WIDGETS)
    script(kernel, "FunctionCall('slide', {}, 'c')", "'done'")
    panel = Panel(kernel)
    panel.ask("go")
    panel.until_text("done")
    slider = kernel.value("slider.model_id")
    live = [state["outputs"][0]["data"] for state in kernel.widgets().values() if state.get("outputs")]
    assert [each["application/vnd.jupyter.widget-view+json"]["model_id"] == slider for each in live] == [True, False]
    assert f'data-nbagent-widget="{slider}"' in panel.html()
    kept = json.loads(kernel.value("agent.trace.rows('tool_calls')[0]['outputs']"))
    assert [part["text/plain"][:9] for part in kept] == ["IntSlider", "counting:"]
    assert kept[0]["widget"] == slider
    later = Panel(kernel)
    later.until_text("IntSlider(value=7)", "counting:")


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
def test_of_tools_on_the_main_thread_too(kernel):
    script(kernel, "FunctionCall('on_main', {}, 'c')", "'done'")
    panel = Panel(kernel)
    panel.ask("go")
    panel.until_text("done")
    shown_in(panel)
    assert "at the end" in panel.text


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("place", "show"), [("panel", ""), ("panel", "\nplt.show()"), ("panel", "\nplt.gcf()"), ("cell", "\nplt.show()")]
)
def test_the_plots_of_run_code_are_shown_once_and_go_to_the_model(kernel, place, show):
    kernel.ok("from nbagent.notebook.kernel_tools.kernel_tools import kernel_tools")
    code = f"import matplotlib.pyplot as plt\nplt.plot([3, 1, 2]){';' if not show else ''}{show}\nNone"
    call = f"FunctionCall('run_code', {{'code': {code!r}}}, 'c')"
    kernel.ok(f"agent = Agent(ScriptedProvider([{call}, 'seen']), tools=kernel_tools(), approve=lambda *_: True)")
    if place == "cell":
        cell = kernel.ok("%%agent\nplot")
        assert sum("image/png" in bundle for bundle in cell.displays) == 1
        assert "data:image/png" not in cell.html
    panel = Panel(kernel)
    if place == "panel":
        panel.ask("plot")
    panel.until_text("seen")
    panel.until(lambda: panel.html().count('src="data:image/png;base64,') == 1)
    kinds = "[part['type'] for part in agent.conversation_history[2].content]"
    assert result(kernel, kinds) == "['image']"
    assert kernel.value("plt.get_fignums()") == []


# -- without a kernel -------------------------------------------------------------------------------------------------


def of_call(act):
    """Run a tool that gets its `ToolOutput`. Returns the agent and the events that its observers saw."""

    def tool() -> str:
        """Work."""
        act(current_output.get())
        return "ok"

    agent, seen = Agent(ScriptedProvider([FunctionCall("tool", {}, "c"), "done"]), tools=[tool]), []
    agent.observers.append(seen.append)
    agent.chat_sync("go")
    return agent, seen


def test_output_is_bounded():
    def act(output):
        for number in range(1000):
            output.write(f"{number} " * 1000)
            output.display({"text/plain": "x" * 1000, "image/png": "A" * (MAX_IMAGES // 3)})

    agent, _ = of_call(act)
    row = agent.trace.tool_calls["outputs"].iloc[0]
    assert len(row) < MAX_TEXT * 2 + MAX_IMAGES + MAX_DISPLAYS * 1_100
    assert len(json.loads(row)) <= 2 * MAX_DISPLAYS


def test_a_progress_bar_keeps_its_last_state():
    agent, _ = of_call(lambda output: [output.write(f"\r{n} %", "stderr") for n in range(100)])
    assert agent.trace.tool_calls["outputs"].iloc[0] == '[{"stream":"stderr","text":"99 %"}]'


def test_an_updated_display_replaces_the_old_one_and_clearing_forgets():
    def act(output):
        output.write("gone")
        output.clear()
        output.display({"text/plain": "before"}, "id")
        output.display({"text/plain": "after"}, "id", update=True)

    agent, _ = of_call(act)
    assert agent.trace.tool_calls["outputs"].iloc[0] == '[{"text/plain":"after"}]'


def test_nothing_is_recorded_without_output():
    agent, seen = of_call(lambda output: None)
    assert agent.trace.tool_calls["outputs"].isna().all()
    assert not any(isinstance(event, events.ToolPrinted) for event in seen)


LIVE = re.compile(
    r"<(script|img|iframe|svg|object|embed|form|input|meta|link|base|style|math)\b"
    r"|<[^>]*\s(on\w+|srcdoc|src)\s*="
    r'|href="(?!https?:|mailto:|#)',
    re.IGNORECASE,
)


@pytest.mark.parametrize("kind", ["text", "text/plain", "text/html"])
def test_hostile_output_is_harmless(kind):
    pages = {payload.text: outputs_html([{kind: payload.text}])[0] for payload in PAYLOADS}
    inside = {text: re.sub(r"^<div[^>]*>|</div>$", "", page) for text, page in pages.items()}
    assert [text for text, page in inside.items() if LIVE.search(page)] == []


def test_the_elapsed_time_of_a_running_tool(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(transcript_module, "monotonic", lambda: now[0])
    shown = Transcript()
    about = {"tool_call_id": "t"}
    shown.feed(events.ToolCall("", "f", {}, about))
    shown.feed(events.ToolStarted("", "f", {}, about))
    assert "running…<" in shown.html()
    now[0] = 112.4
    assert "running… 12 s" in shown.html()
    assert shown.has_running_tools
    assert tool_output.INTERVAL_S < 1

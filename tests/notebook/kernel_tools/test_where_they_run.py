"""Every kernel tool from a cell, from a panel, while cells run, headless, and in a script."""

import pandas as pd
import pytest
from support.panels import Panel, history

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.notebook.kernel_tools.kernel_tools import kernel_tools

pytestmark = pytest.mark.kernel

#: Each tool with arguments, and what its result has.
HELPERS = """
import pandas as pd
from nbagent.notebook.kernel_tools.kernel_tools import kernel_tools
frame = pd.DataFrame({'size': [1, 2]})
CALLS = [
    FunctionCall('list_variables', {'pattern': 'fra*'}, 'a'), FunctionCall('describe_variable', {'name': 'frame'}, 'b'),
    FunctionCall('peek_dataframe', {'name': 'frame', 'rows': 1}, 'c'), FunctionCall('read_cell_outputs', {}, 'd'),
    FunctionCall('run_code', {'code': 'import threading\\nthreading.current_thread().name + str(len(frame))'}, 'e'),
]
def make():
    return Agent(ScriptedProvider([CALLS, 'all called']), tools=kernel_tools(seconds=30), approve=lambda *_: True)
"""
RESULTS = "[m.text for m in agent.conversation_history if m.role == 'tool']"


@pytest.fixture
def kernel(shared):
    shared.ok("print('seen by the tool'); agent = make()")
    return shared


def check(kernel):
    assert "all called" in history(kernel)
    listed, described, peeked, outputs, ran = kernel.value(RESULTS)
    assert listed.startswith("frame: DataFrame")
    assert "2 rows x 1 columns" in described
    assert "size" in peeked
    assert outputs.startswith("In [")
    assert ran == "MainThread2"


@pytest.mark.parametrize(
    ("cell", "stdin"), [("%%agent\ngo", True), ("%%time\n%%agent\ngo", False), ("agent.chat_sync('go')", False)]
)
def test_from_a_cell(kernel, cell, stdin):
    kernel.ok(cell, allow_stdin=stdin)
    check(kernel)


def test_from_a_panel_while_a_sync_cell_runs_it_waits_and_says_so(kernel, tmp_path):
    panel = Panel(kernel)
    code = f"panel.ask('go')\nwhile not os.path.exists({str(tmp_path / 'gate')!r}): time.sleep(0.01)\nprint('over')"
    kernel.ok("panel = nbagent.ChatPanel(agent)")
    cell = kernel.send(code)
    panel.until_text("waiting for the running cell to end…")
    assert cell.reply is None
    (tmp_path / "gate").touch()
    panel.until_text("all called")
    kernel.ok(cell)
    assert cell.stdout == "over\n"
    check(kernel)


def test_without_a_notebook():
    calls = [FunctionCall("list_variables", {}), FunctionCall("run_code", {"code": "print(len(frame))"})]
    tools = kernel_tools({"frame": pd.DataFrame({"size": [1, 2]})})
    agent = Agent(ScriptedProvider([calls, "done"]), tools=tools, approve=lambda *_: True)
    listed, ran = (call["result"] for call in agent.chat_sync("go").function_calls)
    assert listed.startswith("frame: DataFrame")
    assert ran == "2"

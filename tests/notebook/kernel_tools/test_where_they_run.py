"""Every kernel tool from a cell, from a panel, while cells run, headless, and in a script."""

import subprocess
import sys

import pytest
from support.kernels import Kernel
from support.panels import Panel, history

pytestmark = pytest.mark.kernel

#: Each tool with arguments, and what its result has.
CALLS = """
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


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    with Kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        kernel.ok(CALLS)
        kernel.ok("print('seen by the tool')")
        yield kernel


def check(kernel):
    assert "all called" in history(kernel)
    listed, described, peeked, outputs, ran = kernel.value(RESULTS)
    assert listed.startswith("frame: DataFrame")
    assert "2 rows x 1 columns" in described
    assert "size" in peeked
    assert outputs.startswith("In [")
    assert ran == "MainThread2"


@pytest.mark.parametrize(
    "cell", ["%%agent\ngo", "%%time\n%%agent\ngo", "await agent.chat('go')", "agent.chat_sync('go')"]
)
@pytest.mark.parametrize("stdin", [True, False], ids=["watched", "headless"])
def test_from_a_cell(kernel, cell, stdin):
    kernel.ok("agent = make()")
    kernel.ok(cell, allow_stdin=stdin)
    check(kernel)


def test_from_a_panel(kernel):
    kernel.ok("agent = make()")
    panel = Panel(kernel)
    panel.ask("go")
    panel.until_text("all called")
    check(kernel)


def test_from_a_panel_after_an_approval(kernel):
    kernel.ok("agent = make()\nagent.tool_executor.approver = None")
    panel = Panel(kernel)
    panel.ask("go")
    panel.click("Approve")
    panel.until_text("all called")
    check(kernel)


def test_from_a_panel_while_an_async_cell_runs(kernel, tmp_path):
    kernel.ok("agent = make()")
    panel = Panel(kernel)
    # the cell asks: kernels before ipykernel 7 take clicks only between cells
    wait = f"while not os.path.exists({str(tmp_path / 'gate')!r}): await asyncio.sleep(0.01)"
    kernel.ok("panel = nbagent.ChatPanel(agent)")
    cell = kernel.send(f"panel.ask('go')\n{wait}")
    panel.until_text("all called")
    assert cell.reply is None
    (tmp_path / "gate").touch()
    kernel.ok(cell)
    check(kernel)


def test_from_a_panel_while_a_sync_cell_runs_it_waits_and_says_so(kernel, tmp_path):
    kernel.ok("agent = make()")
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


def test_a_call_that_waits_for_the_kernel_can_be_stopped(kernel, tmp_path):
    kernel.ok("agent = make()\npanel = nbagent.ChatPanel(agent)\nran = []")
    kernel.ok("agent.provider = ScriptedProvider([FunctionCall('run_code', {'code': 'ran.append(1)'}, 'a')])")
    panel = Panel(kernel)
    gate, asked = tmp_path / "gate", tmp_path / "asked"
    cell = kernel.send(
        f"panel.ask('go')\nwhile not os.path.exists({str(asked)!r}): time.sleep(0.01)\nagent.stop()\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    )
    panel.until_text("waiting for the running cell to end…")
    asked.touch()
    panel.until_text("Interrupted.")
    gate.touch()
    kernel.ok(cell)
    assert kernel.value("ran") == []


SCRIPT = """
import pandas as pd
from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.notebook.kernel_tools.kernel_tools import kernel_tools
frame = pd.DataFrame({'size': [1, 2]})
calls = [FunctionCall('list_variables', {'pattern': 'fra*'}, 'a'),
         FunctionCall('describe_variable', {'name': 'frame'}, 'b'),
         FunctionCall('peek_dataframe', {'name': 'frame'}, 'c'),
         FunctionCall('run_code', {'code': 'import threading\\nthreading.current_thread().name'}, 'd')]
agent = Agent(ScriptedProvider([calls, 'done']), tools=kernel_tools(globals()), approve=lambda *_: True)
print([c['result'] for c in agent.chat_sync('go').function_calls])
"""


def test_from_a_script():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=True)
    assert "frame: DataFrame" in done.stdout
    assert done.stdout.count("2 rows x 1 columns") == 2
    assert "MainThread" in done.stdout

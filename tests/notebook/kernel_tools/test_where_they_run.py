"""A kernel tool from a panel while a cell runs: it needs the main thread."""

import pytest
from support.panels import Panel, history

pytestmark = pytest.mark.kernel

HELPERS = """
from nbagent.notebook.kernel_tools.kernel_tools import kernel_tools
run = FunctionCall('run_code', {'code': 'import threading\\nthreading.current_thread().name'}, 'e')
agent = Agent(ScriptedProvider([run, 'all called']), tools=kernel_tools(seconds=30), approve=lambda *_: True)
"""


def test_from_a_panel_while_a_sync_cell_runs_it_waits_and_says_so(shared, tmp_path):
    kernel, panel = shared, Panel(shared)
    code = f"panel.ask('go')\nwhile not os.path.exists({str(tmp_path / 'gate')!r}): time.sleep(0.01)\nprint('over')"
    kernel.ok("panel = nbagent.ChatPanel(agent)")
    cell = kernel.send(code)
    panel.until_text("waiting for the running cell to end…")
    assert cell.reply is None
    (tmp_path / "gate").touch()
    panel.until_text("all called")
    kernel.ok(cell)
    assert cell.stdout == "over\n"
    assert "all called" in history(kernel)
    assert kernel.value("agent.conversation_history[-2].text") == "MainThread"

"""A memory in real kernels: what a cell notes in one, `%%agent` knows in the next, and the person is asked before."""

from contextlib import ExitStack

import pytest
from support.kernels import TIMEOUT, Kernel

pytestmark = pytest.mark.kernel

SETUP = f"""
import nbagent.notebook.display.approval
nbagent.notebook.display.approval.SHOWN_WITHIN_S = {TIMEOUT}
def does(command, **arguments): return FunctionCall("memory", dict(command=command, path="/memories/a.md", **arguments))
memory = nbagent.Memory("memory.sqlite")
agent = Agent(ScriptedProvider([TURNS])).use(memory)
"""


@pytest.fixture
def new_kernel(tmp_path):
    """Starts a kernel in the same folder, whose model says these turns."""
    with ExitStack() as started:

        def start(*turns):
            folder = tmp_path / f"kernel {len(turns)}"
            folder.mkdir()
            kernel = started.enter_context(Kernel(folder, cwd=tmp_path))
            if not kernel.takes_clicks:
                pytest.skip("kernels before ipykernel 7 take clicks between cells only")
            kernel.ok(SETUP.replace("TURNS", ", ".join(turns)))
            return kernel

        yield start


def approve(kernel, cell):
    """Click below the cell that asks."""
    box = kernel.widget(cell, _model_name="VBoxModel")
    kernel.tell(box, method="update", state={"_view_count": 1}, buffer_paths=[])
    button = kernel.widget(cell, _model_name="ButtonModel", description="Approve")
    kernel.tell(button, method="custom", content={"event": "click"})


def test_two_kernels_share_what_they_know(new_kernel):
    first = new_kernel("does('create', file_text='Metric units.')", "'Noted.'", "does('view')", "'Both.'")
    cell = first.send("%%agent\nRemember that I use metric units.")
    approve(first, cell)
    first.ok(cell)
    assert "Noted." in cell.text
    second = new_kernel("does('view')", "does('insert', insert_line=1, insert_text='A4 paper.')", "'Metric, and A4.'")
    shown = second.ok("%%agent --dry-run\nWhich units?").text
    assert "- /memories/a.md: Metric units." in shown
    cell = second.send("%%agent\nWhich units? I also use A4.")
    approve(second, cell)
    second.ok(cell)
    assert "Metric, and A4." in cell.text
    assert "A4 paper." in first.ok("%%agent\nWhat do you know of me?").text  # the first kernel still runs
    assert first.value("memory.frame['text'].tolist()") == ["Metric units.\nA4 paper.\n"]
    approvals = second.value("agent.trace.tool_calls['approval'].tolist()")
    assert approvals == ["auto", "approved"]

"""Panels and cells that share an agent, on any kernel."""

import pytest
from support.kernels import WIPE, Kernel
from support.panels import Panel, history, script

pytestmark = pytest.mark.kernel


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    with Kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        yield kernel


def test_a_question_sent_while_a_cell_runs_is_asked_after_it(kernel, tmp_path):
    gate = tmp_path / "gate"
    kernel.run(f"agent = Agent(Gated('begun ', 'ended', {str(gate)!r}))")
    panel = Panel(kernel)
    cell = kernel.send("%%agent\nfrom the cell")
    panel.until_text("begun")
    panel.ask("from the panel")
    gate.touch()
    kernel.wait(cell)
    panel.until(lambda: panel.text.count("begun ended") == 2)
    assert [name for name in ("from the cell", "from the panel") if name in history(kernel)] == [
        "from the cell", "from the panel",
    ]  # fmt: skip


def test_switching_a_tool_in_a_cell_or_panel_shows_in_both(kernel):
    kernel.run(WIPE)
    script(kernel, "'x'")
    panel = Panel(kernel)
    panel.tab("Setup")
    panel.until(lambda: panel.find(description="wipe", value=True))
    kernel.run("%agent tools drop wipe")
    panel.until(lambda: panel.find(description="wipe", value=False))
    panel.set({"value": True}, description="wipe")
    panel.until(lambda: kernel.run("agent.offered_tools()").result == "['wipe']")

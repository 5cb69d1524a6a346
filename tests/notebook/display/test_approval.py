"""Approval in a real kernel: with buttons if a front end shows them, else by typing."""

from queue import Empty

import pytest
from support.kernels import TIMEOUT, WIPE

pytestmark = pytest.mark.kernel

HELPERS = f"""{WIPE}
from nbagent.notebook.display import approval
def begin(patience):
    global agent
    wiped.clear()
    agent = Agent(ScriptedProvider([call, 'done'] * 9), tools=nbagent.live)
    approval.SHOWN_SOON_S = patience
"""


@pytest.fixture
def kernel(shared):
    """A kernel that handles clicks while a cell runs, with a front end that shows buttons."""
    if not shared.takes_clicks:
        pytest.skip("kernels before ipykernel 7 take clicks between cells only")
    shared.ok("begin(2.0)")
    return shared


@pytest.fixture
def typing(shared):
    """A kernel whose front end does not report that it shows buttons."""
    shared.ok("begin(0.05)")
    return shared


def asked(kernel, cell_id="asks"):
    """Start a cell as a page does, report that its form is shown, and return the cell."""
    cell = kernel.send("%%agent\nwipe", cell_id=cell_id)
    box = kernel.widget(cell, _model_name="VBoxModel")
    kernel.tell(box, method="update", state={"_view_count": 1}, buffer_paths=[])
    return cell


def click(kernel, cell, button):
    comm = kernel.widget(cell, _model_name="ButtonModel", description=button)
    kernel.tell(comm, method="custom", content={"event": "click"})


def answer(kernel, code, text):
    """Run a cell whose approval is typed."""
    cell = kernel.send(code)
    assert "wipe(table='cities', rows=3)" in kernel.client.get_stdin_msg(timeout=TIMEOUT)["content"]["prompt"]
    kernel.client.input(text)
    return kernel.ok(cell)


def test_arguments_that_are_wrong_after_an_edit_can_be_corrected(kernel):
    cell = asked(kernel)
    assert "<code>wipe(" not in cell.html, "only the form shows the call"
    area = kernel.widget(cell, _model_name="TextareaModel")
    for text in ("{", "[1]", '{"table": "rivers", "rows": 1}'):
        kernel.tell(area, method="update", state={"value": text}, buffer_paths=[])
        click(kernel, cell, "Approve")
    kernel.ok(cell)
    said = str(kernel.messages())
    assert "not JSON" in said
    assert "JSON object" in said
    assert kernel.value("wiped") == [("rivers", 1)]
    assert 'wipe(table="rivers", rows=1) (edited)' in cell.text


def test_a_click_that_comes_after_an_interrupt_runs_nothing(kernel):
    cell = asked(kernel)
    kernel.interrupt()
    assert kernel.wait(cell).error == "KeyboardInterrupt"
    click(kernel, cell, "Approve")
    assert kernel.value("wiped") == []
    kernel.ok("agent.provider = ScriptedProvider([call, 'done'])")
    again = asked(kernel)
    click(kernel, again, "Approve")
    kernel.ok(again)
    assert kernel.value("wiped") == [("cities", 3)]


def test_a_page_that_is_slow_or_failed_to_show_buttons_gets_them_at_the_next_call(typing):
    if not typing.takes_clicks:
        pytest.skip("kernels before ipykernel 7 take clicks between cells only")
    cell = typing.send("%%agent\nwipe", cell_id="slow")
    box = typing.widget(cell, _model_name="VBoxModel")
    typing.until(cell, lambda: "you can type your answer in 30 s" in cell.text)
    with pytest.raises(Empty):
        typing.client.get_stdin_msg(timeout=0.3)
    typing.tell(box, method="update", state={"_view_count": 1}, buffer_paths=[])
    click(typing, cell, "Approve")
    typing.ok(cell)
    typing.ok("approval.SHOWN_WITHIN_S = 0.05")
    answer(typing, "%%agent\nwipe", "n")
    typing.ok(f"approval.SHOWN_WITHIN_S = approval.SHOWN_SOON_S = {TIMEOUT}")
    cell = asked(typing, cell_id="next")
    click(typing, cell, "Approve")
    typing.ok(cell)
    assert typing.value("wiped") == [("cities", 3)] * 2


def test_the_question_is_typed_under_time_and_in_plain_python(typing):
    for number, code in enumerate(("%%time\n%%agent\nwipe", "await agent.chat('wipe');", "agent.chat_sync('wipe');")):
        answer(typing, code, "y")
        assert typing.value("wiped") == [("cities", 3)] * (number + 1)

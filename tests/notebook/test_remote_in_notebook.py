"""An agent on a server in a real kernel: the person at the notebook is asked for approval."""

import pytest
from support.kernels import Kernel
from support.serving import TOKEN, served

from nbagent import Agent, FunctionCall, FunctionRegistry, ScriptedProvider

pytestmark = pytest.mark.kernel

removed = []


def remove(path: str) -> str:
    """Remove a file."""
    removed.append(path)
    return f"removed {path}"


def answer(messages, functions):
    question = messages[-1].text.rpartition("\n\n")[2]  # one that was interrupted comes before it
    if messages[-1].role == "tool":
        return "Done." if "removed" in question else "Not done."
    if question.startswith("remove "):
        return FunctionCall("remove", {"path": question.split()[1]})
    return question


@pytest.fixture
def kernel(tmp_path):
    registry = FunctionRegistry()
    registry.register("remove", "", remove, approve=True)
    with served(Agent(ScriptedProvider(answer), registry)) as server, Kernel(tmp_path) as kernel:
        kernel.ok(f"agent = nbagent.connect({server.url!r}, {TOKEN!r})")
        yield kernel


def click(kernel, cell, button):
    box = kernel.widget(cell, _model_name="VBoxModel")
    kernel.tell(box, method="update", state={"_view_count": 1}, buffer_paths=[])
    comm = kernel.widget(cell, _model_name="ButtonModel", description=button)
    kernel.tell(comm, method="custom", content={"event": "click"})


def test_the_person_at_the_notebook_is_asked(kernel):
    if not kernel.takes_clicks:
        pytest.skip("kernels before ipykernel 7 take clicks between cells only")
    for path, button, said in (("a.txt", "Approve", "Done."), ("b.txt", "Deny", "Not done.")):
        cell = kernel.send(f"%%agent\nremove {path}", cell_id=path)
        click(kernel, cell, button)
        assert said in kernel.ok(cell).text
    cell = kernel.send("%%agent\nremove c.txt", cell_id="c.txt")
    kernel.widget(cell, _model_name="ButtonModel", description="Approve")
    kernel.interrupt()
    assert kernel.wait(cell).error == "KeyboardInterrupt"
    assert "and now?" in kernel.ok("%%agent\nand now?").text
    assert removed == ["a.txt"]

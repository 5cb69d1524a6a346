"""Running code as a cell from a running cell: outputs, history, `await`, plots, Stop, time limits."""

import pytest

pytestmark = pytest.mark.kernel

HELPERS = """
import asyncio, threading, time
from nbagent.core.background import background_loop
from nbagent.notebook.document.kernel_run import KernelRunner
%load_ext nbagent
runner = KernelRunner(get_ipython())
shown = []
async def run(source, seconds=60):
    outputs, number = await runner.run(source, "c1", seconds, lambda outputs: shown.append(outputs))
    raised = [f"{each['ename']}: {each['evalue']}" for each in outputs if each["output_type"] == "error"]
    return outputs, "".join(raised) or "None", number
"""


def run(kernel, source, **options):
    """The outputs of code that runs as a cell, its error, its number, and the cell that ran it."""
    cell = kernel.ok(f"outputs, error, number = await run({source!r}, **{options!r})")
    return kernel.value("outputs"), kernel.value("error"), kernel.value("number"), cell


def test_a_cell_s_outputs_go_only_to_the_caller(shared):
    source = "import sys\nprint('a')\nprint('b')\nsys.stderr.write('c')\ndisplay('d')\nx = 7\nx + 1"
    outputs, error, number, cell = run(shared, source)
    assert not cell.of("stream", "display_data", "execute_result")
    printed, warned, shown, returned = outputs
    assert (printed["text"], warned["name"], shown["output_type"]) == ("a\nb\n", "stderr", "display_data")
    assert (returned["data"]["text/plain"], returned["execution_count"], error) == ("8", number, "None")
    assert shared.value(f"x, In[{number}].splitlines()[-1], Out[{number}]") == (7, "x + 1", 8)


def test_updates_and_cleared_output(shared):
    source = """
from IPython.display import clear_output, display
handle = display({"text/plain": "0 %"}, raw=True, display_id=True)
handle.update({"text/plain": "100 %"}, raw=True)
print("gone")
clear_output(wait=True)
print("stays")"""
    assert [each["text"] for each in run(shared, source)[0]] == ["stays\n"]
    bar = "from tqdm import tqdm\nfor n in tqdm(range(300), mininterval=0): print(end='')"
    printed = run(shared, bar)[0][0]["text"]
    assert (printed.count("\n"), printed.count("\r"), printed[:5]) == (1, 0, "100%|")
    head = source.split("print")[0]
    assert run(shared, head)[0][0]["data"]["text/plain"] == "100 %"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("import asyncio\nawait asyncio.sleep(0)\n3 * 7", "21"),
        ("%%capture caught\nprint('inside')", None),
        ("!echo from a shell", "from a shell"),
        ("%time 1", "CPU times"),
    ],
)
def test_await_and_magics(shared, source, text):
    outputs, error, _, _ = run(shared, source)
    assert error == "None"
    assert str(text or "[]") in str(outputs)


def test_plots_appear_at_the_end(shared):
    outputs, *_ = run(shared, "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    assert outputs[-1]["data"]["image/png"]


@pytest.mark.parametrize(("source", "name"), [("1 / 0", "ZeroDivisionError"), ("1 +", "SyntaxError")])
def test_an_error_is_an_output(shared, source, name):
    outputs, error, _, cell = run(shared, source)
    assert (outputs[-1]["ename"], name in error) == (name, True)
    assert not cell.of("error", "display_data"), "no hint for a person is shown"


def test_nobody_waits_for_input(shared):
    assert run(shared, "input('name? ')")[0][-1]["evalue"].endswith("does not support input requests.")
    shared.ok("kernel = get_ipython().kernel\nassert kernel._allow_stdin")


@pytest.mark.parametrize("source", ["while True: pass", "import asyncio\nawait asyncio.sleep(600)"])
def test_code_is_stopped_after_its_time(shared, source):
    outputs, error, _, _ = run(shared, source, seconds=0.3)
    assert "stopped: it ran longer than 0.3 s" in error
    assert outputs[-1]["ename"] == "CellTimeoutError"


@pytest.mark.parametrize("wait", ["time.sleep(600)", "await asyncio.sleep(600)"])
def test_stop_ends_the_code_and_the_caller(shared, tmp_path, wait):
    mark = tmp_path / "begun"
    source = f"open({str(mark)!r}, 'w').close()\n{wait}"
    cell = shared.send(f"await run({source!r})")
    shared.until(cell, mark.exists)
    shared.interrupt()
    assert shared.wait(cell).status == "error"
    assert run(shared, "'goes on'")[0][0]["data"]["text/plain"] == "'goes on'"


def test_another_thread_can_run_and_cancel_code_while_the_kernel_is_idle(shared, tmp_path):
    shared.ok("asked = asyncio.run_coroutine_threadsafe(run('later = 5'), background_loop())")
    assert shared.value("(await asyncio.wrap_future(asked))[1], later") == ("None", 5)
    mark = tmp_path / "begun"
    source = f"open({str(mark)!r}, 'w').close()\ntime.sleep(600)"
    cancel = f"def cancel():\n    while not os.path.exists({str(mark)!r}): time.sleep(0.01)\n    asked.cancel()"
    ask = f"asked = asyncio.run_coroutine_threadsafe(run({source!r}), background_loop())"
    shared.ok(f"{cancel}\n{ask}\nthreading.Thread(target=cancel).start()")
    assert run(shared, "'goes on'")[0][0]["data"]["text/plain"] == "'goes on'"
    assert shared.value("asked.cancelled()")


def test_output_is_reported_as_it_arrives(shared):
    shared.ok("shown.clear()")
    run(shared, "import time\nfor n in range(3):\n    print(n, flush=True)\n    time.sleep(0.2)")
    assert shared.value("len(shown) > 1 and len(shown[0]) == 1")

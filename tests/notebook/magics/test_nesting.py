"""`%agent nest on` in kernels that support it: those before ipykernel 7."""

import pytest
from support.kernels import Kernel

pytestmark = pytest.mark.kernel

TOOL = """
@tool(main_thread=True)
def fetch(n: int) -> int:
    async def double():
        await asyncio.sleep(0.01)
        return 2 * n
    return asyncio.run(double())
"""


@pytest.fixture
def kernel(tmp_path):
    with Kernel(tmp_path) as kernel:
        if kernel.run("import ipykernel; ipykernel.version_info[0] >= 7").result == "True":
            pytest.skip("this kernel refuses: see test_commands.py")
        yield kernel


def ok(cell):
    assert cell.status == "ok", cell.traceback
    return cell


def ask(kernel):
    ok(kernel.run("agent.provider = ScriptedProvider([FunctionCall('fetch', {'n': 21}, 'c'), 'done'])"))
    ok(kernel.run("%%agent\ngo"))
    return ok(kernel.run("_agent.function_calls[0]['result']")).result


def test_on_and_off(kernel, tmp_path):
    before = ok(kernel.run("asyncio.Task.__module__, asyncio.Future.__module__, asyncio.run.__module__")).result
    ok(kernel.run(TOOL))
    assert "cannot be called from a running event loop" in ask(kernel)
    assert kernel.run("asyncio.run(asyncio.sleep(0))").error == "RuntimeError"
    for _ in range(2):
        ok(kernel.run("%agent nest on"))
        ok(kernel.run("%agent nest on"))
        assert "it is on" in str(kernel.run("%agent nest").messages)
        assert ask(kernel) == "'42'"
        assert ok(kernel.run("asyncio.run(asyncio.sleep(0, 'ran'))")).result == "'ran'"
        ok(kernel.run("agent.provider = ScriptedProvider(['sync'])\nloop = asyncio.get_event_loop()"))
        assert ok(kernel.run("loop.run_until_complete(agent.chat('x')).content")).result == "'sync'"
        ok(kernel.run("%agent nest off"))
        assert kernel.run("asyncio.run(asyncio.sleep(0))").error == "RuntimeError"
        assert "cannot be called from a running event loop" in ask(kernel)
        now = ok(kernel.run("asyncio.Task.__module__, asyncio.Future.__module__, asyncio.run.__module__")).result
        assert now == before
        assert ok(kernel.run("hasattr(asyncio, '_nest_patched'), hasattr(type(loop), '_nest_patched')")).result == (
            "(False, False)"
        )


def test_cells_stream_and_queue_and_are_interrupted_while_it_is_on(kernel, tmp_path):
    gate = tmp_path / "gate"
    ok(kernel.run("%agent nest on"))
    ok(kernel.run(f"agent.provider = Gated('one ', 'two', {str(gate)!r})"))
    first = kernel.send("%%agent\ncount")
    second = kernel.send("print('second')")
    third = kernel.send("%%time\n%%agent\nagain")
    kernel.until(first, lambda: "one" in first.text)
    gate.touch()
    for cell in (first, second, third):
        ok(kernel.wait(cell))
    assert second.stdout == "second\n"
    assert "one two" in third.text
    ok(kernel.run("agent.provider = Gated('so far', 'never')"))
    cell = kernel.send("%%agent\ngo")
    kernel.until(cell, lambda: "so far" in cell.text)
    kernel.interrupt()
    assert kernel.wait(cell).error == "KeyboardInterrupt"
    ok(kernel.run("agent.provider = ScriptedProvider(['fine'])"))
    assert "fine" in ok(kernel.run("%%agent\nnext")).text


def test_nesting_applied_by_other_code_stays(kernel):
    ok(kernel.run("import nest_asyncio; nest_asyncio.apply()"))
    ok(kernel.run("%agent nest on"))
    refused = kernel.run("%agent nest off")
    assert "other code applied nest-asyncio; restart the kernel" in str(refused.messages)
    assert ok(kernel.run("asyncio.run(asyncio.sleep(0, 'ran'))")).result == "'ran'"

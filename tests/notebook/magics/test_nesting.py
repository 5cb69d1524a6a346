"""`%agent nest on` in kernels that support it: those before ipykernel 7."""

import os
from importlib.metadata import version

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
    if "NBAGENT_TEST_KERNEL" not in os.environ and version("ipykernel") >= "7":
        pytest.skip("such kernels refuse: see test_commands.py")
    with Kernel(tmp_path) as kernel:
        yield kernel


def ask(kernel):
    kernel.ok("agent.provider = ScriptedProvider([FunctionCall('fetch', {'n': 21}, 'c'), 'done'])")
    kernel.ok("%%agent\ngo")
    return kernel.ok("_agent.function_calls[0]['result']").result


def test_on(kernel):
    kernel.ok(TOOL)
    nested = "asyncio.run(asyncio.sleep(0, 'ran'))"
    assert kernel.run(nested).error == "RuntimeError"
    assert "cannot be called from a running event loop" in ask(kernel)
    kernel.ok("%agent nest on")
    assert "it is on" in str(kernel.run("%agent nest").messages)
    assert ask(kernel) == "'42'"
    assert kernel.value(nested) == "ran"
    kernel.ok("agent.provider = ScriptedProvider(['sync'])")
    assert kernel.value("asyncio.get_event_loop().run_until_complete(agent.chat('x')).content") == "sync"
    assert "restart the kernel" in str(kernel.run("%agent nest off").messages)

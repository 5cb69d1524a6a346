"""A request that is cancelled, at whatever moment, leaves no connection behind."""

import asyncio
from contextlib import suppress

import psutil
import pytest
from support.loopback import Answer, claude_said, said, sse

from nbagent.core.messages import LLMMessage

HI = [LLMMessage("user", "hi")]
BODIES = {"claude": claude_said("Good."), "openai": sse(said("Good.")), "open_source": sse(said("Good."))}


def established():
    """Connections that stand, both ends counted."""
    return sum(each.status == psutil.CONN_ESTABLISHED for each in psutil.Process().net_connections("tcp"))


@pytest.mark.parametrize("kept", [True, False], ids=["kept connection", "new connection"])
@pytest.mark.parametrize("vendor", BODIES)
async def test_cancelled_at_any_step(loopback, connect, vendor, kept):
    loopback.answers = [Answer(BODIES[vendor])]
    provider = connect(vendor)
    before = established()
    for steps in range(40):
        if kept:
            await provider.chat(HI)
        else:
            await provider.aclose()
        task = asyncio.create_task(provider.chat(HI))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await provider.aclose()
    async with asyncio.timeout(60):
        while established() > before:
            await asyncio.sleep(0.01)

"""An agent against streams that break, and against silence: what was shown is taken back, and no half of a call runs.

The broken attempts say something else than the one that comes through, so that nothing of them can be mistaken for it.
By what clock llmock judges the waits: see `test_agent_faults`.
"""

import asyncio

import pytest
from llmock.scenarios import Reply, ToolCall
from support.faults import ANSWER, BROKEN, THANKS, VENDORS, Talk

from nbagent.core.messages import LLMMessage
from nbagent.errors import IncompleteStreamError

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("clock")]

HI = [LLMMessage("user", "Hi")]
BREAKS = ["disconnect", "truncate", "corrupt"]
ERASE = ToolCall("erase", {"path": "/home/everything"})
#: What a chat-completions stream sends after the finish reason: usage and [DONE]. Elsewhere the end is the last event.
TAIL = {"openai chat": 2, "open_source": 2}
#: All faults with one vendor, one fault with all vendors.
faults = pytest.mark.parametrize(
    ("vendor", "fault"),
    [*(("openai chat", fault) for fault in BREAKS), *((vendor, "truncate") for vendor in [*VENDORS][1:])],
)


@pytest.fixture
def vendor():
    return "openai chat"


@pytest.fixture
def streaming():
    return True


@pytest.fixture
def talk(providers, vendor, llmock):
    return Talk(providers.get(vendor, streaming=True))


async def length_of(talk, llmock, reply):
    """How many events the vendor's stream of a reply has."""
    llmock.add(reply)
    await talk.agent.provider.chat(HI, talk.agent.function_registry.list_functions())
    return llmock.requests[-1].chunks_sent


async def noticed(llmock, count):
    """Whether the server has seen the end of so many requests. It sees a broken connection when it writes again."""
    for _ in range(30_000):  # five minutes: only a hang lasts so long
        if len(llmock.requests) >= count:
            break
        await asyncio.sleep(0.01)
    return len(llmock.requests) == count


@faults
async def test_a_stream_that_breaks_anywhere(talk, vendor, llmock, fault):
    """After each number of events, with text and a call that would erase everything.

    llmock can't see that a garbled event near the end of a stream, all of which it has sent already, was not accepted:
    so its verdict does not count there, the requests do.
    """
    reply = Reply("Let me look.", (ERASE,))
    length = await length_of(talk, llmock, reply) - (0 if fault == "corrupt" else TAIL.get(vendor, 0))
    for events in range(length):
        talk.agent.clear_history()
        talk.ran.clear()
        llmock.reset().add(reply)
        getattr(llmock, fault)(after_chunks=events)
        llmock.call_tool("get_weather", {"city": "Berlin"}).reply(ANSWER)
        result = await talk.ask()
        assert (result.content, talk.shown, talk.ran) == (ANSWER, ANSWER, ["Berlin"])
        assert talk.retried == ["IncompleteStreamError"]
        assert len(llmock.requests) == 3
        if fault != "corrupt":
            llmock.assert_resilient(strict=True)
    llmock.reset().reply(THANKS)
    await talk.goes_on()


@pytest.mark.parametrize("fault", BREAKS)
async def test_streams_that_stay_broken(talk, llmock, clock, fault):
    """Four attempts, then the error; the last attempt's text stays, marked as unfinished.

    llmock takes the last of them for accepted, since it was not asked again. So its verdict counts for lost connections
    alone.
    """
    llmock.pace(5).add(Reply(BROKEN, (ERASE,), times=None))
    getattr(llmock, fault)(after_chunks=5, times=None)
    error = await talk.fails(IncompleteStreamError)
    assert (error.status, error.retryable) == (None, True)
    assert await noticed(llmock, 4)
    assert talk.retried == ["IncompleteStreamError"] * 3
    assert not talk.ran
    assert BROKEN.startswith(talk.shown)
    assert error.partial.content == talk.shown
    assert [message.role for message in talk.agent.conversation_history] == ["system"]
    assert talk.agent.trace.messages["text"].tolist()[-1] == talk.shown
    assert all(later > 1.4 * before for before, later in zip(clock.waits, clock.waits[1:], strict=False))
    if fault == "disconnect":
        llmock.assert_resilient(strict=True)
    llmock.reset().reply(THANKS)
    await talk.goes_on()

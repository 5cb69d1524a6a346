"""An agent against streams that break, and against silence: what was shown is taken back, and no half of a call runs.

The broken attempts say something else than the one that comes through, so that nothing of them can be mistaken for it.
By what clock llmock judges the waits: see `test_agent_faults`.
"""

import asyncio
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
import pytest_asyncio
from llmock import middleware
from llmock.scenarios import Reply, ToolCall
from support.faults import ANSWER, BROKEN, THANKS, VENDORS, Providers, Talk

from nbagent.core.messages import LLMMessage
from nbagent.errors import IncompleteStreamError

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("clock")]

HI = [LLMMessage("user", "Hi")]
BREAKS = ["disconnect", "truncate", "corrupt"]
ERASE = ToolCall("erase", {"path": "/home/everything"})
#: Far longer than a sound answer is silent over loopback, however busy the machine is.
TIMEOUT_S = 60
FOR_EVER_S = 20 * TIMEOUT_S
#: What a chat-completions stream sends after the finish reason: usage and [DONE]. Elsewhere the end is the last event.
TAIL = {"openai chat": 2, "open_source": 2}
#: Both SDKs and httpx.
transports = pytest.mark.parametrize("vendor", ["openai chat", "claude", "gemini"])
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


class Silence:
    """While the server says nothing, time flies on the client's event loop; at any other moment it goes as ever.

    So the client's time limit passes at once where there is silence, and nowhere else.
    """

    def __init__(self):
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self.passed = 0.0
        #: The server goes on until it notices that the client has left.
        self.is_lasting = True
        self._loop.time = lambda: self._time() + self.passed

    async def sleep(self, seconds):
        """How the server waits, in its own thread."""
        lasts = self.is_lasting and seconds == FOR_EVER_S
        while seconds > 0:
            step = min(seconds, TIMEOUT_S)
            seconds -= step
            over = Future()
            self._loop.call_soon_threadsafe(self._pass, step, over)
            await asyncio.wrap_future(over)
        if lasts:
            await asyncio.sleep(FOR_EVER_S)

    def _pass(self, seconds, over):
        if over.set_running_or_notify_cancel():  # else the server has noticed meanwhile that the client left
            self.passed += seconds
            self._loop.call_soon(over.set_result, None)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def impatient_providers(llmock_server):
    made = Providers(llmock_server.base_url, timeout=TIMEOUT_S)
    yield made
    await made.aclose()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def silence_of_all():
    """One for the module: a clock does not go back."""
    return Silence()


@pytest.fixture
def silence(silence_of_all, monkeypatch):
    monkeypatch.setattr(silence_of_all, "is_lasting", True)
    monkeypatch.setattr(middleware, "asyncio", SimpleNamespace(sleep=silence_of_all.sleep))
    return silence_of_all


@pytest.fixture
def impatient(impatient_providers, vendor, streaming, llmock, silence):
    return Talk(impatient_providers.get(vendor, streaming))


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
async def test_a_stream_that_breaks(talk, llmock, clock, fault):
    """It breaks before the tool is called, and again when the tool has run, which does not run again."""
    times = 2

    def break_next():
        getattr(llmock, fault)(after_chunks=5, times=times)

    llmock.pace(5)
    llmock.add(Reply(BROKEN, (ERASE,), times=times))
    break_next()
    llmock.call_tool("get_weather", {"city": "Berlin"}).reply(BROKEN, times=times).reply(ANSWER)
    talk.on_run = break_next
    talk.is_answered(await talk.ask(), retries=["IncompleteStreamError"] * 2 * times)
    assert [record.completed for record in llmock.requests] == ([False] * times + [True]) * 2
    for waits in (clock.waits[:times], clock.waits[times:]):
        assert all(0.375 * 2**number <= wait <= 0.5 * 2**number for number, wait in enumerate(waits))
    llmock.reply(THANKS)
    await talk.goes_on()
    llmock.assert_resilient(strict=True)


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


@pytest.mark.parametrize(("vendor", "fault"), [("openai chat", "disconnect"), ("open_source", "truncate")])
async def test_a_stream_that_breaks_when_all_is_said(talk, vendor, llmock, fault):
    """The finish reason has come, usage or [DONE] has not: the answer is whole, though llmock's verdict is another."""
    length = await length_of(talk, llmock, Reply(ANSWER))
    for events in range(length - TAIL[vendor], length):
        llmock.reset().reply(ANSWER)
        getattr(llmock, fault)(after_chunks=events)
        result = await talk.ask("Hi")
        assert (result.content, talk.shown, talk.retried) == (ANSWER, ANSWER, [])
        assert len(llmock.requests) == 1


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


@pytest.mark.parametrize(
    ("vendor", "fault"),
    [("openai chat", "stall"), ("claude", "stall"), ("gemini", "stall"), ("openai chat", "slow_first_token")],
)
async def test_a_stream_that_falls_silent(impatient, llmock, fault):
    """The connection is given up after `timeout` seconds without a byte, and the server notices."""
    times = 2
    llmock.add(Reply(BROKEN, (ERASE,), times=times)).call_tool("get_weather", {"city": "Berlin"}).reply(ANSWER)
    if fault == "stall":
        llmock.stall(after_chunks=5, seconds=FOR_EVER_S, times=times)
    else:
        llmock.slow_first_token(FOR_EVER_S, times=times)
    impatient.is_answered(await impatient.ask(), retries=["ProviderTimeoutError"] * times)
    records = llmock.requests
    assert [record.completed for record in records] == [False] * times + [True, True]
    assert [record.stall_waited is not None for record in records] == [fault == "stall"] * times + [False, False]
    llmock.reply(THANKS)
    await impatient.goes_on()
    llmock.assert_resilient(strict=True)


@transports
@pytest.mark.parametrize("streaming", [False], ids=["whole"])
async def test_an_answer_that_does_not_come(impatient, llmock, silence):
    """It comes when the client has given up. llmock does not notice that, and would go on waiting."""
    times, silence.is_lasting = 2, False
    llmock.delay(FOR_EVER_S, times=times).add(Reply(BROKEN, (ERASE,), times=times))
    llmock.call_tool("get_weather", {"city": "Berlin"}).reply(ANSWER)
    impatient.is_answered(await impatient.ask(), retries=["ProviderTimeoutError"] * times)
    assert len(llmock.requests) == times + 2
    llmock.reply(THANKS)
    await impatient.goes_on()
    llmock.assert_resilient(strict=True)

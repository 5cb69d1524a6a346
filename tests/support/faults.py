"""An agent that talks to a vendor who fails on demand, and a clock that both of them go by."""

import asyncio
import functools
import time

import pytest
import pytest_asyncio
import uvicorn
from llmock.testing import LLMockServer

from nbagent import Agent, create_provider
from nbagent.core.history.repair import repair
from nbagent.providers.http import response as transport
from nbagent.providers.http import retry

#: Each wire format, the first three over an SDK: the name to make it by, llmock's API, a model, further options.
WIRES = {
    "openai chat": ("openai", "openai", "gpt-4o-mini", {"api": "chat"}),
    "openai responses": ("openai", "openai", "gpt-5.6-luna", {"api": "responses"}),
    "claude": ("claude", "anthropic", "claude-sonnet-5", {}),
    "gemini": ("gemini", "gemini", "gemini-2.5-pro", {}),
}
#: … and two more of the same formats, one over another transport.
VENDORS = WIRES | {
    "open_source": ("open_source", "openai", "qwen", {}),
    "minimax": ("minimax", "anthropic", "MiniMax-M2.5", {}),
}
QUESTION, ANSWER = "How warm is it in Berlin?", "It is 22 degrees in Berlin, and it stays dry."
#: What a broken attempt says. A server that paces it is still at it when the client hangs up.
BROKEN = " ".join(f"wrong{number}" for number in range(2000))
THANKS = "You are welcome."


class Providers:
    """One provider for each vendor, whose connections outlive every fault. `url_of` tells the base URL of an API."""

    def __init__(self, url_of, **options):
        self._url_of, self._options, self._made = url_of, options, {}

    def get(self, vendor, streaming):
        if vendor not in self._made:
            name, api, model, fixed = VENDORS[vendor]
            options = {"api_key": "test", "model": model, "base_url": self._url_of(api), **fixed, **self._options}
            self._made[vendor] = create_provider(name, **options)
        provider = self._made[vendor]
        provider.streaming, provider.max_retries = streaming, 3
        return provider

    async def aclose(self):
        for provider in self._made.values():
            await provider.aclose()


class Clock:
    """Stands still but for the waits between attempts, which are as long as ever and take no time.

    It goes on when the server has noticed that the client left, as it would have in the time waited.
    """

    def __init__(self, journal):
        self._journal = journal
        self._now = float(int(time.monotonic()))  # exact, so that a second later a whole second has passed
        self.waits = []

    def monotonic(self):
        return self._now

    async def sleep(self, seconds):
        while self._journal.in_flight:
            await asyncio.sleep(0.001)
        self.waits.append(seconds)
        self._now += seconds


class Talk:
    """An agent whose tools count their runs, and what a user sees of it. `on_run` is called when the first one runs."""

    def __init__(self, provider):
        self.agent = Agent(provider, tools=[self.get_weather, self.erase], system_prompt="You help.")
        self.ran, self.retried, self.shown = [], [], ""
        self.on_run = lambda: None

    def get_weather(self, city: str) -> str:
        """Get the current weather in a city."""
        self.ran.append(city)
        self.on_run()
        return "22 degrees"

    def erase(self, path: str) -> str:
        """Erase a file."""
        self.ran.append(f"erased {path}")
        return "erased"

    async def ask(self, message=QUESTION):
        """One run. A retry takes back exactly what its turn has shown."""
        self.shown, self.retried = "", []
        stream = self.agent.chat_stream(message)
        async for event in stream:
            if event.type == "turn_started":
                before = self.shown
            elif event.type == "text":
                self.shown += event.content
            elif event.type == "retry":
                assert event.metadata["discard_chars"] == len(self.shown) - len(before)
                self.shown = before
                self.retried.append(event.metadata["error"])
        return stream.result()

    async def fails(self, error):
        """Ask, and get an error that says who failed and what to do."""
        with pytest.raises(error) as caught:
            await self.ask()
        failure, provider = caught.value, self.agent.provider
        assert type(failure) is error
        assert str(failure).startswith(f"{provider.vendor} {provider.model_name}: ")
        assert str(failure).endswith(failure.remedy or "a remedy")
        assert failure.partial.status == "error"
        assert self.agent.trace.runs["error_type"].tolist()[-1] == error.__name__
        return failure

    def is_answered(self, result, retries):
        """The tool ran once, the answer is whole and there once, and the history holds nothing else."""
        assert (result.status, result.content, self.shown) == ("ok", ANSWER, ANSWER)
        assert self.ran == ["Berlin"]
        texts = [message.text for message in self.agent.conversation_history]
        assert texts == ["You help.", QUESTION, "", "22 degrees", ANSWER]
        assert self.retried == retries
        assert self.agent.trace.calls["retries"].sum() == len(retries)

    async def goes_on(self):
        """The history is valid, and the next message is answered; the vendor is to say `THANKS`."""
        history, ran = self.agent.conversation_history, list(self.ran)
        assert [message.role for message in history] == ["system"] or repair(history) == history
        result = await self.ask("Thanks")
        assert (result.status, result.content, self.shown, self.retried) == ("ok", THANKS, THANKS, [])
        assert self.ran == ran


# -- fixtures, for all tests (see `conftest`) -------------------------------------------------------------------------


@pytest.fixture(params=WIRES)
def vendor(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["streaming", "whole"])
def streaming(request):
    return request.param


@pytest.fixture(scope="session")
def llmock_server():
    """llmock's own fixture closes idle connections after 5 s, and a busy machine takes longer from test to test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn, "Config", functools.partial(uvicorn.Config, timeout_keep_alive=3_600))
        with LLMockServer() as server:
            yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def providers(llmock_server):
    made = Providers(llmock_server.base_url)
    yield made
    await made.aclose()


@pytest.fixture
def clock(llmock_server, monkeypatch):
    from llmock import middleware, ratelimit

    made = Clock(llmock_server.state.journal)
    monkeypatch.setattr(retry, "asyncio", made)
    monkeypatch.setattr(transport, "DRAIN_TIMEOUT_S", 60)  # the server ends what it has begun, however busy it is
    for module in (middleware, ratelimit):
        monkeypatch.setattr(module, "time", made)
    return made

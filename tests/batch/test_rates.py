"""Rows of a batch keep to a vendor's rate together, over real HTTP: none is lost, and none fails because of it."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pandas as pd
import pytest
from support.loopback import Answer, Loopback, said, sse
from support.rate_limited import RateLimited

from nbagent import Agent, Budget, create_provider
from nbagent.batch import live
from nbagent.batch.engine import Batch
from nbagent.batch.live import LiveEngine
from nbagent.batch.rows import Row
from nbagent.core import admission
from nbagent.core.admission import LATE_S, RateAdmission, Refused, admission_of
from nbagent.core.messages import LLMMessage
from nbagent.errors import RateLimitError, ServerError

VENDORS = ["open_source", "openai", "claude"]


@asynccontextmanager
async def agent_of(server, vendor="open_source", tools=(), **options):
    """An agent whose provider never retries by itself."""
    base_url = server.url if vendor == "claude" else f"{server.url}/v1"
    options = {"api": "chat"} | options if vendor == "openai" else options
    provider = create_provider(vendor, api_key="k", model="m1", base_url=base_url, max_retries=0, **options)
    yield Agent(provider, tools=list(tools))
    await provider.aclose()


def batch_of(agent, tools=False, **changes):
    fixed = {"options": {}, "budget": Budget(), "concurrency": 8, "provider": agent.provider}
    return Batch(lambda: agent.row_agent(tools), **fixed | changes)


def rows_of(count):
    return [Row(f"k{number}", [LLMMessage("user", f"row {number}")]) for number in range(count)]


async def answers_of(agent, count, **changes):
    answers = []
    await LiveEngine().ask_rows(batch_of(agent, **changes), rows_of(count), answers.append)
    return answers


def are_right(answers, server, count):
    """Each row has its own answer, and was answered once."""
    texts = {f"row {number}" for number in range(count)}
    assert {answer.text for answer in answers if answer.status == "ok"} == texts
    assert len(answers) == count
    assert server.answered == dict.fromkeys(texts, 1)


@pytest.mark.parametrize(("vendor", "status"), [("open_source", 429), ("openai", 529), ("claude", 429)])
async def test_a_refused_row_waits_with_the_others_and_is_answered(vendor, status):
    async with RateLimited(8, 0.1, status=status) as server, agent_of(server, vendor) as agent:
        answers = await answers_of(agent, 40, concurrency=16)
        are_right(answers, server, 40)
        assert server.refused
        assert admission_of(agent.provider.rate_key).window < 17
        assert admission_of(agent.provider.rate_key).places == 0


@pytest.mark.parametrize(("vendor", "told"), [("open_source", "openai"), ("openai", "openai"), ("claude", "anthropic")])
async def test_rows_slow_down_before_the_vendor_refuses(vendor, told):
    """Without headers, each of the eight rows would be refused again and again."""
    async with RateLimited(20, 0.2, told=told) as server, agent_of(server, vendor) as agent:
        answers = await answers_of(agent, 120, concurrency=8)
        are_right(answers, server, 120)
        assert server.refused <= 6, "those on their way when a window ends"


async def test_two_maps_share_one_admission():
    async with RateLimited(8, 0.1) as server, agent_of(server) as agent, agent_of(server) as other:
        assert agent.provider.rate_key == other.provider.rate_key
        both = await asyncio.gather(answers_of(agent, 20), answers_of(other, 20))
        assert [{answer.status for answer in answers} for answers in both] == [{"ok"}, {"ok"}]
        assert server.refused


async def test_limits_are_counted_by_vendor_address_model_and_key():
    provider = {"api_key": "k", "model": "m1", "base_url": "http://a/v1"}
    changes = [{}, {"api_key": "l"}, {"model": "m2"}, {"base_url": "http://b/v1"}, {"headers": {"x-team": "t"}}]
    keys = {create_provider("open_source", **provider | change).rate_key for change in changes}
    assert len(keys) == len(changes)
    secret = create_provider("open_source", **provider | {"api_key": "sk-very-secret"})
    assert "secret" not in secret.rate_key


async def test_rows_end_with_the_error_if_the_vendor_asks_for_too_long_a_wait():
    async with RateLimited(0, 500) as server, agent_of(server) as agent:
        answers = await answers_of(agent, 200)
        assert {answer.status for answer in answers} == {"error"}
        assert all("Slow down" in answer.error for answer in answers)
        assert len(server.requests) <= 8, "the other rows are not even sent"


async def test_without_a_map_a_chat_waits_for_nobody():
    async with RateLimited(0, 0.001) as server, agent_of(server) as agent:
        with pytest.raises(RateLimitError, match="Slow down"):
            await agent.chat("Hi")
        assert len(server.requests) == 1


async def test_a_row_does_not_wait_for_a_vendor_if_another_one_can_answer():
    async with (
        RateLimited(0, 3600, told="openai", waits=False) as refusing,
        RateLimited(100, 3600) as answering,
        agent_of(refusing) as first,
        agent_of(answering) as second,
    ):
        rows = pd.Series(["one", "two"])
        answers = await Agent([first.provider, second.provider]).map(rows, progress=False)
    assert list(answers["answer"]) == ["one", "two"]
    assert 1 <= refusing.refused <= 2  # without retries, and then it rests


class Slow(RateAdmission):
    """A place costs a hundred seconds by a clock that else stands still."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    async def take(self, tokens=0):
        place = await super().take(tokens)
        self.clock.seconds += 100
        return place


async def test_waiting_for_a_place_is_not_time_that_a_row_takes(monkeypatch):
    clock = SimpleNamespace(seconds=0.0)
    for module in (live, admission):
        monkeypatch.setattr(module, "monotonic", lambda: clock.seconds)
    slow = Slow(clock)
    async with RateLimited(100, 100) as server, agent_of(server) as agent:
        answers = await answers_of(agent, 3, admissions=lambda key: slow, concurrency=1)
        assert (clock.seconds, [answer.seconds for answer in answers]) == (300, [0, 0, 0])


async def test_a_map_takes_requests_and_tokens_per_minute():
    async with RateLimited(100, 100) as server, agent_of(server) as agent:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        frame = await agent.map(pd.Series(map(str, range(6))), rpm=1200, progress=False)
        assert list(frame["answer"]) == list("012345")
        assert loop.time() - begun >= 5 * 60 / 1200 - LATE_S, "the sixth may not go earlier, however fast all is"


async def test_a_tool_that_asks_an_agent_needs_a_place_of_its_own_only_while_it_asks():
    """One place, and each row's tool asks another agent at the same vendor: nobody waits for ever."""

    class Asking(RateLimited):
        def answer_to(self, request):
            messages = request.json["messages"]
            if messages[-1]["role"] == "user" and request.json.get("tools"):
                call = {"index": 0, "id": "t1", "function": {"name": "look_up", "arguments": '{"text": "x"}'}}
                delta = {"role": "assistant", "tool_calls": [call]}
                return Answer(sse({"choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]}))
            return Answer(sse(said("done")))

    async with Asking(1, 1) as server, agent_of(server) as expert:

        async def look_up(text: str) -> str:
            """Ask an expert."""
            return (await expert.fork().chat(text)).content

        async with agent_of(server, tools=[look_up]) as agent:
            shared = admission_of(agent.provider.rate_key)
            shared.give_back(await shared.take(), Refused(0.001))
            assert shared.window == 1
            answers = await answers_of(agent, 6, tools=True)
            assert [answer.text for answer in answers] == ["done"] * 6
            assert len(server.requests) == 18


async def test_a_map_that_ends_early_gives_its_places_back():
    """Rows in flight, and rows that wait: nothing is left behind."""
    async with Loopback() as server, agent_of(server) as agent:
        server.answers = [Answer(sse(said("first"))), Answer(end="stall")]
        shared = admission_of(agent.provider.rate_key)
        shared.give_back(await shared.take(), Refused(0.001))
        shared._window = 2
        answers = asyncio.Queue()
        asking = asyncio.create_task(LiveEngine().ask_rows(batch_of(agent), rows_of(20), answers.put_nowait))
        assert (await answers.get()).text == "first"
        await server.has_requests(3)  # two more are on their way, and five wait
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert shared.places == 0
        assert not [task for task in asyncio.all_tasks() if "work" in repr(task.get_coro())]
        server.answers = [Answer(sse(said("more")))]
        assert [answer.text for answer in await answers_of(agent, 3)] == ["more"] * 3


async def test_a_cancelled_map_ends_its_rows():
    async with Loopback() as server, agent_of(server) as agent:
        server.answers = [Answer(end="stall")]
        asking = asyncio.create_task(answers_of(agent, 20, concurrency=4))
        await server.has_requests(4)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert admission_of(agent.provider.rate_key).places == 0
        assert len(server.requests) == 4


async def test_the_first_error_ends_a_map_that_raises():
    async with Loopback() as server, agent_of(server) as agent:
        server.answers = [Answer(b"{}", 500), Answer(end="stall")]
        with pytest.raises(ServerError):  # though seven rows would wait for ever
            await answers_of(agent, 20, raises=True)
        assert admission_of(agent.provider.rate_key).places == 0


async def test_what_a_worker_raises_comes_out():
    async with Loopback() as server, agent_of(server) as agent:
        batch = Batch(lambda: 1 / 0, agent.provider, 4, {}, Budget())
        with pytest.raises(ZeroDivisionError):
            await LiveEngine().ask_rows(batch, rows_of(20), print)
        assert not server.requests


async def test_no_row_begins_once_the_budget_is_spent():
    async with RateLimited(100, 100) as server, agent_of(server) as agent:
        answers = await answers_of(agent, 20, concurrency=1, budget=Budget(max_total_tokens=1))
        assert (len(answers), len(server.requests)) == (1, 1)

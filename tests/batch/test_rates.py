"""A map's rows keep to the provider's rate limits over real HTTP. No row is lost or fails because of them."""

import asyncio
import json
from collections import Counter
from contextlib import asynccontextmanager

import pandas as pd
import pytest
from support.loopback import Answer, Loopback, claude_said, said, sse

from nbagent import Agent, Budget, create_provider
from nbagent.batch.engine import Batch
from nbagent.batch.live import LiveEngine
from nbagent.batch.rows import Row
from nbagent.core.admission import LATE_S, admission_of
from nbagent.core.messages import LLMMessage


class RateLimited(Loopback):
    """Answers `limit` requests per `window_s` seconds, and refuses the others with `status`.

    With `waits`, a refusal says when to try again. At least one request is refused, however slow the clients are.
    """

    def __init__(self, limit, window_s, waits=True, status=429):
        super().__init__()
        self.limit, self.window_s, self.waits, self.status = limit, window_s, waits, status
        self._begun, self._counted = -window_s, 0
        #: How often each prompt was answered, and how many requests were refused.
        self.answered, self.refused = Counter(), 0

    def answer_to(self, request):
        now = asyncio.get_running_loop().time()
        must_refuse = self._counted >= self.limit and not self.refused
        if now >= self._begun + self.window_s and not must_refuse:
            self._begun, self._counted = now, 0
        reset = max(0.0, self._begun + self.window_s - now)
        if self._counted >= self.limit:
            self.refused += 1
            error = {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down."}}
            again = {"retry-after-ms": str(1000 * reset + 1)} if self.waits else {}
            return Answer(json.dumps(error).encode(), self.status, {"content-type": "application/json", **again})
        self._counted += 1
        question = request.json["messages"][-1]["content"]
        text = question if isinstance(question, str) else question[0]["text"]
        self.answered[text] += 1
        body = claude_said(text) if request.path.endswith("/messages") else sse(said(text))
        return Answer(body)


@asynccontextmanager
async def agent_of(server, provider_name="open_source", tools=(), **options):
    """An agent whose provider never retries."""
    base_url = server.url if provider_name == "claude" else f"{server.url}/v1"
    options = {"api": "chat"} | options if provider_name == "openai" else options
    provider = create_provider(provider_name, api_key="k", model="m1", base_url=base_url, max_retries=0, **options)
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
    """Check that each row has its own answer, and was answered once."""
    texts = {f"row {number}" for number in range(count)}
    assert {answer.text for answer in answers if answer.status == "ok"} == texts
    assert len(answers) == count
    assert server.answered == dict.fromkeys(texts, 1)


@pytest.mark.parametrize(("provider", "status"), [("open_source", 429), ("openai", 529), ("claude", 429)])
async def test_a_rate_limited_row_waits_with_the_others_and_is_answered(provider, status):
    async with RateLimited(8, 0.1, status=status) as server, agent_of(server, provider) as agent:
        answers = await answers_of(agent, 40, concurrency=16)
        are_right(answers, server, 40)
        assert server.refused
        assert admission_of(agent.provider.rate_key).window < 17
        assert not admission_of(agent.provider.rate_key).taken


async def test_two_maps_share_one_admission():
    async with RateLimited(8, 0.1) as server, agent_of(server) as agent, agent_of(server) as other:
        assert agent.provider.rate_key == other.provider.rate_key
        both = await asyncio.gather(answers_of(agent, 20), answers_of(other, 20))
        assert [{answer.status for answer in answers} for answers in both] == [{"ok"}, {"ok"}]
        assert server.refused


async def test_rows_fail_if_the_provider_demands_too_long_a_wait():
    async with RateLimited(0, 500) as server, agent_of(server) as agent:
        answers = await answers_of(agent, 200)
        assert {answer.status for answer in answers} == {"error"}
        assert all("Slow down" in answer.error for answer in answers)
        assert len(server.requests) <= 8, "the other rows are not even sent"


async def test_a_row_does_not_wait_for_a_provider_if_another_one_can_answer():
    async with (
        RateLimited(0, 3600, waits=False) as refusing,
        RateLimited(100, 3600) as answering,
        agent_of(refusing) as first,
        agent_of(answering) as second,
    ):
        rows = pd.Series(["one", "two"])
        answers = await Agent([first.provider, second.provider]).map(rows, progress=False)
    assert list(answers["answer"]) == ["one", "two"]
    assert 1 <= refusing.refused <= 2  # the first refusal makes the others wait


async def test_a_map_keeps_to_requests_and_tokens_per_minute():
    async with RateLimited(100, 100) as server, agent_of(server) as agent:
        loop = asyncio.get_running_loop()
        started = loop.time()
        frame = await agent.map(pd.Series(map(str, range(6))), rpm=1200, progress=False)
        assert list(frame["answer"]) == list("012345")
        assert loop.time() - started >= 5 * 60 / 1200 - LATE_S, (
            "the sixth may not start earlier, however fast the others are"
        )


async def test_a_map_that_ends_early_releases_its_slots():
    async with Loopback() as server, agent_of(server) as agent:
        server.answers = [Answer(sse(said("first"))), Answer(end="stall")]
        answers = asyncio.Queue()
        asking = asyncio.create_task(
            LiveEngine().ask_rows(batch_of(agent, concurrency=4), rows_of(20), answers.put_nowait)
        )
        assert (await answers.get()).text == "first"
        await server.has_requests(5)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert not admission_of(agent.provider.rate_key).taken
        assert len(server.requests) == 5
        server.answers = [Answer(sse(said("more")))]
        assert [answer.text for answer in await answers_of(agent, 3)] == ["more"] * 3

"""`engine="batch"`: rows go to the providers' batch endpoints, and those that fail there are sent live."""

import pandas as pd
import pytest
from support.batch_servers import KEY, SERVERS, ResponsesServer

from nbagent import Agent, create_provider
from nbagent.batch.endpoints import engine
from nbagent.batch.endpoints.choice import ENDPOINTS
from nbagent.core.messages import Usage
from nbagent.errors import ConfigurationError
from nbagent.pricing import price

ROWS = pd.Series([f"question {n}" for n in range(6)], index=list("abcdef"))


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch):
    monkeypatch.setattr(engine, "FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(engine, "LONGEST_WAIT_S", 0.01)


every_provider = pytest.mark.parametrize("model", SERVERS)


def agent_at(server, model, **options):
    provider = create_provider(model, api_key=KEY, base_url=server.url + server.base, **options)
    return Agent(provider, system_prompt="Be brief.")


@every_provider
async def test_each_row_is_answered_by_the_batch_at_half_price(model, tmp_path):
    async with SERVERS[model](over_at=3) as server:
        agent = agent_at(server, model)
        answers = await agent.map(ROWS, engine="batch", checkpoint=tmp_path / "c.db")
        again = await agent.map(ROWS, engine="batch", checkpoint=tmp_path / "c.db")
        await agent.aclose()
    assert list(answers["answer"]) == [f"batch {question}" for question in ROWS]
    assert answers.index.equals(ROWS.index)
    assert (server.refusals, server.live, len(server.batches)) == ([], [], 1)
    pd.testing.assert_frame_equal(again, answers)
    provider, _, name = model.partition(":")
    half = price(Usage(1000, 100), name, provider) / 2
    assert answers["cost"].tolist() == pytest.approx([half] * 6)
    assert agent.trace.runs["cost_usd"].tolist() == pytest.approx([half] * 6)


@every_provider
async def test_rows_that_fail_in_the_batch_are_sent_live(model, tmp_path):
    outcomes = dict(zip(ROWS, ["ok", "error", "expired", "missing", "garbled", "ok"], strict=True))
    async with SERVERS[model](outcomes.__getitem__) as server:
        agent = agent_at(server, model)
        answers = await agent.map(ROWS, engine="batch", checkpoint=tmp_path / "c.db")
        await agent.aclose()
    expected = [f"{'batch' if outcomes[question] == 'ok' else 'live'} {question}" for question in ROWS]
    assert list(answers["answer"]) == expected
    assert sorted(server.live) == sorted(question for question in ROWS if outcomes[question] != "ok")
    assert server.refusals == []


async def test_rows_use_the_same_api_as_live_requests(tmp_path):
    outcomes = dict(zip(ROWS, ["ok", "error", "garbled", "ok", "ok", "ok"], strict=True))
    async with ResponsesServer(outcomes.__getitem__) as server:
        agent = agent_at(server, "openai:gpt-5-mini", api="responses")
        answers = await agent.map(ROWS, engine="batch", checkpoint=tmp_path / "c.db")
        await agent.aclose()
    expected = [f"{'batch' if outcomes[question] == 'ok' else 'live'} {question}" for question in ROWS]
    assert answers["answer"].tolist() == expected
    assert [batch.endpoint for batch in server.batches.values()] == ["/v1/responses"]
    assert server.refusals == []


@every_provider
async def test_batches_keep_within_the_providers_limits(model, tmp_path, monkeypatch):
    limits = ENDPOINTS[model.partition(":")[0]]
    monkeypatch.setattr(limits, "max_requests", 4)
    async with SERVERS[model]() as server:
        server.max_requests = 4
        agent = agent_at(server, model)
        answers = await agent.map(ROWS, engine="batch", checkpoint=tmp_path / "c.db")
        monkeypatch.setattr(limits, "max_bytes", 1000)
        await agent.map("long " * 100 + ROWS, engine="batch", checkpoint=tmp_path / "c.db")
        await agent.aclose()
    assert (answers["status"] == "ok").all()
    assert [len(batch.requests) for batch in server.batches.values()] == [4, 2, 1, 1, 1, 1, 1, 1]
    assert server.refusals == []


async def test_a_failed_batch_leaves_its_reason_and_is_submitted_again(tmp_path):
    model = "openai:gpt-4.1-mini"
    async with SERVERS[model]() as server:
        server.failure = "Enqueued token limit reached"
        agent = agent_at(server, model)
        answers = await agent.map(ROWS, engine="batch", checkpoint=tmp_path / "c.db")
        assert (answers["status"] == "error").all()
        assert answers["error"].str.contains("Enqueued token limit reached").all()
        server.failure = ""
        answers = await agent.map(ROWS, engine="batch", checkpoint=tmp_path / "c.db")
        await agent.aclose()
    assert (answers["status"] == "ok").all()
    assert (len(server.batches), server.live) == (2, [])


async def test_the_batch_engine_requires_an_endpoint_and_a_checkpoint(tmp_path):
    agent = Agent(create_provider("qwen", api_key=KEY))
    with pytest.raises(ConfigurationError, match="no batch endpoint for qwen. Use one of openai, claude, gemini"):
        await agent.map(ROWS, engine="batch", checkpoint=tmp_path / "c.db")
    with pytest.raises(ConfigurationError, match="Pass checkpoint=path"):
        await agent.map(ROWS, engine="batch")

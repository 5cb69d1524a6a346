"""Batches are submitted once, found again after any interruption, and can be cancelled."""

import asyncio

import anthropic
import openai
import pandas as pd
import pytest
from support.batch_servers import KEY, SERVERS, ClaudeServer, OpenAIServer, as_lines
from support.loopback import Answer

from nbagent import Agent, create_provider
from nbagent.batch.endpoints import cancel, engine
from nbagent.batch.endpoints.choice import ENDPOINTS

ROWS = pd.Series([f"question {n}" for n in range(6)])
OPENAI, CLAUDE, _ = SERVERS
every_provider = pytest.mark.parametrize("model", SERVERS)


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch):
    monkeypatch.setattr(engine, "FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(engine, "LONGEST_WAIT_S", 0.01)


def agent_at(server, model):
    return Agent(create_provider(model, api_key=KEY, base_url=server.url + server.base))


async def run_map(server, model, path):
    """Run a map in this process and return its answers."""
    agent = agent_at(server, model)
    try:
        return await agent.map(ROWS, engine="batch", checkpoint=path, progress=False)
    finally:
        await agent.aclose()


@every_provider
async def test_a_batch_whose_confirmation_was_lost_is_found_again(model, tmp_path, monkeypatch):
    monkeypatch.setattr(ENDPOINTS[model.partition(":")[0]], "max_requests", 3)
    async with SERVERS[model]() as server:
        server.swallows = 2
        call = asyncio.create_task(run_map(server, model, tmp_path / "c.db"))
        while len(server.batches) < 2:
            await server.made.wait()
            server.made.clear()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        server.swallows = 10**9
        answers = await run_map(server, model, tmp_path / "c.db")
    assert list(answers["answer"]) == [f"batch {question}" for question in ROWS]
    assert (len(server.batches), server.live, server.refusals) == (2, [], [])


@every_provider
async def test_stopping_leaves_the_batch_and_says_how_to_continue(model, tmp_path):
    async with SERVERS[model](over_at=10**9) as server:
        call = asyncio.create_task(run_map(server, model, tmp_path / "c.db"))
        await server.polled.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError) as stopped:
            await call
        notes = " ".join(stopped.value.__notes__)
        assert "will continue. To read the answers" in notes
        assert next(iter(server.batches)) in notes
        agent = agent_at(server, model)
        assert await cancel(agent, tmp_path / "c.db") == 1
        await agent.aclose()
        with pytest.warns(UserWarning, match="a batch was cancelled"):
            answers = await run_map(server, model, tmp_path / "c.db")
    assert (answers["status"] == "left").all()
    assert (server.live, server.refusals) == ([], [])


async def test_a_busy_provider_is_polled_again_and_a_broken_file_is_read_again(tmp_path):
    async with OpenAIServer() as server:
        busy = Answer(b'{"error":{"message":"slow down"}}', 429, {"retry-after-ms": "1"})
        cut = as_lines([{"custom_id": "x" * 99, "response": None}], cut=20)
        server.first = [("GET /v1/batches", busy), ("GET /v1/files", cut)]
        answers = await run_map(server, OPENAI, tmp_path / "c.db")
    assert list(answers["answer"]) == [f"batch {question}" for question in ROWS]
    assert (server.first, server.live) == ([], [])


async def test_the_official_clients_work_with_the_same_servers(tmp_path):
    """This shows that the test servers behave like the providers."""
    async with OpenAIServer() as server, openai.AsyncOpenAI(api_key=KEY, base_url=server.url + "/v1") as client:
        await run_map(server, OPENAI, tmp_path / "o.db")
        batch = await client.batches.retrieve("batch_1")
        assert (batch.status, batch.request_counts.completed) == ("completed", 6)
        assert (await client.files.content(batch.output_file_id)).text.count("\n") == 6
    async with ClaudeServer() as server, anthropic.AsyncAnthropic(api_key=KEY, base_url=server.url) as client:
        await run_map(server, CLAUDE, tmp_path / "a.db")
        results = [each async for each in await client.messages.batches.results("batch_1")]
        assert {each.result.type for each in results} == {"succeeded"}

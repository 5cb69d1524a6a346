"""`agent.map(engine=client)`: a real cluster's workers send the rows, and share the budget and rates."""

import asyncio
import os
import signal

import dask.dataframe as dd
import pandas as pd
import pytest
from distributed.comm import tcp
from support.called import called
from support.dask_clusters import WORKER_KEY, EchoServer, cluster_of, worker_pids
from support.loopback import Answer, Loopback, said, served, sse

from nbagent import Agent, Budget, create_provider
from nbagent.core.admission import LATE_S


@pytest.fixture(scope="module")
def client():
    with cluster_of() as client:
        yield client


@pytest.fixture
def server():
    with served(EchoServer()) as server:
        yield server


def agent_for(server, **options):
    price = {"input": 50_000, "output": 50_000}  # a dollar for each row
    return Agent(create_provider("open_source", base_url=f"{server.url}/v1", model="m1", price=price), **options)


class ToolServer(Loopback):
    """Calls a tool, then repeats its result."""

    def answer_to(self, request):
        last = request.json["messages"][-1]
        if last["role"] == "tool":
            return Answer(sse(said(f"It is {last['content']}.")))
        return Answer(sse(called('{"number": 14}', "tripled"), said("", "tool_calls")))


def questions(count):
    return pd.Series([f"q{number}" for number in range(count)], index=range(100, 100 + count))


async def test_each_row_is_sent_once_and_traced_here(client, server):
    agent = agent_for(server, system_prompt="Be brief.")
    with agent.tagged("exam"):
        answers = await agent.map(questions(40), engine=client, concurrency=8)
    assert list(answers["answer"]) == [f"echo q{number}" for number in range(40)]
    assert set(server.asked.values()) == {1}
    runs = agent.trace.runs
    assert set(answers["run_id"]) == set(runs["run_id"])
    assert set(runs["tags"]) == {'["exam"]'}
    assert runs["session_id"].nunique() == 2, "both workers sent rows"
    assert len(agent.trace.prompts) == 1
    assert len(agent.trace.environment) == 2


async def test_a_lost_workers_open_rows_are_sent_again(client, server, tmp_path):
    agent = agent_for(server)
    server.hold(after=30)
    asking = asyncio.create_task(
        agent.map(questions(100), engine=client, concurrency=8, checkpoint=tmp_path / "run.sqlite")
    )
    await asyncio.to_thread(server.held.wait)
    pid = await asyncio.to_thread(lambda: next(iter(worker_pids(client).values())))
    os.kill(pid, signal.SIGKILL)
    server.release()
    answers = await asking
    assert list(answers["answer"]) == [f"echo q{number}" for number in range(100)]
    again = [question for question, times in server.asked.items() if times > 1]
    assert len(again) <= 8
    assert max(server.asked.values()) <= 2
    before = server.asked.total()
    assert (await agent.map(questions(100), engine=client, checkpoint=tmp_path / "run.sqlite"))["answer"].equals(
        answers["answer"]
    )
    assert server.asked.total() == before


@pytest.mark.filterwarnings("ignore:The map ended")
async def test_the_budget_holds_across_workers(client, server):
    agent, budget = agent_for(server), Budget(max_cost=10.0)
    answers = await agent.map(questions(100), engine=client, concurrency=8, budget=budget, allow_partial=True)
    assert 10 <= (answers["status"] == "ok").sum() <= 10 + 7
    assert server.asked.total() == (answers["status"] == "ok").sum()
    assert (answers["status"] == "left").sum() == 100 - server.asked.total()
    assert budget.spent == pytest.approx(server.asked.total())


async def test_workers_share_the_rate_limits(client, server):
    started = asyncio.get_running_loop().time()
    await agent_for(server).map(questions(6), engine=client, rpm=600)
    assert asyncio.get_running_loop().time() - started >= 2 * 60 / 300 - LATE_S, (
        "each worker sends three rows at half the rate"
    )


async def test_tools_are_sent_to_workers_and_keys_are_not(client, monkeypatch):
    sent = []

    async def to_frames(message, **options):
        frames = await tcp_to_frames(message, **options)
        sent.extend(map(bytes, frames))
        return frames

    tcp_to_frames = tcp.to_frames
    monkeypatch.setattr(tcp, "to_frames", to_frames)
    monkeypatch.setenv("OPENAI_API_KEY", key := "sk-only-here-0123456789abcdef")
    factor = 3

    def tripled(number: int) -> int:
        """Three times as much."""
        return factor * number

    with served(ToolServer()) as server:
        provider = create_provider("openai", model="gpt-4.1-mini", base_url=f"{server.url}/v1")
        agent = Agent(provider, system_prompt="Count with care.", tools=[tripled])
        answers = await agent.map(questions(3), tools=True, engine=client)
    assert answers["answer"].tolist() == ["It is 42."] * 3
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {WORKER_KEY}"}
    went = b"".join(sent)
    assert b"Count with care." in went, "the bytes can be read"
    assert b"Three times as much." in went
    assert key.encode() not in went


async def test_the_answers_to_a_dask_frame_have_the_same_partitions(client, server):
    agent = agent_for(server)
    data = dd.from_pandas(pd.DataFrame({"text": [f"q{number}" for number in range(10)]}), npartitions=3)
    answers = await agent.map(data, "{text}", engine=client)
    assert isinstance(answers, dd.DataFrame)
    assert answers.divisions == data.divisions
    asked = dict(server.asked)
    together = await asyncio.to_thread(data.assign(answer=answers["answer"], status=answers["status"]).compute)
    assert list(together["answer"]) == [f"echo {text}" for text in together["text"]]
    assert answers.dtypes.equals((await asyncio.to_thread(answers.compute)).dtypes)
    assert server.asked == asked, "computing sends nothing"
    here = await agent.map(data["text"])  # without a cluster
    assert list(here["answer"].compute()) == list(together["answer"])

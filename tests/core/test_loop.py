"""The loop: a run's events, its end, and its history."""

import asyncio
from contextlib import aclosing
from time import monotonic

import pytest
from support.single_runs import all_of, new_run, types

from nbagent import ContextManager, FunctionCall, Limits, LLMMessage, LLMResponse, ScriptedProvider
from nbagent.core import events
from nbagent.core.checking import as_answer_check
from nbagent.core.loop import run_loop
from nbagent.core.queue import QueueEntry, RunQueue
from nbagent.errors import BadRequestError

CALL = FunctionCall("look", {}, "c1")


def look() -> str:
    """Look."""
    return "seen"


async def ask(run, question="Hello"):
    return await all_of(run_loop(run, question))


def texts(run):
    return [message.text for message in run.history.messages]


# -- a run and its events ---------------------------------------------------------------------------------------------


async def test_a_run_continues_until_the_model_calls_no_tool():
    run = new_run(CALL, "Seen.", tools=[look], price=lambda *about: 2.0)
    seen = []
    run.observers = [seen.append]
    told = await ask(run)
    turn = ["turn_started", "turn_done", "usage", "tool_call", "tool_started", "tool_result"]
    assert types(told) == ["run_started", *turn, "turn_started", "text", "turn_done", "usage", "done"]
    assert seen == told
    assert texts(run) == ["Hello", "", "seen", "Seen."]
    done, result = told[-1], run.result
    assert (done.content, done.result, list(done.messages)) == ("Seen.", result, [])
    assert (result.status, result.iterations, result.cost, result.usage) == ("ok", 2, 4.0, run.spent.usage)
    assert done.metadata["run_id"] == run.run_id
    assert 0 <= done.metadata["duration_s"] < 600
    assert run.spent.over


# -- one run at a time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["Yes.", BadRequestError("no")])
async def test_a_run_waits_for_the_previous_one_without_spending_its_time(first):
    queue, history = RunQueue(), ContextManager()
    both = [new_run(turn, entry=QueueEntry(queue), history=history) for turn in (first, "Yes.")]
    both[1].spent.limits, both[1].spent.started = Limits(max_seconds=600), monotonic() - 3600  # it was created long ago
    order = []
    for run in both:
        run.observers = [lambda event, run=run: order.append((both.index(run), event.type))]
    await asyncio.gather(*(asyncio.create_task(ask(run)) for run in both))
    ends = [number for number, kind in order if kind in ("run_started", "done", "error")]
    assert ends == [0, 0, 1, 1]
    assert both[1].result.status == "ok"


# -- ends of a run ----------------------------------------------------------------------------------------------------


async def test_a_run_that_reaches_a_limit_names_it():
    run = new_run(CALL, CALL, tools=[look], limits=Limits(max_iterations=1))
    *_, limit, done = await ask(run)
    assert (limit.type, limit.metadata["limit_reason"]) == ("limit", "iterations")
    assert limit.content == run.result.status_reason
    assert (run.result.status, run.result.limit_reason, done.type) == ("limit", "iterations", "done")


async def test_a_run_whose_time_is_up_keeps_the_text_so_far():
    class Endless(ScriptedProvider):
        async def stream(self, request):
            run.spent.started -= 1000  # the time is up when this text arrives
            yield events.Text("Well")
            await asyncio.sleep(3600)

    run = new_run(Endless(), limits=Limits(max_seconds=1000))
    told = await ask(run)
    assert (run.result.status, run.result.limit_reason, run.result.content) == ("limit", "time", "Well")
    (partial,) = told[-1].messages
    assert (partial.text, partial.interrupted) == ("Well", True)


@pytest.mark.parametrize("way", ["cancelled", "closed"])
async def test_an_interrupted_run_notifies_observers_and_lets_the_next_one_start(way):
    seen, come = [], asyncio.Event()

    async def read():
        async with aclosing(run_loop(run, "Hello")) as running:
            async for event in running:
                if event.type == "text":
                    come.set()
                    if way == "closed":
                        return
                    await asyncio.Event().wait()

    run = new_run("Good day", observers=[seen.append])
    reading = asyncio.create_task(read())
    await come.wait()
    if way == "cancelled":
        reading.cancel()
    await asyncio.wait([reading])
    assert reading.cancelled() == (way == "cancelled")
    last = seen[-1]
    assert (last.type, last.content, [m.text for m in last.messages]) == ("interrupted", "Good ", ["Good "])
    assert last.metadata["run_id"] == run.run_id
    assert (run.result.status, run.result.iterations) == ("interrupted", 1)
    assert run.result.status_reason
    assert run.spent.over
    assert run.entry.queue.entries == []
    assert texts(run) == ["Hello", "Good "]


# -- the last answer --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reason", "status"), [("stop", "denied"), ("length", "truncated")])
async def test_a_denied_call_sets_the_status_if_the_answer_is_complete(reason, status):
    answer = LLMResponse("Well", None, reason)
    run = new_run(CALL, answer, tools=[look], options={"approve": True}, approver=lambda *asked: False)
    await ask(run)
    assert run.result.status == status


class TwoSpeakers:
    """Two agents who take turns."""

    def __init__(self):
        self.speaker, self.turns = "ada", 0

    def take(self):
        return [LLMMessage("user", "Go on.")]

    def end_turn(self):
        self.ended = self.speaker

    def passes_on(self):
        self.speaker, self.turns = "bob", self.turns + 1
        return self.turns == 1


@pytest.mark.parametrize(("reason", "names"), [("stop", ["ada", "bob"]), ("length", ["ada"])])
async def test_another_agent_may_speak_after_a_complete_answer(reason, names):
    run = new_run(LLMResponse("I think so.", None, reason), "So do I.", speakers=TwoSpeakers())
    told = await ask(run)
    assert [event.metadata["speaker"] for event in told if event.type == "turn_started"] == names
    assert [message.name for message in run.history.messages[1:]] == names
    assert run.speakers.ended == names[-1]
    assert (run.result.status == "ok") == (reason == "stop")


# -- checks -----------------------------------------------------------------------------------------------------------


def says_please(text):
    if "please" not in text:
        raise ValueError("say please")


async def test_no_correction_is_added_once_a_limit_is_reached():
    run = new_run("No.", checks=[as_answer_check(says_please)], limits=Limits(max_iterations=1))
    told = await ask(run)
    assert types(told)[-3:] == ["validation_error", "limit", "done"]
    assert texts(run) == ["Hello", "No."]
    assert run.result.status == "limit"

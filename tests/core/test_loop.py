"""The loop: which events a run has, what ends it, and what it leaves behind."""

import asyncio
from contextlib import aclosing
from time import monotonic

import pytest
from support.single_runs import Streaming, all_of, new_run, only, types

from nbagent import ContextManager, FunctionCall, Limits, LLMMessage, LLMResponse, ScriptedProvider
from nbagent.core import events
from nbagent.core.checking import CORRECTIONS, as_answer_check
from nbagent.core.current import current
from nbagent.core.http_exchange import Exchange
from nbagent.core.labels import Labels
from nbagent.core.loop import run_loop
from nbagent.core.queue import QueueEntry, RunQueue
from nbagent.errors import AgentDepthError, AnswerRejectedError, BadRequestError

CALL = FunctionCall("look", {}, "c1")


def look() -> str:
    """Look."""
    return "seen"


async def ask(run, question="Hello"):
    return await all_of(run_loop(run, question))


def texts(run):
    return [message.text for message in run.history.messages]


# -- a run and its events ---------------------------------------------------------------------------------------------


async def test_a_run_goes_on_until_the_model_calls_no_tool():
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


async def test_the_first_event_tells_where_the_conversation_goes_on():
    run = new_run("Yes.", origin={"source": "test"}, labels=Labels(("exam",), user="u1"))
    run.history.set_system_message("Be brief.")
    (system,) = run.history.messages
    first = (await ask(run))[0]
    assert first.content == "Hello"
    assert (list(first.messages), first.after) == ([system, run.history.messages[1]], None)
    about = {"run_id": run.run_id, "branch": run.run_id, "conversation_id": run.history.here.conversation_id}
    about |= {"source": "test", "tags": ["exam"], "user": "u1", "parent_run_id": None, "parent_tool_call_id": None}
    assert first.metadata.items() >= about.items()
    again = new_run("Yes.", history=run.history)
    second = (await ask(again, "And now?"))[0]
    assert (list(second.messages), second.after) == ([system, run.history.messages[3]], run.history.messages[2])
    assert second.after.text == "Yes."
    assert second.metadata["branch"] == run.run_id


async def test_without_a_system_message_the_first_event_has_the_question_alone():
    run = new_run("Yes.", messages=[LLMMessage("user", "Hi"), LLMMessage("assistant", "Ho")])
    first = (await ask(run))[0]
    assert [message.text for message in first.messages] == ["Hello"]
    assert first.after.text == "Ho"


async def inside(outer, *turns, **fields):
    async def make():
        return new_run(*turns, **fields)

    return await outer.within(make())


async def test_a_run_inside_of_another_one_names_it():
    outer = new_run()
    first = (await ask(await inside(outer, "Yes.")))[0]
    assert first.metadata["parent_run_id"] == outer.run_id


async def test_a_run_that_is_too_deep_is_refused_before_it_begins():
    run = await inside(new_run(limits=Limits(max_depth=0)), "never")
    with pytest.raises(AgentDepthError):
        await ask(run)
    assert run.history.messages == []


async def test_http_exchanges_are_told_before_the_next_event_in_their_order():
    def exchange():
        current.get().collect(Exchange("POST", "http://h", {}, "", 0, started=0.0, duration_s=1.0))

    answer = [exchange, exchange, events.Text("Yes."), exchange, LLMResponse("Yes.")]
    told = await ask(new_run(Streaming(answer), record_http=True))
    assert types(told)[1:] == ["turn_started", "http", "http", "text", "http", "turn_done", "usage", "done"]
    assert [event.metadata["attempt"] for event in told if event.type == "http"] == [1, 2, 3]


async def test_an_exchange_of_a_request_that_failed_is_told_before_the_error():
    def exchange():
        current.get().collect(Exchange("POST", "http://h", {}, "", 0, started=0.0, duration_s=1.0))

    told = await ask(new_run(Streaming([exchange, BadRequestError("no")]), record_http=True))
    assert types(told) == ["run_started", "turn_started", "http", "error"]


# -- one after the other ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["Yes.", BadRequestError("no")])
async def test_a_run_waits_for_the_one_before_it_whose_time_does_not_count(first):
    queue, history = RunQueue(), ContextManager()
    both = [new_run(turn, entry=QueueEntry(queue), history=history) for turn in (first, "Yes.")]
    both[1].spent.limits, both[1].spent.started = Limits(max_seconds=600), monotonic() - 3600  # it was made long ago
    order = []
    for run in both:
        run.observers = [lambda event, run=run: order.append((both.index(run), event.type))]
    await asyncio.gather(*(asyncio.create_task(ask(run)) for run in both))
    ends = [number for number, kind in order if kind in ("run_started", "done", "error")]
    assert ends == [0, 0, 1, 1]
    assert both[1].result.status == "ok"


# -- what ends a run --------------------------------------------------------------------------------------------------


async def test_a_limit_ends_a_run_and_says_which():
    run = new_run(CALL, CALL, tools=[look], limits=Limits(max_iterations=1))
    *_, limit, done = await ask(run)
    assert (limit.type, limit.metadata["limit_reason"]) == ("limit", "iterations")
    assert limit.content == run.result.status_reason
    assert (run.result.status, run.result.limit_reason, done.type) == ("limit", "iterations", "done")


async def test_a_run_whose_time_is_up_keeps_the_text_so_far():
    class Endless(ScriptedProvider):
        async def stream(self, request):
            run.spent.started -= 1000  # the time is up when this text is there
            yield events.Text("Well")
            await asyncio.sleep(3600)

    run = new_run(Endless(), limits=Limits(max_seconds=1000))
    told = await ask(run)
    assert (run.result.status, run.result.limit_reason, run.result.content) == ("limit", "time", "Well")
    (partial,) = told[-1].messages
    assert (partial.text, partial.interrupted) == ("Well", True)


@pytest.mark.parametrize("way", ["cancelled", "closed"])
async def test_an_interrupted_run_tells_its_observers_and_lets_the_next_one_begin(way):
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


async def test_a_failure_is_the_last_event_and_its_question_leaves_the_history():
    failure = ValueError("no such model")
    run = new_run("Yes.", failure)
    await ask(run)
    second = new_run(failure, history=run.history)
    last = (await ask(second, "And now?"))[-1]
    assert (last.type, last.exception, last.content) == ("error", failure, "no such model")
    assert failure.partial is second.result
    assert (second.result.status, second.result.status_reason) == ("error", "no such model")
    assert (second.result.iterations, last.metadata["run_id"]) == (1, second.run_id)
    assert texts(run) == ["Hello", "Yes."]
    assert second.spent.over
    assert second.entry.queue.entries == []


async def test_a_question_that_fails_a_guard_is_not_sent():
    model = ScriptedProvider(["never"])

    def polite(question):
        raise ValueError(f"{question} is too short")

    run = new_run(model, guards=[polite])
    told = await ask(run)
    assert types(told) == ["run_started", "done"]
    assert told[-1].result is run.result
    assert run.result.status == "blocked"
    assert "Hello is too short" in run.result.status_reason
    assert model.requests == []
    assert run.history.messages == []


# -- which answer ends it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "status"),
    [("stop", "ok"), ("length", "truncated"), ("content_filter", "blocked"), ("refusal", "blocked")],
)
async def test_an_answer_that_is_not_whole_ends_the_run_unchecked(reason, status):
    checked = []
    answer = LLMResponse("Well", None, reason)
    run = new_run(answer, "never", checks=[lambda result, context: checked.append(result.content)])
    await ask(run)
    assert (run.result.status, run.result.iterations) == (status, 1)
    assert checked == (["Well"] if status == "ok" else [])
    assert (run.result.status_reason is None) == (status == "ok")


async def test_an_answer_that_the_vendor_paused_goes_on_in_the_next_turn():
    run = new_run(LLMResponse("Well", None, "pause"), "Yes.")
    await ask(run)
    assert (run.result.content, run.result.iterations) == ("Yes.", 2)


@pytest.mark.parametrize(("reason", "status"), [("stop", "denied"), ("length", "truncated")])
async def test_a_call_that_was_denied_counts_if_the_answer_is_whole(reason, status):
    answer = LLMResponse("Well", None, reason)
    run = new_run(CALL, answer, tools=[look], options={"approve": True}, approver=lambda *asked: False)
    await ask(run)
    assert run.result.status == status


class TwoSpeakers:
    """Two who speak in turn."""

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
async def test_after_a_whole_answer_another_agent_may_speak(reason, names):
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


async def test_an_answer_that_fails_a_check_goes_back_to_the_model():
    run = new_run("Go away.", "Go, please.", checks=[as_answer_check(says_please)])
    told = await ask(run)
    turn = ["turn_started", "text", "text", "turn_done", "usage"]
    assert types(told) == ["run_started", *turn, "validation_error", *turn, "done"]
    correction = run.history.messages[2]
    assert (correction.role, correction.is_correction, bool(correction.message_id)) == ("user", True, True)
    assert "say please" in correction.text
    assert only(told, "validation_error").content == correction.text
    assert (run.result.status, run.result.content, run.corrections) == ("ok", "Go, please.", 1)


async def test_the_error_of_a_check_ends_the_run_after_the_last_correction():
    run = new_run(*["No."] * (CORRECTIONS + 2), checks=[as_answer_check(says_please)])
    last = (await ask(run))[-1]
    assert isinstance(last.exception, AnswerRejectedError)
    assert run.result.iterations == CORRECTIONS + 1


async def test_no_correction_is_added_that_a_limit_keeps_from_the_model():
    run = new_run("No.", checks=[as_answer_check(says_please)], limits=Limits(max_iterations=1))
    told = await ask(run)
    assert types(told)[-3:] == ["validation_error", "limit", "done"]
    assert texts(run) == ["Hello", "No."]
    assert run.result.status == "limit"

"""One turn: its events, its traces in the history and the result, and its cost, however it ends."""

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest
from support.single_runs import AskingInTurn, Streaming, all_of, new_run, only, take_turn, types

from nbagent import ContextManager, FunctionCall, Limits, LLMMessage, LLMResponse, ScriptedProvider, Usage
from nbagent.core import events, tool_output
from nbagent.core.current import current
from nbagent.core.history.repair import NO_RESULT
from nbagent.core.results import ToolOutcome
from nbagent.core.turn import Turn
from nbagent.errors import BadRequestError, ServerError

QUESTION = LLMMessage("user", "Hello")
COUNTED = {"usage": Usage(10, 5), "usage_raw": {"in": 10}}


def asked(*turns, **fields):
    return new_run(*turns, messages=[QUESTION], **fields)


def call(name, id="c1", **arguments):
    return FunctionCall(name, arguments, id)


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


def fail() -> None:
    """Fail."""
    raise ValueError("no such column")


def results_in(run):
    return [message.content for message in run.history.messages if message.role == "tool"]


# -- the request and its answer ---------------------------------------------------------------------------------------


async def test_turn_started_describes_the_request():
    model = Streaming([LLMResponse("Yes.")], [LLMResponse("Yes.")], base_url="http://h/v1", streaming=True)
    run = asked(model, tools=[double], options={}, reminder=lambda: "Be kind.")
    run.options = {"seed": 7}
    started = only(await take_turn(run), "turn_started")
    about = started.metadata
    assert (about["step"], about["provider"], about["model"]) == (1, "custom", "streaming")
    assert (about["base_url_host"], about["base_url_port"], about["stream"]) == ("h", 80, True)
    assert (about["n_messages_in"], about["params"]["seed"], about["reminder"]) == (1, 7, "Be kind.")
    assert "speaker" not in about
    assert started.messages == [QUESTION]
    assert [tool["name"] for tool in started.tools] == ["double"]
    assert started.timing is model.requests[0].timing
    run.reminder = str
    second = only(await take_turn(run), "turn_started").metadata
    assert (second["step"], "reminder" in second) == (2, False)


async def test_a_stream_must_end_with_an_answer():
    run = asked(Streaming([events.Text("Well")]))
    with pytest.raises(RuntimeError, match=r"Streaming\.stream\(\) must end with an LLMResponse"):
        await take_turn(run)


async def test_the_history_is_repaired_and_trimmed_before_it_is_sent():
    unanswered = LLMMessage("assistant", "", tool_calls=[call("double", x=1)])
    model = ScriptedProvider(["Yes."])
    run = new_run(model, messages=[QUESTION, unanswered, LLMMessage("user", "again")])
    told = await take_turn(run)
    assert told[0].type == "context"
    assert "repaired" in told[0].content
    assert [message.role for message in model.requests[0][0]] == ["user", "assistant", "tool", "user"]
    run.history.add_message("once more")
    run.history.max_messages, run.provider = 3, ScriptedProvider(["Yes."])
    trimmed = only(await take_turn(run), "context")
    assert (len(trimmed.messages), trimmed.content) == (5, "trimmed 5 old messages")


# -- the answer in the history ----------------------------------------------------------------------------------------


async def test_an_interrupted_placeholder_is_in_the_history_until_the_answer_is_complete():
    seen = []

    def look_and_add():
        seen.append(run.history.messages[-1])
        run.history.messages.append(LLMMessage("user", "by the way"))

    run = asked(Streaming([look_and_add, LLMResponse("Yes.")]))
    await take_turn(run)
    assert (seen[0].role, seen[0].content, seen[0].interrupted) == ("assistant", "", True)
    assert [message.text for message in run.history.messages] == ["Hello", "Yes.", "by the way"]


async def test_a_history_cleared_during_the_answer_stays_empty():
    run = asked(Streaming([lambda: run.history.clear(), LLMResponse("", [call("double", x=1)])]), tools=[double])
    await take_turn(run)
    assert run.history.messages == []


async def test_an_answer_counts_even_if_closing_its_stream_fails():
    class Closes(Streaming):
        async def stream(self, request):
            try:
                yield LLMResponse("Yes.", metadata=COUNTED)
            finally:
                raise ServerError("late")

    first, second = Closes(), Streaming([LLMResponse("twice")])
    run = asked(AskingInTurn(each=[first, second], chosen=list))
    with pytest.raises(ServerError):
        await take_turn(run)
    assert run.history.messages[-1].text == "Yes."
    assert run.result.usage + run.spent.usage == COUNTED["usage"]
    assert not second.requests


async def test_calls_get_unique_ids():
    used = [LLMMessage("assistant", "", tool_calls=[call("double", x=0)]), LLMMessage("tool", "0", tool_call_id="c1")]
    calls = [call("double", x=1), call("double", None, x=2), call("double", "c3", x=3)]
    run = new_run(calls, messages=[QUESTION, *used, QUESTION], tools=[double])
    told = await take_turn(run)
    answer = only(told, "turn_done").message
    started = only(told, "turn_started").metadata["call_id"]
    assert [each.id for each in answer.tool_calls] == [f"{started}_0", f"{started}_1", "c3"]
    made = [event for event in told if event.type == "tool_call"]
    assert [(event.metadata["wire_id"], event.metadata["index"]) for event in made] == [
        (each.id, index) for index, each in enumerate(answer.tool_calls)
    ]
    assert [event.tool_arguments for event in made] == [{"x": 1}, {"x": 2}, {"x": 3}]
    assert len({event.metadata["tool_call_id"] for event in made}) == 3


@pytest.mark.parametrize(("id", "is_kept"), [("c1", True), (None, False)])
async def test_an_answer_keeps_its_encoded_form_if_its_calls_are_unchanged(id, is_kept):
    response = LLMResponse("", [call("double", id, x=1)], None, COUNTED, {"provider": "claude"})
    response.encoded["codec"] = "form"
    run = asked(response, tools=[double])
    answer = only(await take_turn(run), "turn_done").message
    assert answer.encoded.get("codec") == ("form" if is_kept else None)
    assert answer.provider_extras == {"provider": "claude"}


async def test_an_answer_with_only_calls_keeps_the_earlier_text_as_the_result():
    first = LLMResponse("Let me see.", [call("double", x=1)], metadata={"citations": ["source"], "quoted": True})
    run = asked(first, call("double", x=2), LLMResponse("", metadata={}), tools=[double])
    for content in ("Let me see.", "Let me see.", ""):
        await take_turn(run)
        assert (run.result.content, "quoted" in run.result.metadata) == (content, bool(content))
    assert run.result.citations == []


# -- tokens and money -------------------------------------------------------------------------------------------------


def tokens(run):
    return run.spent.usage.output_tokens


async def test_the_price_is_the_answering_models_or_else_the_requested_models():
    asked_for = []

    def price(usage, model, provider, raw=None, is_batched=False):
        asked_for.append((model, raw, is_batched))
        return {"streaming": 2.0}.get(model)

    about = {**COUNTED, "model": "dated", "provider_calls": ["search"], "batched": True}
    run = asked(Streaming([LLMResponse("Yes.", metadata=about)], [LLMResponse("Yes.")]), price=price)
    assert only(await take_turn(run), "turn_done").metadata["cost_usd"] == 2.0
    assert "usage_estimated" not in run.result.metadata
    raw = {"in": 10, "provider_calls": ["search"]}
    assert asked_for == [("dated", raw, True), ("streaming", raw, True)]
    run.price = lambda *about: None
    assert only(await take_turn(run), "turn_done").metadata["cost_usd"] is None
    assert run.spent.cost is None
    assert run.result.metadata["usage_estimated"] is True


@pytest.mark.parametrize(("replaying", "cost"), [(False, 30.0), (True, 0.0)])
async def test_everything_in_a_broken_answer_is_billed_unless_it_is_a_replay(replaying, cost):
    """Text, thinking and calls count, four characters per token."""
    came = [events.Text("t" * 40), events.Thinking("h" * 40), events.ToolCallDelta("c" * 40), BadRequestError("no")]
    run = asked(Streaming(came, is_replaying=replaying))
    with pytest.raises(BadRequestError):
        await take_turn(run)
    assert (tokens(run), run.spent.cost) == (30, cost)
    assert run.result.metadata["usage_estimated"] is True


@pytest.mark.parametrize(("wait", "cost"), [(60.0, 0.0), (0.0, None)])
async def test_stopping_a_request_that_waits_for_a_retry_costs_nothing(wait, cost):
    run = asked(Streaming([events.Retry("busy", metadata={"wait_s": wait}), asyncio.CancelledError()]))
    with pytest.raises(asyncio.CancelledError):
        await take_turn(run)
    assert run.spent.cost == cost


async def test_a_broken_answer_counts_once_even_if_the_reader_stops_at_its_event():
    run = asked(Streaming([events.Text("t" * 40), events.Retry("again", metadata={"wait_s": 60.0})]))
    with Turn(run) as turn:
        async with aclosing(turn.ask_model()) as told:
            while (await anext(told)).type != "usage":
                pass
    assert run.spent.cost == 10.0


@pytest.mark.parametrize("then", [(events.Retry("again"), LLMResponse("never")), (ServerError("down"),)])
async def test_no_model_is_called_after_a_broken_answer_uses_up_the_budget(then):
    """Neither the same model nor another one."""
    first, second = Streaming([events.Text("t" * 40), *then]), Streaming([LLMResponse("never")])
    run = asked(AskingInTurn(each=[first, second], chosen=list), limits=Limits(max_output_tokens=10))
    assert types(await take_turn(run)) == ["turn_started", "text", "usage", "retry"]
    assert not second.requests
    assert run.history.messages == [QUESTION]


# -- summaries --------------------------------------------------------------------------------------------------------

OLD = [LLMMessage("user", "one"), LLMMessage("assistant", "1"), LLMMessage("user", "two"), LLMMessage("assistant", "2")]


def long_conversation(*turns, strategy="summarise", **fields):
    return new_run(*turns, messages=[*OLD, QUESTION], history=ContextManager(2, strategy=strategy), **fields)


@pytest.mark.parametrize(("error", "said"), [(ValueError("too long"), "too long"), (KeyError(), "KeyError")])
async def test_without_a_summary_old_messages_are_dropped(error, said, caplog):
    async def summarise(messages):
        raise error

    run = long_conversation("Yes.", summarise=summarise)
    told = [event.content for event in await take_turn(run) if event.type == "context"]
    assert told[1:] == [f"no summary: {said}", "trimmed 4 old messages"]
    assert [message.text for message in run.history.messages] == ["Hello", "Yes."]
    assert "without a summary" in caplog.text


# -- tools ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parallel", "order"), [(True, "started started result result"), (False, "started result started result")]
)
async def test_parallel_tools_run_concurrently_and_others_one_by_one(parallel, order):
    run = asked([call("double", x=1), call("double", "c2", x=2)], tools=[double], options={"parallel": parallel})
    told = await take_turn(run)
    assert types(told)[5:] == [f"tool_{each}" for each in order.split()]
    assert results_in(run) == ["2", "4"]


async def test_results_are_reported_as_they_arrive_and_kept_in_call_order():
    first_may_end = asyncio.Event()

    async def wait() -> str:
        """Wait for the other tool."""
        await first_may_end.wait()
        return "slow"

    def observe(event):
        if event.type == "tool_result":
            first_may_end.set()

    run = asked([call("wait"), call("double", "c2", x=1)], tools=[wait, double], observers=[observe], timeout=60)
    told = [event.content for event in await take_turn(run) if event.type == "tool_result"]
    assert told == ["2", "slow"]
    assert results_in(run) == ["slow", "2"]
    assert [made["result"] for made in run.result.function_calls] == ["slow", "2"]
    assert all(made["duration_s"] > 0 for made in run.result.function_calls)
    results = [(message.name, message.tool_call_id) for message in run.history.messages if message.role == "tool"]
    assert results == [("wait", "c1"), ("double", "c2")]


async def test_calls_over_the_limit_get_a_result_without_running():
    run = asked([call("double", x=1), call("double", "c2", x=2)], tools=[double], limits=Limits(max_tool_calls=1))
    told = await take_turn(run)
    assert types(told)[5:] == ["tool_result", "tool_started", "tool_result"]
    ran, refused = results_in(run)
    assert ran == "2"
    assert "limit" in refused
    assert [made["is_error"] for made in run.result.function_calls] == [False, True]
    assert told[5].outcome.started > 0


async def test_invalid_arguments_are_counted_and_reported_before_their_result():
    run = asked([call("double", x="four"), call("double", "c2")], tools=[double])
    told = await take_turn(run)
    assert types(told)[-4:] == ["validation_error", "tool_result", "validation_error", "tool_result"]
    assert told[-4].tool_name == "double"
    assert told[-4].content == told[-3].content
    assert run.result.metadata["validation_retries"] == 2


@pytest.mark.parametrize(
    ("answer", "said", "result", "status"),
    [(True, "approved", "2", "ok"), ({"x": 5}, "edited", "10", "ok"), (False, "denied", "not approved", "denied")],
)
async def test_an_approval_is_reported_and_a_denied_call_changes_the_status(answer, said, result, status):
    run = asked(call("double", x=1), tools=[double], options={"approve": True}, approver=lambda *asked: answer)
    told = await take_turn(run)
    assert types(told)[-2:] == ["approval", "tool_result"]
    assert told[-2].content == said
    assert result in results_in(run)[0]
    assert run.result.status == status
    assert run.result.function_calls[0]["arguments"] == (answer if isinstance(answer, dict) else {"x": 1})
    assert "validation_retries" not in run.result.metadata


async def test_results_of_pinned_tools_are_pinned_unless_they_are_errors():
    pinned = asked([call("double", x=1), call("fail", "c2")], tools=[double, fail])
    plain = asked(call("double", x=1), tools=[double])
    for name in ("double", "fail"):
        pinned.tools.registry.add(replace(pinned.tools.registry.get_function(name), pinned=True))
    for run, expected in ((pinned, [True, False]), (plain, [False])):
        await take_turn(run)
        assert [message.pinned for message in run.history.messages if message.role == "tool"] == expected
    assert pinned.history.messages[-1].is_error


async def test_results_follow_their_calls_even_if_a_tool_adds_a_message():
    def note() -> str:
        """Add a message."""
        run.history.messages.append(LLMMessage("user", "by the way"))
        return "noted"

    run = asked([call("note"), call("double", "c2", x=1)], tools=[note, double], options={"parallel": False})
    await take_turn(run)
    assert [message.text for message in run.history.messages] == ["Hello", "", "noted", "2", "by the way"]


async def test_a_tool_may_clear_the_history():
    def forget() -> str:
        """Forget everything."""
        run.history.clear()
        return "forgotten"

    run = asked(call("forget"), tools=[forget])
    await take_turn(run)
    assert run.history.messages == []
    assert run.result.function_calls[0]["result"] == "forgotten"


async def test_a_clients_call_has_a_result_but_no_request():
    run = new_run(tools=[double])
    with Turn(run) as turn:
        told = [turn.take_call(call("double", None, x=2)), *await all_of(turn.run_tools())]
    assert types(told) == ["tool_call", "tool_started", "tool_result"]
    assert [message.content for message in run.history.messages] == ["4"]
    assert all("call_id" not in event.metadata for event in told)
    assert told[0].metadata["tool_call_id"] == told[-1].metadata["tool_call_id"]
    assert run.spent.iterations == 0


# -- progress and output ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("report", "shown", "progress"), [(0.4, "40 %", 0.4), ("page 3", "page 3", None)])
async def test_the_last_report_of_a_tool_comes_before_its_result(report, shown, progress):
    def work() -> str:
        """Work."""
        current.get().call.report(report)
        return "done"

    seen = []
    told = await take_turn(asked(call("work"), tools=[work], observers=[seen.append]))
    assert types(told)[-3:] == types(seen)[-3:] == ["tool_started", "tool_progress", "tool_result"]
    assert (told[-2].content, told[-2].tool_name, told[-2].metadata.get("progress")) == (shown, "work", progress)
    assert told[-2].metadata["tool_call_id"] == told[-1].metadata["tool_call_id"]


@pytest.mark.parametrize("prints", [True, False])
async def test_progress_and_output_are_reported_while_the_tool_runs(monkeypatch, prints):
    monkeypatch.setattr(tool_output, "INTERVAL_S", 0)
    told, go_on = [], asyncio.Event()

    async def work() -> str:
        """Work."""
        if prints:
            current.get().call.output.write("printed")
        current.get().call.report(0.5)
        await go_on.wait()
        return "done"

    run = asked(call("work"), tools=[work], observers=[told.append], timeout=60)
    with Turn(run) as turn:
        await all_of(turn.ask_model())
        async for event in turn.run_tools():
            if event.type == "tool_progress":
                assert "tool_result" not in types(told)
                go_on.set()
            assert event.type != "tool_printed"  # only for observers
            last = event
    printed, parts = (["tool_printed"], [{"stream": "stdout", "text": "printed"}]) if prints else ([], [])
    assert types(told)[4:] == ["tool_started", *printed, "tool_progress", "tool_result"]
    assert list(last.outputs) == parts
    assert [list(event.outputs) for event in told if event.type == "tool_printed"] == [parts] * prints


@pytest.mark.parametrize("is_async", [True, False])
async def test_observers_receive_events_of_agents_that_a_tool_calls(is_async):
    """Events may come from the tool's thread. Events after the end of the call are dropped."""
    reporters, came, told = [], asyncio.Event(), []

    def ask() -> str:
        """Ask."""
        reporters.append(current.get().report_event)
        reporters[0](events.Text("of a child"))
        return "asked"

    async def ask_async() -> str:
        """Ask."""
        ask()
        return "asked"

    def observe(event):
        if event.type == "child":
            told.append(event)
            came.set()

    tool = ask_async if is_async else ask
    run = asked(call(tool.__name__), tools=[tool], observers=[observe])
    last = (await take_turn(run))[-1]
    assert came.is_set()
    reporters[0](events.Text("too late"))
    assert [event.event.content for event in told] == ["of a child"]
    assert told[0].metadata["tool_call_id"] == last.metadata["tool_call_id"]


def test_child_events_are_ignored_after_the_loop_is_closed():
    reporters = []

    def ask() -> None:
        """Ask."""
        reporters.append(current.get().report_event)

    asyncio.run(take_turn(asked(call("ask"), tools=[ask])))
    reporters[0](events.Text("too late"))


# -- interrupted ------------------------------------------------------------------------------------------------------


async def test_calls_that_did_not_start_have_an_error_as_their_result():
    run = asked([call("double", x=1), call("double", "c2", x=2)], tools=[double])
    with Turn(run) as turn:
        await all_of(turn.ask_model())
    assert results_in(run) == [NO_RESULT] * 2
    assert run.closing_messages == run.history.messages[-2:]
    assert all(message.is_error and message.message_id for message in run.closing_messages)
    made = run.result.function_calls[0]
    assert (made["arguments"], made["is_error"], made["duration_s"]) == ({"x": 1}, True, None)


async def test_results_that_were_ready_when_the_reader_stopped_are_kept():

    async def at_once(call, interrupted):
        return ToolOutcome(call, str(call.arguments["x"]))

    run = asked([call("double", x=1), call("double", "c2", x=2)], tools=[double])
    run.tools.run = at_once
    with Turn(run) as turn:
        await all_of(turn.ask_model())
        async with aclosing(turn.run_tools()) as running:
            async for event in running:
                if event.type == "tool_result":
                    break
    assert results_in(run) == ["1", "2"]
    assert run.closing_messages == []

"""`POST /ag-ui` on a real server: each event is one of AG-UI's, and they come in the order that its clients check."""

import json

import pytest
from support.ag_ui_events import check_order
from support.retrying import Retrying
from support.serving import OTHER_TOKEN, TOKEN, events_of, served

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, tool
from nbagent.errors import RateLimitError
from nbagent.server.conversations.opening import open_store
from nbagent.server.security import owner_of

QUESTION = {"id": "u1", "role": "user", "content": "The mean of 1 and 3?"}


def mean(numbers: list[float]) -> float:
    """The mean of numbers."""
    return sum(numbers) / len(numbers)


@tool(approve=True)
def delete_file(name: str) -> str:
    """Delete a file."""
    return f"deleted {name}"


def run(client, messages=(QUESTION,), **more):
    """The events of a run, checked."""
    given = {"threadId": "t", "runId": "r", "messages": list(messages), "state": {}, "tools": [], "context": []}
    answer = client.post("/ag-ui", content=json.dumps(given | more), headers={"Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text
    events = events_of(answer)
    check_order(events)
    return events


def of(events, kind):
    return [event for event in events if event["type"] == kind]


def last_messages(events):
    return of(events, "MESSAGES_SNAPSHOT")[-1]["messages"]


def roles(messages):
    return [message["role"] for message in messages]


def resumed(interrupts, *payloads):
    pairs = zip(interrupts, payloads, strict=True)
    return [{"interruptId": each["id"], "status": "resolved", "payload": payload} for each, payload in pairs]


def test_half_a_character_breaks_no_stream():
    with served(Agent(ScriptedProvider("A cut emoji: \ud83d"))) as server:
        events = run(server.client(), [{**QUESTION, "content": "Cut: \ud83d"}])
    assert "".join(each.get("delta", "") for each in events) == "A cut emoji: �"


def test_thinking_tools_and_text_are_a_run_of_the_client():
    thinks = LLMResponse("I ask.", [FunctionCall("mean", {"numbers": [1, 3]})], "tool_calls", {"thinking": "Hm, hm."})
    with served(Agent(ScriptedProvider([thinks, "It is 2."]), tools=[mean])) as server:
        events = run(server.client(), state={"theirs": 1})
    assert [event["type"] for event in events] == [
        "RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT",
        "REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
        "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT",
        "TEXT_MESSAGE_START", *["TEXT_MESSAGE_CONTENT"] * 3, "TEXT_MESSAGE_END",
        "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "RUN_FINISHED",
    ]  # fmt: skip
    assert roles(last_messages(events)) == ["user", "reasoning", "assistant", "tool", "assistant"]
    call, result = of(events, "TOOL_CALL_START")[0], of(events, "TOOL_CALL_RESULT")[0]
    assert call["toolCallName"] == "mean"
    assert (result["toolCallId"], result["content"]) == (call["toolCallId"], "2.0")
    finished = events[-1]
    assert finished["outcome"] == {"type": "success"}  # without `pendingToolCallIds`: nothing is left for the client
    assert finished["result"] == {"content": "It is 2.", "status": "ok"}
    assert finished["usage"][0]["model"] == "scripted"
    assert of(events, "STATE_SNAPSHOT")[-1]["snapshot"]["theirs"] == 1


def test_the_client_holds_the_conversation():
    provider = ScriptedProvider(lambda messages, functions: " / ".join(m.text for m in messages))
    with served(Agent(provider)) as server:
        client = server.client()
        first = last_messages(run(client))
        system = {"id": "s", "role": "system", "content": "Be brief."}
        context = [{"description": "The page", "value": "penguins"}]
        events = run(client, [system, *first, {"id": "u2", "role": "user", "content": "two"}], context=context)
        told = events[-1]["result"]["content"]
        assert told.startswith("Be brief.\n\nThe page: penguins / The mean of 1 and 3? / ")
        assert told.endswith(" / two")
        edited = [{**first[0], "content": "one"}, first[1], {"id": "u3", "role": "user", "content": "three"}]
        assert run(client, edited)[-1]["result"]["content"].startswith("one / ")
        assert client.get("/healthz").status_code == 200
        told = run(client, [{"id": "u4", "role": "user", "content": "four"}])[-1]["result"]["content"]
        assert told.startswith("one / ")  # a question alone goes on with the stored conversation
        shown = run(client, [])
        assert [m["content"] for m in last_messages(shown) if m["role"] == "user"] == ["one", "three", "four"]
        assert run(server.client(OTHER_TOKEN), [])[1]["messages"] == []


def test_what_comes_back_unchanged_keeps_what_its_vendor_wants_back():
    calls = [FunctionCall("mean", {"numbers": [n]}) for n in (1, 3)]
    asks = LLMResponse("", calls, "tool_calls", raw_response={"vendor": "scripted", "signature": "abc"})
    provider = ScriptedProvider([asks, "It is 2.", "Yes."])
    with served(Agent(provider, tools=[mean])) as server:
        client = server.client()
        first = last_messages(run(client))
        stored = server.run(server.host.store.get(owner_of(TOKEN), "t")).messages
        run(client, [*first, {"id": "u2", "role": "user", "content": "Sure?"}])
    assert stored[1].provider_extras
    assert provider.requests[-1][0][: len(stored)] == list(stored)


@pytest.mark.parametrize("thinking", ["", "Right thought."])
def test_a_retry_takes_back_what_was_said(thinking):
    answer = LLMResponse("Right.", None, "stop", {"thinking": thinking})
    with served(Agent(Retrying([answer]))) as server:
        events = run(server.client())
    assert seen_by_client(events) == {"user": QUESTION["content"], "reasoning": thinking, "assistant": "Right."}
    assert [m.get("content") for m in last_messages(events)] == [QUESTION["content"], thinking, "Right."]


def seen_by_client(events):
    """What a client shows that follows the events, by role: a snapshot takes away what it does not mention."""
    shown = {}
    for event in events:
        if event["type"] == "MESSAGES_SNAPSHOT":
            kept = {} if "reasoning" in roles(event["messages"]) else shown
            kept = {name: message for name, message in kept.items() if message[0] == "reasoning"}
            shown = kept | {m["id"]: [m["role"], m.get("content", "")] for m in event["messages"]}
        elif event["type"].endswith("MESSAGE_CONTENT"):
            role = "reasoning" if event["type"].startswith("REASONING") else "assistant"
            shown.setdefault(event["messageId"], [role, ""])[1] += event["delta"]
    return dict(shown.values())


TWO_DELETIONS = LLMResponse("", [FunctionCall("delete_file", {"name": n}) for n in "ab"], "tool_calls")


def test_an_approval_is_an_interrupt_that_the_next_run_answers():
    both = LLMResponse("", [FunctionCall("mean", {"numbers": [1, 3]}), *TWO_DELETIONS.function_calls], "tool_calls")
    with served(Agent(ScriptedProvider([both, "Done."]), tools=[mean, delete_file])) as server:
        client = server.client()
        events = run(client)
        outcome = events[-1]["outcome"]
        assert outcome["type"] == "interrupt"
        calls = [call["toolCallId"] for call in of(events, "TOOL_CALL_START")]
        assert [event["toolCallId"] for event in of(events, "TOOL_CALL_RESULT")] == calls[:1]  # the mean is there
        assert [each["toolCallId"] for each in outcome["interrupts"]] == calls[1:]
        first = outcome["interrupts"][0]
        assert first["reason"] == "tool_call"
        assert first["message"] == 'Run delete_file(name="a")?'
        assert first["responseSchema"]["required"] == ["approved"]
        assert first["expiresAt"].endswith("+00:00")
        waiting = last_messages(events)

        edited, denied = {"approved": True, "editedArgs": {"name": "c"}}, {"approved": False, "reason": "too late"}
        answers = resumed(outcome["interrupts"], edited, denied)
        after = run(client, waiting, runId="r2", resume=answers)
        assert not of(after, "TOOL_CALL_START")
        results = {event["toolCallId"]: event["content"] for event in of(after, "TOOL_CALL_RESULT")}
        assert results[calls[1]].endswith("\ndeleted c")
        assert "too late" in results[calls[2]]
        assert after[-1]["result"]["content"] == "Done."

        again = run(client, waiting, runId="r3", resume=answers)  # a replay does nothing
        assert again[-1]["code"] == "no_such_interrupt"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda given: None, "interrupts_not_answered"),
        (lambda given: given[:1], "interrupts_not_answered"),
        (lambda given: [*given, {"interruptId": "x", "status": "cancelled"}], "interrupts_not_answered"),
        (lambda given: [{**given[0], "payload": {"approved": "yes"}}, given[1]], "invalid_decision"),
        (lambda given: [{**given[0], "payload": None}, given[1]], "invalid_decision"),
        (lambda given: [{**given[0], "payload": {"approved": True, "editedArgs": [1]}}, given[1]], "invalid_decision"),
        (lambda given: [{**given[0], "payload": {"approved": True, "editedArgs": {}}}, given[1]], "invalid_arguments"),
    ],
)
def test_what_does_not_answer_the_interrupt_decides_nothing(change, code):
    with served(Agent(ScriptedProvider([TWO_DELETIONS, "Done."]), tools=[delete_file])) as server:
        client = server.client()
        interrupts = run(client)[-1]["outcome"]["interrupts"]
        answers = resumed(interrupts, {"approved": True}, {"approved": False})
        wrong = change(answers)
        refused = run(client, **({} if wrong is None else {"resume": wrong}))
        assert refused[-1]["code"] == code
        after = run(client, resume=[answers[0], {"interruptId": interrupts[1]["id"], "status": "cancelled"}])
        assert [event["content"] for event in of(after, "TOOL_CALL_RESULT")].count("deleted a") == 1
        assert after[-1]["outcome"]["type"] == "success"


def test_a_run_that_waits_in_another_process_is_answered_too(tmp_path):
    place = f"sqlite:///{tmp_path / 'conversations.sqlite'}"
    turns = [FunctionCall("delete_file", {"name": "a"}), FunctionCall("delete_file", {"name": "b"}), "Done."]
    with (
        served(Agent(ScriptedProvider(turns), tools=[delete_file]), open_store(place)) as one,
        served(Agent(ScriptedProvider(["other"]), tools=[delete_file]), open_store(place)) as other,
    ):
        asked = run(one.client())
        refused = run(other.client(), [{**QUESTION, "content": "And now?"}])
        assert refused[-1]["code"] == "interrupts_not_answered"
        waiting = last_messages(asked)
        answers = resumed(asked[-1]["outcome"]["interrupts"], {"approved": True})
        again = run(other.client(), waiting, resume=answers)
        assert last_messages(again) == waiting  # what the client has stays until the run has ended
        (second,) = again[-1]["outcome"]["interrupts"]
        assert (second["reason"], second["message"]) == ("confirmation", 'Run delete_file(name="b")?')
        done = run(other.client(), waiting, resume=resumed([second], {"approved": False}))
    assert done[-1]["outcome"] == {"type": "success"}
    assert roles(last_messages(done)) == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert last_messages(done)[2]["content"] == "deleted a"


def test_only_so_many_runs_of_a_token_wait():
    turns = [FunctionCall("delete_file", {"name": "a"})] * 3
    with served(Agent(ScriptedProvider(turns), tools=[delete_file]), max_concurrent=2) as server:
        client = server.client()
        ends = [run(client, threadId=f"t{number}")[-1] for number in range(3)]
    assert [end.get("outcome", {}).get("type") or end["code"] for end in ends] == ["interrupt"] * 2 + [
        "too_many_waiting"
    ]


def test_nobody_else_answers_an_interrupt():
    with served(Agent(ScriptedProvider([TWO_DELETIONS, "Done."]), tools=[delete_file])) as server:
        interrupts = run(server.client())[-1]["outcome"]["interrupts"]
        answers = resumed(interrupts, {"approved": True}, {"approved": True})
        assert run(server.client(OTHER_TOKEN), resume=answers)[-1]["code"] == "no_such_interrupt"
        denied = [{"interruptId": each["id"], "status": "cancelled"} for each in interrupts]
        results = of(run(server.client(), resume=denied), "TOOL_CALL_RESULT")
        assert all(event["metadata"]["nbagent"]["is_error"] for event in results)


def test_calls_that_run_one_after_the_other_ask_one_after_the_other():
    @tool(approve=True, parallel=False)
    def move(name: str) -> str:
        """Move a file."""
        return f"moved {name}"

    calls = [FunctionCall("move", {"name": n}) for n in "ab"]
    with served(Agent(ScriptedProvider([calls, "Done."]), tools=[move])) as server:
        client = server.client()
        first = run(client)[-1]["outcome"]["interrupts"]
        second = run(client, resume=resumed(first, {"approved": True}))
        assert [event["content"] for event in of(second, "TOOL_CALL_RESULT")] == ["moved a"]
        third = run(client, resume=resumed(second[-1]["outcome"]["interrupts"], {"approved": True}))
        assert [event["content"] for event in of(third, "TOOL_CALL_RESULT")] == ["moved b"]


def test_without_a_decision_in_time_the_answer_is_no():
    with served(
        Agent(ScriptedProvider([TWO_DELETIONS, "Done."]), tools=[delete_file]), approval_seconds=0.05
    ) as server:
        client = server.client()
        interrupts = run(client)[-1]["outcome"]["interrupts"]
        if (talk := server.app.state.waiting_talks.get(owner_of(TOKEN), "t")) is not None:
            server.run(talk.run.ended.wait())
        stored = server.run(server.host.store.get(owner_of(TOKEN), "t")).messages
        assert ["in time" in message.text for message in stored if message.role == "tool"] == [True, True]
        late = resumed(interrupts, {"approved": True}, {"approved": True})
        assert run(client, resume=late)[-1]["code"] == "no_such_interrupt"


def test_a_failed_run_keeps_what_came_before():
    asks = LLMResponse("I ask.", [FunctionCall("mean", {"numbers": [1, 3]})], "tool_calls")
    with served(Agent(ScriptedProvider([asks, RateLimitError("too many")]), tools=[mean])) as server:
        events = run(server.client())
    assert events[-1]["type"] == "RUN_ERROR"
    assert events[-1]["code"] == "vendor_rate_limited"
    assert roles(last_messages(events)) == ["user", "assistant", "tool"]


def test_the_clients_own_tools_are_left_out_and_named():
    provider = ScriptedProvider(["Hello."])
    with served(Agent(provider, tools=[mean])) as server:
        events = run(server.client(), tools=[{"name": "paint", "description": "Paint the page.", "parameters": {}}])
    assert of(events, "CUSTOM") == [{"type": "CUSTOM", "name": "nbagent.tools_left_out", "value": ["paint"]}]
    assert [function["name"] for function in provider.requests[0][1]] == ["mean"]


def holding(kind, url):
    return {"id": "u", "role": "user", "content": [{"type": kind, "source": {"type": "url", "value": url}}]}


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([QUESTION, {"id": "a", "role": "assistant", "content": "2"}], "'assistant'"),
        ([{"id": "s", "role": "system", "content": "x"}], "'system'"),
        ([holding("audio", "https://x.example/a.mp3")], "audio"),
        ([holding("image", "/etc/passwd")], "https://"),
        ([QUESTION, holding("image", "file:///etc/passwd")], "https://"),
    ],
)  # fmt: skip
def test_messages_without_a_question_are_refused(messages, told):
    with served(Agent(ScriptedProvider(["x"]))) as server:
        refused = run(server.client(), messages)[-1]
    assert refused["code"] == "invalid_request"
    assert told in refused["message"]


def test_bodies_that_are_no_input_are_problems():
    with served(Agent(ScriptedProvider(["x"]))) as server:
        client = server.client()
        right = {"threadId": "t", "runId": "r", "messages": []}
        for wrong in ({"threadId": "../x"}, {"messages": [{"id": "g", "role": "ghost"}]}, {"runId": None}):
            assert client.post("/ag-ui", json=right | wrong).status_code == 422
        assert client.post("/ag-ui", content=b"{", headers={"Content-Type": "application/json"}).status_code == 400
        assert server.client(token=None).post("/ag-ui", json={}).status_code == 401


def test_the_plan_is_in_the_state_until_there_is_another_one():
    steps = [{"step": "Load"}, {"step": "Plot"}]
    turns = [
        FunctionCall("update_plan", {"steps": steps}),
        "Loading.",
        "Still.",
        FunctionCall("update_plan", {}),
        "No.",
    ]
    with served(Agent(ScriptedProvider(turns), plan=True)) as server:
        client = server.client()
        events = run(client)
        planned = [{"step": "Load", "status": "doing", "note": ""}, {"step": "Plot", "status": "pending", "note": ""}]
        plans = [event["snapshot"]["nbagent"].get("plan") for event in of(events, "STATE_SNAPSHOT")]
        assert plans == [None, planned, planned]
        assert [event["type"] for event in events].index("TOOL_CALL_RESULT") < events.index(
            of(events, "STATE_SNAPSHOT")[1]
        )
        for question in ("u2", "u3"):  # the second call is wrong
            state = of(events, "STATE_SNAPSHOT")[-1]["snapshot"]
            events = run(client, [{**QUESTION, "id": question}], state=state)
            assert [event["snapshot"]["nbagent"]["plan"] for event in of(events, "STATE_SNAPSHOT")] == [planned] * 2
        assert run(client, [{**QUESTION, "id": "u4"}], state={"nbagent": 3})[-1]["type"] == "RUN_ERROR"

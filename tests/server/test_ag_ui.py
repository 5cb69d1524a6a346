"""`POST /ag-ui` on a real server: the events are AG-UI's, in the order that its clients check."""

import json

from support.ag_ui_events import check_order
from support.serving import OTHER_TOKEN, TOKEN, events_of, served

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, tool
from nbagent.server.conversations.opening import open_store
from nbagent.server.tokens import owner_of

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


def deleting(*names):
    return [FunctionCall("delete_file", {"name": name}) for name in names]


def test_thinking_tools_and_text_become_one_client_run():
    thinks = LLMResponse("I ask.", [FunctionCall("mean", {"numbers": [1, 3]})], "tool_calls", {"thinking": "Hm, hm."})
    provider = ScriptedProvider([thinks, "It is 2."])
    paint = {"name": "paint", "description": "Paint the page.", "parameters": {}}
    with served(Agent(provider, tools=[mean])) as server:
        events = run(server.client(), state={"theirs": 1}, tools=[paint])
    assert roles(last_messages(events)) == ["user", "reasoning", "assistant", "tool", "assistant"]
    call, result = of(events, "TOOL_CALL_START")[0], of(events, "TOOL_CALL_RESULT")[0]
    assert call["toolCallName"] == "mean"
    assert (result["toolCallId"], result["content"]) == (call["toolCallId"], "2.0")
    finished = events[-1]
    assert finished["outcome"] == {
        "type": "success"
    }  # without `pendingToolCallIds`: nothing is left for the client to do
    assert finished["result"] == {"content": "It is 2.", "status": "ok"}
    assert finished["usage"][0]["model"] == "scripted"
    assert of(events, "STATE_SNAPSHOT")[-1]["snapshot"]["theirs"] == 1
    # the client's own tools are ignored, and named
    assert of(events, "CUSTOM") == [{"type": "CUSTOM", "name": "nbagent.tools_left_out", "value": ["paint"]}]
    assert [function["name"] for function in provider.requests[0][1]] == ["mean"]


def test_an_unstreamed_answer_is_also_text():
    class Whole(ScriptedProvider):
        async def stream(self, request):
            yield LLMResponse("It is 2.")

    with served(Agent(Whole([]))) as server:
        events = run(server.client())
        assert [each["delta"] for each in of(events, "TEXT_MESSAGE_CONTENT")] == ["It is 2."]
        assert last_messages(events)[-1]["content"] == "It is 2."


def test_the_client_keeps_the_conversation():
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
        # a single prompt continues the stored conversation; no messages return it
        run(client, [{"id": "u4", "role": "user", "content": "four"}])
        shown = last_messages(run(client, []))
        assert [m["content"] for m in shown if m["role"] == "user"] == ["one", "three", "four"]
        assert run(server.client(OTHER_TOKEN), [])[1]["messages"] == []


def test_a_rejected_answer_is_retracted():
    def is_number(text):
        assert text.isdigit(), "Give a number."

    provider = ScriptedProvider(["Two.", "2", "3"])
    with served(Agent(provider, validators=[is_number])) as server:
        client = server.client()
        streamed = last_messages(run(client))
        assert [m["content"] for m in streamed if m["role"] == "assistant"] == ["2"]
        assert [(m["role"], m["content"]) for m in last_messages(run(client, []))] == [
            (m["role"], m["content"]) for m in streamed
        ]
        run(client, [*streamed, {"id": "u2", "role": "user", "content": "And 1 more?"}])
    assert [m.is_correction for m in provider.requests[-1][0]] == [False, False, True, False, False]


def test_unchanged_messages_keep_their_provider_data():
    calls = [FunctionCall("mean", {"numbers": [n]}) for n in (1, 3)]
    asks = LLMResponse("", calls, "tool_calls", raw_response={"provider": "scripted", "signature": "abc"})
    provider = ScriptedProvider([asks, "It is 2.", "Yes."])
    with served(Agent(provider, tools=[mean])) as server:
        client = server.client()
        first = last_messages(run(client))
        stored = server.run(server.host.store.get(owner_of(TOKEN), "t")).messages
        run(client, [*first, {"id": "u2", "role": "user", "content": "Sure?"}])
    assert stored[1].provider_extras
    assert provider.requests[-1][0][: len(stored)] == list(stored)


def test_an_approval_is_an_interrupt_decided_in_the_next_run():
    both = [FunctionCall("mean", {"numbers": [1, 3]}), *deleting("a", "b")]
    with served(Agent(ScriptedProvider([both, "Done."]), tools=[mean, delete_file])) as server:
        client = server.client()
        events = run(client)
        interrupts = events[-1]["outcome"]["interrupts"]
        calls = [call["toolCallId"] for call in of(events, "TOOL_CALL_START")]
        assert [event["toolCallId"] for event in of(events, "TOOL_CALL_RESULT")] == calls[
            :1
        ]  # only the mean has a result
        assert [each["toolCallId"] for each in interrupts] == calls[1:]
        assert (interrupts[0]["reason"], interrupts[0]["message"]) == ("tool_call", 'Run delete_file(name="a")?')
        assert interrupts[0]["responseSchema"]["required"] == ["approved"]
        waiting = last_messages(events)

        edited, denied = {"approved": True, "editedArgs": {"name": "c"}}, {"approved": False, "reason": "too late"}
        answers = resumed(interrupts, edited, denied)
        after = run(client, waiting, runId="r2", resume=answers)
        results = {event["toolCallId"]: event["content"] for event in of(after, "TOOL_CALL_RESULT")}
        assert results[calls[1]].endswith("\ndeleted c")
        assert "too late" in results[calls[2]]
        assert after[-1]["result"]["content"] == "Done."

        again = run(client, waiting, runId="r3", resume=answers)  # a replay does nothing
        assert again[-1]["code"] == "no_such_interrupt"


def test_a_request_without_the_decision_decides_nothing():
    with served(Agent(ScriptedProvider([deleting("a", "b"), "Done."]), tools=[delete_file])) as server:
        client = server.client()
        interrupts = run(client)[-1]["outcome"]["interrupts"]
        first, second = resumed(interrupts, {"approved": True}, {"approved": False})
        for given, code in (
            ([], "interrupts_not_answered"),
            ([first], "interrupts_not_answered"),
            ([first, second, {"interruptId": "x", "status": "cancelled"}], "interrupts_not_answered"),
            ([{**first, "payload": {"approved": "yes"}}, second], "invalid_decision"),
            ([{**first, "payload": {"approved": True, "editedArgs": {}}}, second], "invalid_arguments"),
        ):
            assert run(client, **({"resume": given} if given else {}))[-1]["code"] == code
        stranger = server.client(OTHER_TOKEN)
        assert run(stranger, resume=[first, second])[-1]["code"] == "no_such_interrupt"
        after = run(client, resume=[first, {"interruptId": interrupts[1]["id"], "status": "cancelled"}])
        results = of(after, "TOOL_CALL_RESULT")
        assert sorted(event["metadata"]["nbagent"]["is_error"] for event in results) == [False, True]
        assert [event["content"] for event in results].count("deleted a") == 1


def test_a_run_waiting_in_another_process_can_be_decided(tmp_path):
    place = f"sqlite:///{tmp_path / 'conversations.sqlite'}"
    turns = [*deleting("a", "b"), "Done."]
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
        assert last_messages(again) == waiting  # the client's messages stay until the run has ended
        (second,) = again[-1]["outcome"]["interrupts"]
        done = run(other.client(), waiting, resume=resumed([second], {"approved": False}))
    assert done[-1]["outcome"] == {"type": "success"}
    assert roles(last_messages(done)) == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert last_messages(done)[2]["content"] == "deleted a"


def holding(kind, url):
    return {"id": "u", "role": "user", "content": [{"type": kind, "source": {"type": "url", "value": url}}]}


def test_invalid_input_is_refused():
    right = {"threadId": "t", "runId": "r", "messages": []}
    with served(Agent(ScriptedProvider(["x"]))) as server:
        client = server.client()
        for messages, told in (
            ([QUESTION, {"id": "a", "role": "assistant", "content": "2"}], "'assistant'"),
            ([holding("audio", "https://x.example/a.mp3")], "audio"),
            ([QUESTION, holding("image", "file:///etc/passwd")], "https://"),
        ):
            refused = run(client, messages)[-1]
            assert refused["code"] == "invalid_request"
            assert told in refused["message"]
        for wrong in ({"threadId": "../x"}, {"messages": [{"id": "g", "role": "ghost"}]}):
            assert client.post("/ag-ui", json=right | wrong).status_code == 422
        assert client.post("/ag-ui", content=b"{", headers={"Content-Type": "application/json"}).status_code == 400


def test_the_plan_is_in_the_state():
    steps = [{"step": "Load"}, {"step": "Plot"}]
    turns = [FunctionCall("update_plan", {"steps": steps}), "Loading."]
    with served(Agent(ScriptedProvider(turns), plan=True)) as server:
        events = run(server.client())
    planned = [{"step": "Load", "status": "doing", "note": ""}, {"step": "Plot", "status": "pending", "note": ""}]
    plans = [event["snapshot"]["nbagent"].get("plan") for event in of(events, "STATE_SNAPSHOT")]
    assert plans == [None, planned, planned]

"""`POST /agent/chat` on a real server."""

from support.serving import events_of, served

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.core.event_json import SharedMessages, event_from_json
from nbagent.errors import ServerError


def mean(numbers: list[float]) -> float:
    """The mean of numbers."""
    return sum(numbers) / len(numbers)


def test_the_model_that_answers_is_named_also_where_it_is_one_of_several_or_a_function():
    models = [ScriptedProvider([ServerError("down")], model="first"), ScriptedProvider("Yes.", model="second")]
    with served(Agent(models).route("(?i)what day", lambda match: "Tuesday.")) as server:
        answers = [
            server.client().post("/agent/chat", json={"message": text}).json() for text in ("Is it?", "What day?")
        ]
    assert [(data["response"], data["meta"]["model"]) for data in answers] == [
        ("Yes.", "second"),
        ("Tuesday.", "function"),
    ]


def test_without_the_token_only_health_answers():
    with served(Agent(ScriptedProvider(["x"]))) as server:
        client = server.client(token=None)
        assert client.get("/healthz").json() == {"status": "ok"}
        for path in ("/", "/docs", "/openapi.json", "/metrics", "/agent/conversations", "/no/such"):
            assert client.get(path).status_code == 401, path
        refused = client.post("/agent/chat", json={"message": "?"})
    assert refused.status_code == 401
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["code"] == "unauthorized"


def test_full_events_hold_what_a_trace_needs():
    turns = [FunctionCall("mean", {"numbers": [1, 3]}), "It is 2."]
    with served(Agent(ScriptedProvider(turns), tools=[mean], system_prompt="Be brief.")) as server:
        body = {"message": "The mean of 1 and 3?", "events": "full"}
        headers = {"Accept": "text/event-stream", "Idempotency-Key": "k"}
        answer, again = (server.client().post("/agent/chat", json=body, headers=headers) for _ in range(2))
    assert again.text == answer.text
    shared = SharedMessages()
    events = [event_from_json(each, shared) for each in events_of(answer)]
    assert [message.text for message in events[0].messages] == ["Be brief.", "The mean of 1 and 3?"]
    assert events[-1].result.content == "It is 2."
    assert next(each for each in events if each.type == "tool_result").outcome.args_valid


def test_an_unforeseen_error_tells_no_details_in_full_events():
    def fail(messages, functions):
        raise RuntimeError("the password is hunter2")

    with served(Agent(ScriptedProvider(fail))) as server:
        body = {"message": "?", "events": "full"}
        answer = server.client().post("/agent/chat", json=body, headers={"Accept": "text/event-stream"})
    assert events_of(answer)[-1]["type"] == "error"
    assert "hunter2" not in answer.text


def test_what_agents_do_that_a_tool_asks_is_among_the_events():
    def fail(messages, functions):
        raise RuntimeError("the password is hunter2")

    analyst = Agent(ScriptedProvider([FunctionCall("mean", {"numbers": [1, 3]}), "It is 2."] * 2), tools=[mean])
    tools = [analyst.as_tool("ask", "Knows."), Agent(ScriptedProvider(fail)).as_tool("broken", "Fails.")]
    turns = [FunctionCall("ask", {"question": "Mean?"}), FunctionCall("broken", {"question": "?"}), "2."]
    with served(Agent(ScriptedProvider(turns * 2), tools=tools)) as server:
        short, full = (
            server.client().post(
                "/agent/chat", json={"message": "?", "events": form}, headers={"Accept": "text/event-stream"}
            )
            for form in ("short", "full")
        )
    for answer in (short, full):
        events = events_of(answer)
        children = [event for event in events if event["type"] == "child"]
        told = [event["event"] for event in children]
        assert [event["content"] for event in told if event["type"] == "text"] == ["It ", "is ", "2."]
        assert [event["tool_name"] for event in told if event["type"] == "tool_result"] == ["mean"]
        calls = [event["metadata"]["tool_call_id"] for event in events if event["type"] == "tool_started"]
        assert [
            event["metadata"]["tool_call_id"] for event in children if event["event"]["type"] == "run_started"
        ] == calls
        assert events.index(children[0]) < [event["type"] for event in events].index("tool_result")
        assert told[-1]["type"] == "error"
        assert all("hunter2" not in event["content"] for event in told)

"""`POST /agent/chat` on a real server."""

import asyncio

from support.serving import events_of, served

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.errors import ServerError
from nbagent.server import event_stream


def test_the_answering_model_is_named_even_for_a_router_or_function():
    models = [ScriptedProvider([ServerError("down")], model="first"), ScriptedProvider("Yes.", model="second")]
    with served(Agent(models).route("(?i)what day", lambda match: "Tuesday.")) as server:
        for question, response, model in (("Is it?", "Yes.", "second"), ("What day?", "Tuesday.", "function")):
            data = server.client().post("/agent/chat", json={"message": question}).json()
            assert (data["response"], data["meta"]["model"]) == (response, model)


def test_without_a_token_only_health_checks_and_the_page_respond():
    with served(Agent(ScriptedProvider(["x"]))) as server:
        client = server.client(token=None)
        assert client.get("/healthz").json() == {"status": "ok"}
        assert client.get("/").status_code == 200
        for path in ("/docs", "/openapi.json", "/metrics", "/agent/conversations", "/page/state", "/no/such"):
            assert client.get(path).status_code == 401, path
        assert client.post("/page/chat", json={"message": "?"}).status_code == 401
        refused = client.post("/agent/chat", json={"message": "?"})
    assert refused.status_code == 401
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["code"] == "unauthorized"


def test_numbers_that_json_lacks_become_null():
    def half(a: float) -> dict:
        return {"x": a / 2}

    turns = [FunctionCall("half", {"a": float("inf")}), "None."] * 2
    with served(Agent(ScriptedProvider(turns), tools=[half])) as server:
        client, ask = server.client(), {"message": "?", "conversation_id": "c"}
        answers = [
            client.post("/agent/chat", json=ask, headers={"Accept": kind}) for kind in ("*/*", "text/event-stream")
        ]
        answers.append(client.get("/agent/conversations/c"))
    assert ["Infinity" in answer.text for answer in answers] == [False] * 3
    assert answers[0].json()["tool_calls"][0]["result"]["data"] == {"x": None}
    assert "half" in answers[2].text


def test_a_silent_run_keeps_its_connection(monkeypatch):
    monkeypatch.setattr(event_stream, "SILENCE_S", 0.02)
    commented = asyncio.Event()

    async def answer(messages, functions):
        await commented.wait()
        return "Yes."

    with (
        served(Agent(ScriptedProvider(answer))) as server,
        server.client().stream(
            "POST", "/agent/chat", json={"message": "?"}, headers={"Accept": "text/event-stream"}
        ) as stream,
    ):
        lines = stream.iter_lines()
        assert ": waiting" in lines
        server.loop.call_soon_threadsafe(commented.set)
        assert '"done"' in [line for line in lines if line.startswith("data: ")][-1]


def test_an_unexpected_error_reveals_no_details_even_in_a_sub_agent():
    def fail(messages, functions):
        raise RuntimeError("the password is hunter2")

    broken = Agent(ScriptedProvider(fail)).as_tool("ask", "Fails.")
    turns = [FunctionCall("ask", {"question": "?"}), RuntimeError("the password is hunter2")]
    with served(Agent(ScriptedProvider(turns), tools=[broken])) as server:
        headers = {"Accept": "text/event-stream"}
        events = events_of(server.client().post("/agent/chat", json={"message": "?"}, headers=headers))
    *_, child = (each["event"] for each in events if each["type"] == "child")
    for error in (child, events[-1]):
        assert error["type"] == "error"
        assert "hunter2" not in str(error)

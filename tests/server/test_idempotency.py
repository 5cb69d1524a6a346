"""Idempotency keys: a repeated request receives the first answer."""

import threading

from support.serving import OTHER_TOKEN, leave, served

from nbagent import Agent, FunctionCall, ScriptedProvider

KEY = {"Idempotency-Key": "key-1"}
ASK = {"message": "?"}


def counting():
    """Returns numbered answers."""
    numbers = iter(range(1, 100))
    return Agent(ScriptedProvider(lambda messages, functions: f"answer {next(numbers)}"))


def test_a_repeated_request_receives_the_first_answer():
    with served(counting()) as server:
        client = server.client()
        first, second = (client.post("/agent/chat", json=ASK, headers=KEY) for _ in range(2))
        assert first.json()["response"] == "answer 1"
        assert second.json() == first.json()
        kept = client.get(f"/agent/conversations/{first.json()['conversation_id']}").json()["messages"]
        assert len(kept) == 2
        theirs = server.client(OTHER_TOKEN).post("/agent/chat", json=ASK, headers=KEY).json()
        assert theirs["response"] == "answer 2"
        refused = client.post("/agent/chat", json={"message": "another"}, headers=KEY)
        assert (refused.status_code, refused.json()["code"]) == (422, "idempotency_key_reused")


def test_a_request_whose_client_left_runs_once():
    asked, go_on = threading.Event(), threading.Event()
    paid = []

    def pay() -> str:
        """Pay."""
        asked.set()
        go_on.wait(60)
        paid.append(1)
        return "paid"

    with served(Agent(ScriptedProvider([FunctionCall("pay", {}), "Paid."]), tools=[pay])) as server:
        client, body = server.client(), {**ASK, "conversation_id": "c"}
        leave(server.url, "/agent/chat", body, asked, **KEY)
        go_on.set()
        assert client.post("/agent/chat", json=body, headers=KEY).json()["response"] == "Paid."
        messages = client.get("/agent/conversations/c").json()["messages"]
        assert [each["role"] for each in messages] == ["user", "assistant", "tool", "assistant"]
    assert paid == [1]

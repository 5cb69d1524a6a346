"""`/agent/conversations` on a real server."""

import asyncio
import threading

from support.serving import OTHER_TOKEN, served

from nbagent import Agent, ScriptedProvider


def echo(messages, functions):
    return f"You said {messages[-1].text}."


def test_conversations_are_listed_read_and_deleted():
    with served(Agent(ScriptedProvider(echo))) as server:
        client = server.client()
        ids = [client.post("/agent/chat", json={"message": word}).json()["conversation_id"] for word in ("one", "two")]
        page = client.get("/agent/conversations", params={"limit": 1}).json()
        assert [each["title"] for each in page["conversations"]] == ["two"]
        rest = client.get("/agent/conversations", params={"limit": 1, "after": page["next"]}).json()
        assert [each["conversation_id"] for each in rest["conversations"]] == ids[:1]
        assert rest["next"] is None
        first = f"/agent/conversations/{ids[0]}"
        found = client.get(first).json()
        assert [m["content"] for m in found["messages"]] == ["one", "You said one."]
        assert found["total_tokens"] > 0
        statuses = [client.delete(first).status_code, client.delete(first).status_code, client.get(first).status_code]
        assert statuses == [204, 404, 404]


def test_another_token_sees_nothing():
    with served(Agent(ScriptedProvider(echo))) as server:
        mine, other = server.client(), server.client(OTHER_TOKEN)
        asked = {"message": "secret", "conversation_id": "shared-name"}
        mine.post("/agent/chat", json=asked)
        assert other.get("/agent/conversations").json()["conversations"] == []
        assert other.get("/agent/conversations/shared-name").status_code == 404
        assert other.delete("/agent/conversations/shared-name").status_code == 404
        theirs = other.post("/agent/chat", json={"message": "hello", "conversation_id": "shared-name"}).json()
        assert theirs["response"] == "You said hello."
        assert len(other.get("/agent/conversations/shared-name").json()["messages"]) == 2
        assert mine.get("/agent/conversations/shared-name").json()["messages"][0]["content"] == "secret"


def test_deleting_a_conversation_ends_its_run():
    asked, gone = threading.Event(), threading.Event()

    async def answer(messages, functions):
        if len(messages) > 1:  # a conversation without turns can't be deleted yet
            asked.set()
            await asyncio.to_thread(gone.wait)
        return "too late"

    with served(Agent(ScriptedProvider(answer))) as server:
        client, answers = server.client(), []

        def ask():
            answers.append(server.client().post("/agent/chat", json={"message": "?", "conversation_id": "c"}))

        ask()
        asking = threading.Thread(target=ask)
        asking.start()
        assert asked.wait(60)
        assert client.delete("/agent/conversations/c").status_code == 204
        asking.join(60)
        gone.set()
    assert (answers[1].status_code, answers[1].json()["code"]) == (409, "turn_lost")

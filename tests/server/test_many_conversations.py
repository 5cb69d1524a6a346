"""Many conversations at once over HTTP: nothing is lost, and turns of one conversation never interleave."""

import asyncio
import os

import httpx
import pytest
from support.serving import TOKEN, served

from nbagent import Agent, ScriptedProvider
from nbagent.server.conversations.opening import open_store

TURNS = 5
#: NBAGENT_CONVERSATIONS=200 takes a minute for each store.
MANY = int(os.environ.get("NBAGENT_CONVERSATIONS", "50"))


async def answer(messages, functions):
    await asyncio.sleep(0)  # others get on meanwhile
    return f"{len(messages)}: {messages[-1].text}"


async def ask_all(url, conversations):
    """All turns of all conversations at once: the first number of each answer, by conversation."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    room = asyncio.Semaphore(64)  # a client takes long to choose one of more
    limits = httpx.Limits(max_connections=64, keepalive_expiry=1)  # the server closes idle connections, too
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=300, limits=limits) as client:

        async def ask(conversation_id, turn):
            body = {"message": f"{conversation_id}, turn {turn}", "conversation_id": conversation_id}
            async with room:
                response = (await client.post("/agent/chat", json=body)).raise_for_status()
            number, _, text = response.json()["response"].partition(": ")
            assert text == body["message"]
            return int(number)

        asked = {each: asyncio.gather(*(ask(each, turn) for turn in range(TURNS))) for each in conversations}
        return dict(zip(asked, await asyncio.gather(*asked.values()), strict=True))


@pytest.mark.parametrize("count", [10, pytest.param(MANY, marks=pytest.mark.full)])
def test_many_conversations_at_once(shared_place, count):
    conversations = [f"c{number}" for number in range(count)]
    agent, store = Agent(ScriptedProvider(answer)), open_store(shared_place)
    with served(agent, store, requests_per_minute=None, max_concurrent=None) as server:
        numbers = asyncio.run(ask_all(server.url, conversations))
        client = server.client()
        kept = {each: client.get(f"/agent/conversations/{each}").json()["messages"] for each in conversations}
    # each turn saw all that were before it, and nothing of those after it
    assert all(sorted(seen) == [1, 3, 5, 7, 9] for seen in numbers.values())
    for conversation_id, messages in kept.items():
        texts = [message["content"] for message in messages]
        assert sorted(texts[::2]) == [f"{conversation_id}, turn {turn}" for turn in range(TURNS)]
        assert texts[1::2] == [f"{2 * number + 1}: {text}" for number, text in enumerate(texts[::2])]

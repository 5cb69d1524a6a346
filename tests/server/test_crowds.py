"""Many clients at once: each receives its own complete answer, and can continue its own conversation."""

import asyncio
import http.client
import json
import time

import httpx
import pytest
from support.serving import TOKEN, served

from nbagent import Agent, ScriptedProvider
from nbagent.server.conversations.opening import open_store


@pytest.mark.parametrize("streams", [20, pytest.param(200, marks=pytest.mark.full)])
async def test_parallel_streams_with_five_times_as_many_conversations(place, streams):
    begun, all_begun = 0, asyncio.Event()

    async def answer(messages, functions):
        nonlocal begun
        if messages[-1].text.endswith("-0"):
            begun += 1
            if begun == streams:
                all_begun.set()
            await all_begun.wait()  # all run at the same time
        return f"I heard {messages[-1].text} after {len(messages) - 1} messages."

    async def ask(client, name, number):
        body = {"message": f"{name}-{number}", "conversation_id": name}
        text = ""
        headers = {"Accept": "text/event-stream"}
        async with client.stream("POST", "/agent/chat", json=body, headers=headers) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: ") and (event := json.loads(line[6:]))["type"] == "text":
                    text += event["content"]
        assert text == f"I heard {name}-{number} after {0 if number == 0 or number > 1 else 2} messages."

    provider = ScriptedProvider(answer)
    with served(Agent(provider), open_store(place), requests_per_minute=None, max_concurrent=None) as server:
        options = {"base_url": server.url, "headers": {"Authorization": f"Bearer {TOKEN}"}, "timeout": 120}
        async with httpx.AsyncClient(**options, limits=httpx.Limits(max_connections=streams)) as client:
            for number in (0, 1):
                await asyncio.gather(*(ask(client, f"c{each}", number) for each in range(streams)))
            for number in range(2, 6):
                await asyncio.gather(*(ask(client, f"c{number}-{each}", number) for each in range(streams)))
            found, after = [], None
            while True:
                params = {"limit": 100} | ({"after": after} if after else {})
                page = (await client.get("/agent/conversations", params=params)).json()
                found += [each["conversation_id"] for each in page["conversations"]]
                if (after := page["next"]) is None:
                    break
    assert sorted(found) == sorted(
        [f"c{each}" for each in range(streams)]
        + [f"c{number}-{each}" for number in range(2, 6) for each in range(streams)]
    )


@pytest.mark.full
def test_idle_connections_stay_open_longer_than_clients_keep_them():
    with served(Agent(ScriptedProvider())) as server:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
        for pause in (6, 0):
            connection.request("GET", "/healthz")
            kept = connection.sock
            assert connection.getresponse().read() == b'{"status":"ok"}'
            time.sleep(pause)
        assert connection.sock is kept
        connection.close()

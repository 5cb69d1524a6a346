"""`nbagent serve` is killed while eight clients send prompts: no answered turn is lost or duplicated."""

import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pytest
from support.serving import TOKEN, serving_process

#: How often the server is killed.
KILLS = int(os.environ.get("NBAGENT_KILLS", "5"))
APP = '''
from nbagent import Agent, FunctionCall, ScriptedProvider

def look(at: str) -> str:
    """Look something up."""
    return f"seen {at}"

def answer(messages, functions):
    provider.requests.clear()
    last = messages[-1]
    return FunctionCall("look", {"at": last.text}, last.text) if last.role == "user" else f"I have {last.text}."

provider = ScriptedProvider(answer)
agent = Agent(provider, tools=[look])
'''


class Client:
    """Sends prompts in its own conversation. A prompt without an answer is repeated with the same key."""

    def __init__(self, number):
        self.name = f"c{number}"
        self.answered = 0

    def ask_until_the_server_dies(self, http, told):
        with suppress(httpx.TransportError):
            while True:
                question = f"{self.name}-{self.answered}"
                body = {"message": question, "conversation_id": self.name}
                answer = http.post("/agent/chat", json=body, headers={"Idempotency-Key": question})
                assert answer.json().get("response") == f"I have seen {question}.", answer.text
                self.answered += 1
                told.release()

    def check(self, http):
        """Check that each turn is complete, in order and not duplicated; the last may lack an answer."""
        messages = http.get(f"/agent/conversations/{self.name}").json().get("messages", [])
        found = [(message["role"], message["content"]) for message in messages]
        turns = range(len(found) // 4)
        assert len(turns) - self.answered in (0, 1)
        assert found == [message for number in turns for message in turn_of(f"{self.name}-{number}")]


def turn_of(question):
    seen = f"seen {question}"
    return [("user", question), ("assistant", ""), ("tool", seen), ("assistant", f"I have {seen}.")]


@pytest.mark.parametrize("kills", [1, pytest.param(KILLS, marks=pytest.mark.full)])
def test_kills_neither_lose_nor_duplicate_answered_turns(tmp_path, place, kills):
    (tmp_path / "app.py").write_text(APP)
    options = ["app.py", "--store", place, "--requests-per-minute", "0", "--max-concurrent", "0"]
    clients, chance = [Client(number) for number in range(8)], random.Random(kills)
    for _ in range(kills):
        told = threading.Semaphore(0)
        with serving_process(tmp_path, *options, NBAGENT_SERVE_TOKEN=TOKEN) as server, ThreadPoolExecutor(8) as threads:
            asking = [threads.submit(client.ask_until_the_server_dies, server.client(), told) for client in clients]
            for _ in range(8 + chance.randrange(32)):
                assert told.acquire(timeout=120), [each.exception() for each in asking if each.done()]
            time.sleep(chance.random() / 50)  # anywhere in a turn
            server.process.kill()
            for each in asking:
                each.result(120)
    with serving_process(tmp_path, *options, NBAGENT_SERVE_TOKEN=TOKEN) as server:
        for client in clients:
            client.check(server.client())
    assert sum(client.answered for client in clients) >= 8 * kills

"""Long recordings stay small and fast: what requests share is written, read and compared once."""

import json
from itertools import pairwise

import nbagent
from nbagent import Agent, FunctionCall, ScriptedProvider


def price(item: str) -> str:
    """The price of an item today."""
    return f"{item} costs {len(item)} €"


def script(turns):
    asked = [[FunctionCall("price", {"item": f"item {n}"})] for n in range(turns)]
    return [turn for n, call in enumerate(asked) for turn in (call, f"Number {n} costs what the shop says. " * 10)]


def shopping(turns, **options):
    return Agent(ScriptedProvider(script(turns)), tools=[price], system_prompt="Be brief. " * 50, **options)


def talk(agent, turns):
    return [str(agent.chat_sync(f"What does item {n} cost?")) for n in range(turns)]


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_recording_grows_with_the_conversation(path):
    turns = 20
    with nbagent.record(path):
        recorded = talk(shopping(turns), turns)
    said = lines(path)[1:]
    assert [message["role"] for message in said[0]["request"]["messages"]] == ["system", "user"]
    assert all(len(line["request"]["messages"]) == 2 for line in said)  # the last answer, and what followed
    assert all(line["request"]["after"] == before["request"]["id"] for before, line in pairwise(said))
    assert [sorted(line["request"]) for line in said[1:]] == [["after", "id", "messages"]] * (2 * turns - 1)
    assert path.stat().st_size / turns < 6_000
    with nbagent.replay(path, "none"):
        assert talk(shopping(0), turns) == recorded

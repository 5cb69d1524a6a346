"""Tags, users, sessions and metadata of runs: passed with a prompt, set by a block, and inherited by inner runs."""

import json

import pandas as pd
import pytest
from support.small_agent import call

from nbagent import Agent, FunctionRegistry, LLMResponse, ScriptedProvider, Trace
from nbagent.errors import ConfigurationError

LABELS = ["tags", "user", "session", "metadata"]


def labels(trace, place=-1):
    row = trace.runs[LABELS].iloc[place]
    known = {name: row[name] for name in LABELS if pd.notna(row[name])}
    return {name: json.loads(text) if name in ("tags", "metadata") else text for name, text in known.items()}


def agent_of(*turns, **options):
    return Agent(ScriptedProvider(list(turns), model="m"), **options)


def test_labels_of_a_prompt_are_recorded_and_not_sent():
    agent = agent_of("a")
    agent.chat_sync("?", tags=["exam"], user="u1", session="s1", metadata={"variant": "b", "n": 2})
    assert labels(agent.trace) == {
        "tags": ["exam"], "user": "u1", "session": "s1", "metadata": {"variant": "b", "n": 2},
    }  # fmt: skip
    assert "u1" not in str(agent.trace.calls["params"].iloc[0])
    agent = agent_of("a")
    agent.chat_sync("?")
    assert labels(agent.trace) == {}


def test_tagged_blocks_nest():
    agent = agent_of("a", "b", "c")
    with agent.tagged("exam", user="u1", metadata={"a": 1}):
        with agent.tagged("hard", user="u2", metadata={"b": 2}):
            agent.chat_sync("?", tags=["exam", "extra"])
        agent.chat_sync("?")
    agent.chat_sync("?")
    assert labels(agent.trace, 0) == {"tags": ["exam", "hard", "extra"], "user": "u2", "metadata": {"a": 1, "b": 2}}
    assert labels(agent.trace, 1) == {"tags": ["exam"], "user": "u1", "metadata": {"a": 1}}
    assert labels(agent.trace, 2) == {}


async def test_inner_runs_inherit_the_labels_of_the_calling_run():
    trace, registry = Trace(), FunctionRegistry()
    inner = agent_of("deep", "deeper", trace=trace)

    async def ask() -> str:
        """Ask."""
        return str(await inner.chat("inner", tags=["sub"]))

    registry.register("ask", "Ask.", ask)
    outer = agent_of(LLMResponse("", [call("ask")]), "done", LLMResponse("", [call("ask")]), "done", trace=trace,
                     function_registry=registry)  # fmt: skip
    await outer.chat("q", tags=["exam"], user="u1")
    assert labels(trace, 1) == {"tags": ["exam", "sub"], "user": "u1"}
    with outer.tagged("block"):
        await outer.chat("q")
    assert labels(trace, 3) == {"tags": ["block", "sub"]}


@pytest.mark.parametrize(
    ("given", "named"),
    [({"tags": "exam"}, "tags"), ({"user": 1}, "user"), ({"session": 2}, "session"), ({"metadata": ["a"]}, "metadata")],
)
def test_invalid_labels_are_errors_before_anything_is_sent(given, named):
    agent = agent_of("a")
    with pytest.raises(ConfigurationError, match=named):
        agent.chat_sync("?", **given)
    if named != "tags":
        with pytest.raises(ConfigurationError, match=named), agent.tagged("a", **given):
            pass
    assert agent.trace.runs.empty
    assert agent.open_labels == []

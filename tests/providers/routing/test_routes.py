"""`agent.route`: functions answer simple prompts instead of a model."""

import re
import threading

import pytest

from nbagent import Agent, ScriptedProvider
from nbagent.errors import ConfigurationError


def counting():
    return ScriptedProvider(lambda messages, _: f"the model reads {len(messages)}")


async def test_routes_by_pattern_and_predicate_and_the_model_sees_their_answers():
    agent = Agent(counting())
    agent.route(r"(?i)how much is (\d+) \+ (\d+)", lambda match: int(match[1]) + int(match[2]))
    agent.route(str.isupper, lambda question: f"Don't shout {question}")
    assert (await agent.chat("How much is 2 + 2?")).content == "4"
    assert (await agent.chat("HELLO")).content == "Don't shout HELLO"
    result = await agent.chat("Hello")
    assert result.content == "the model reads 5"
    assert [message.text for message in agent.conversation_history[:2]] == ["How much is 2 + 2?", "4"]


async def test_no_model_is_needed(monkeypatch):
    monkeypatch.setenv("NBAGENT_MODEL", "nobody:knows")
    assert (await Agent().route("time", lambda match: "noon").chat("What time is it?")).content == "noon"


async def test_runs_of_routes_are_in_the_trace_and_cost_nothing():
    agent = Agent("openai:gpt-5-mini")  # which has no key, and needs none for this

    def now(match):
        return "It is noon."

    events = [event async for event in agent.route("time", now).chat_stream("What time is it?")]
    assert [event.type for event in events] == ["run_started", "turn_started", "text", "turn_done", "usage", "done"]
    run, call = agent.trace.runs.iloc[0], agent.trace.calls.iloc[0]
    assert (run["output"], run["status"], run["cost_usd"]) == ("It is noon.", "ok", 0.0)
    assert (call["provider"], call["model"], call["input_tokens"], call["cost_usd"]) == ("route", "now", 0, 0.0)
    assert agent.trace.messages["role"].tolist() == ["user", "assistant"]
    assert events[-1].result.cost == 0.0


async def test_functions_may_be_async_and_blocking_ones_run_in_a_thread():
    async def later(question):
        return "later"

    agent = Agent(counting()).route(lambda question: question == "a", later)
    agent.route("b", lambda match: threading.current_thread().name)
    assert (await agent.chat("a")).content == "later"
    assert (await agent.chat("b")).content != threading.current_thread().name


async def test_forks_have_routes_and_other_tasks_do_not():
    agent = Agent(ScriptedProvider(lambda *_: '{"result": 1}')).route(".", lambda match: "routed")
    assert (await agent.fork().chat("x")).content == "routed"
    assert await agent.extract("x", int) == 1
    agent.routes.clear()
    assert (await agent.chat("x")).content == '{"result": 1}'


async def test_an_answer_of_the_wrong_type_and_a_failure_are_errors():
    agent = Agent(counting()).route("a", lambda match: None)
    agent.route("b", lambda match: 1 / 0)
    with pytest.raises(ConfigurationError, match="The route function returned None"):
        await agent.chat("a")
    with pytest.raises(ZeroDivisionError):
        await agent.chat("b")
    assert agent.conversation_history == []
    assert agent.trace.runs["status"].tolist() == ["error", "error"]


async def test_a_typed_answer_is_checked():
    agent = Agent(counting()).route("n", lambda match: "[1, 2]")
    assert (await agent.chat("n", output=list[int])).data == [1, 2]


def test_a_broken_pattern_is_an_error_at_once():
    with pytest.raises(re.error, match="unterminated"):
        Agent(counting()).route("(", str)

"""The same prompts to several agents: servers, the embedded model, failures, interrupts, recordings and plots."""

import asyncio
import threading

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from support.loopback import Answer, Loopback, claude_said, said, sse

import nbagent
from nbagent import Agent, FunctionCall, Limits, LLMResponse, ScriptedProvider, Usage, compare, compare_sync
from nbagent.errors import ConfigurationError
from nbagent.providers import create_provider

PROMPTS = ["How much is 2 + 2?", "How much is 3 + 3?"]
USED = {"prompt_tokens": 10, "completion_tokens": 2}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def scripted(*answers, model="m", **options):
    return Agent(ScriptedProvider(list(answers), model=model, **options), tools=[add])


async def test_comparing_servers_and_the_embedded_model():
    """One provider answers, one fails permanently, and one is the embedded model, which calls a tool."""
    async with Loopback() as good, Loopback() as bad:
        good.answers = [Answer(claude_said("Four.")), Answer(claude_said("Six."))]
        bad.answers = [Answer(b'{"error": {"message": "too odd"}}', 400), Answer(sse(said("6", usage=USED)))]
        providers = {
            "claude": create_provider("claude", api_key="k", model="claude-sonnet-5", base_url=good.url),
            "qwen": create_provider("qwen", api_key="k", model="m", base_url=f"{bad.url}/v1"),
            "embedded": create_provider("local"),
        }
        agents = {name: Agent(provider, tools=[add]) for name, provider in providers.items()}
        result = await compare(agents, ["Add 2 and 2", "Add 3 and 3"])
        for provider in providers.values():
            await provider.aclose()
    frame = result.frame
    assert list(frame)[:5] == ["agent", "repeat", "prompt", "answer", "tools"]
    assert frame["agent"].tolist() == ["claude", "qwen", "embedded"] * 2
    assert frame["prompt"].tolist() == ["Add 2 and 2"] * 3 + ["Add 3 and 3"] * 3
    assert frame["status"].tolist() == ["ok", "error", "ok", "ok", "ok", "ok"]
    assert frame["answer"].tolist()[3:5] == ["Six.", "6"]
    assert "4" in frame["answer"][2]
    assert "qwen m: too odd (status 400)" in frame["error"][1]
    assert frame["tools"].tolist() == ["", "", "add", "", "", "add"]
    assert frame["input_tokens"][4] == 10
    assert not any(agent.conversation_history for agent in agents.values())
    assert frame.merge(result.trace.runs, on="run_id")["prompt_y"].tolist() == frame["prompt"].tolist()
    assert result.summary()["failed"].to_dict() == {"claude": 0, "qwen": 1, "embedded": 0}


async def test_agents_run_concurrently_and_each_answers_in_order():
    """Each agent answers only after the other was asked, and is asked again only after it answered."""
    everyone, busy = asyncio.Barrier(2), {"a": 0, "b": 0}

    def model(name):
        async def turn(messages, functions):
            busy[name] += 1
            assert busy[name] == 1
            await everyone.wait()
            busy[name] -= 1
            return f"{name}: {messages[-1].text}"

        return Agent(ScriptedProvider(turn))

    result = await compare({"a": model("a"), "b": model("b")}, ["1", "2", "3"])
    assert result.frame["answer"].tolist() == ["a: 1", "b: 1", "a: 2", "b: 2", "a: 3", "b: 3"]


def test_failures_are_rows(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    off = Agent(create_provider("minimax", api_key="k", model="MiniMax-M2.5", max_retries=0))
    odd = scripted(ZeroDivisionError("odd"), "late")
    agents = {"no key": Agent("openai"), "no provider": Agent("nobody:m"), "odd": odd, "thinks": off}
    agents["good"] = scripted("a", "b")
    frame = compare_sync(agents, PROMPTS, thinking=False).frame.set_index(["agent", "prompt"]).sort_index()
    assert frame.loc["good", "answer"].tolist() == ["a", "b"]
    assert frame.loc["odd", "answer"].tolist()[1:] == ["late"]
    assert frame.loc[("odd", PROMPTS[0]), "error"] == "ZeroDivisionError: odd"
    assert frame.loc["no key", "error"].str.contains("OPENAI_API_KEY").all()
    assert frame.loc["no provider", "error"].str.startswith("ConfigurationError: Unknown provider 'nobody'").all()
    assert frame.loc["thinks", "error"].str.contains("MiniMax-M2.5 always thinks").all()


def test_invalid_comparisons_are_errors_before_anything_is_sent():
    nowhere = Agent(create_provider("open_source", base_url="http://127.0.0.1:9/v1", max_retries=0), tools=[add])
    for agents, prompts, options, message in [
        ({"x": "claude"}, ["x"], {}, "agents\\['x'\\]: expected an Agent"),
        ({"x": nowhere}, None, {}, "prompts: expected .* got None"),
        ({"x": nowhere}, ["x"], {"tools": "multiply"}, "tools: expected a bool"),
        ({"x": nowhere}, ["x"], {"model": "m"}, "model can't be set for a single request"),
        ({"x": nowhere}, ["x"], {"thinking": "much"}, "thinking: expected .* got 'much'"),
    ]:
        with pytest.raises(ConfigurationError, match=message):
            compare_sync(agents, prompts, **options)


async def test_a_cancelled_comparison_ends_its_runs():
    started, stopped = asyncio.Event(), threading.Event()

    async def hang(messages, functions):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    task = asyncio.create_task(compare({"x": Agent(ScriptedProvider(hang))}, ["1"]))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stopped.is_set()


def model_of(name, seconds):
    usage = {"usage": Usage(100, 10)}
    return Agent(ScriptedProvider([LLMResponse(f"<b>{name}</b>", None, "stop", usage)] * 2, model=name, delay=seconds))


def test_a_recording_replays_each_agents_own_answers(tmp_path):
    agents = {"slow": model_of("slow", 0.05), "fast": model_of("fast", 0.0)}
    with nbagent.record(tmp_path / "run.jsonl"):
        recorded = compare_sync(agents, PROMPTS)
    with nbagent.replay(tmp_path / "run.jsonl"):
        replayed = compare_sync({name: Agent(ScriptedProvider([], model=name)) for name in reversed(agents)}, PROMPTS)
    same, order = ["agent", "prompt", "answer", "input_tokens", "cost", "status"], ["prompt", "agent"]
    one, other = (each.frame.sort_values(order)[same].reset_index(drop=True) for each in (recorded, replayed))
    pd.testing.assert_frame_equal(one, other)


def test_the_notebook_display_and_the_plot():
    mpl.use("agg")
    result = compare_sync({"one": model_of("one", 0.0), "two": scripted("fine", ValueError("odd"))}, PROMPTS)
    shown = result._repr_html_()
    assert "&lt;b&gt;one" in shown
    assert "<b>" not in shown
    assert "ValueError: odd" in shown
    assert "220" in repr(result)  # the first agent's tokens
    seconds, tokens = result.plot()
    assert [label.get_text() for label in seconds.get_yticklabels()] == ["one", "two"]
    assert tokens.lines[1].get_xdata() == [110.0]
    plt.close("all")


async def test_a_comparison_within_a_tool_spends_from_the_calling_runs_budget():
    def costly(messages, functions):
        return LLMResponse("x", None, "stop", {"usage": Usage(60, 40)})

    def ask_all() -> str:
        agents = {name: Agent(ScriptedProvider(costly)) for name in ("one", "two")}
        return " ".join(compare_sync(agents, list("1234"), progress=False).frame["status"])

    script = ScriptedProvider([FunctionCall("ask_all", {}, "c"), "not asked any more"])
    result = await Agent(script, tools=[ask_all], limits=Limits(max_total_tokens=350, tool_seconds=300)).chat("Go")
    assert (result.status, result.limit_reason) == ("limit", "tokens")
    assert {"ok", "limit"} == set(result.function_calls[0]["result"].split())

"""An agent's display at the end of a cell."""

import __main__
from nbagent import Agent, ContextManager, FunctionCall, Limits, ScriptedProvider


def double(x: int) -> int:
    return 2 * x


def about(agent):
    lines = agent._repr_mimebundle_()["text/plain"].splitlines()
    return dict(line.split(maxsplit=1) for line in lines)


async def test_the_summary_shows_the_conversation_and_its_cost():
    provider = ScriptedProvider([FunctionCall("double", {"x": 2}, "c"), "4", "ok"], model="m")
    agent = Agent(provider, tools=[double], system_prompt="Be\n brief.", context=ContextManager(max_messages=50))
    await agent.chat("2 * 2?")
    await agent.chat("Thanks")
    agent.tools_off.add("double")
    shown = about(agent)
    assert shown.pop("tokens").split(" ")[1::2] == ["in,", "out"]
    assert shown == {
        "model": "scripted:m",
        "system": "Be brief.",
        "tools": "none; off: double",
        "messages": "7 in 2 turns",
        "limits": "max_messages=50",
    }


def test_the_summary_names_a_missing_key_or_provider(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    for given, problem in (("claude:claude-sonnet-5", "there is no API key"), ("nobody:knows", "Unknown provider")):
        shown = about(Agent(given))
        assert shown["model"] == given
        assert problem in shown["problem"]


def test_the_summary_shows_the_limits_that_are_set():
    limits = Limits(max_cost=0.05, max_total_tokens=20_000)
    assert about(Agent("scripted", limits=limits))["limits"] == "max_total_tokens=20,000, max_cost=0.05"


def test_the_agents_name_is_its_variables_name(monkeypatch):
    agent = Agent("scripted")
    monkeypatch.setattr(__main__, "_hidden", agent, raising=False)
    assert "agent" not in about(agent)
    monkeypatch.setattr(__main__, "analyst", agent, raising=False)
    assert about(agent)["agent"] == "analyst"

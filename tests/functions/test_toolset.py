"""`agent.use(toolset)`: a group of tools in addition to the agent's own, in real runs."""

import asyncio

import pytest

from nbagent import Agent, FunctionCall, FunctionDefinition, FunctionRegistry, ScriptedProvider
from nbagent.errors import ConfigurationError
from nbagent.functions.toolset import Toolset


class Clock(Toolset):
    """Its tool exists once it was prepared."""

    def __init__(self, name="now"):
        self.name, self.tools, self.prepared, self.closed = name, FunctionRegistry(), 0, 0

    async def prepare(self):
        await asyncio.sleep(0)
        self.prepared += 1
        definition = FunctionDefinition(self.name, "The time.", None, lambda: "12:00", source="clock")
        self.tools.add(definition)

    def instructions(self):
        return f"{self.name} is UTC."

    async def aclose(self):
        self.closed += 1
        self.tools.unregister(self.name)


def own():
    """Own tool."""
    return "mine"


def agent_with(*turns, **options):
    return Agent(ScriptedProvider(list(turns)), tools=[own], system_prompt="Be brief.", **options)


async def test_tools_are_prepared_offered_called_and_traced():
    clock = Clock()
    agent = agent_with([FunctionCall("now", {}), FunctionCall("own", {})], "done", "and").use(clock, Clock("own"))
    result = await agent.chat("When?", tools=["now", "own"])  # named before they are prepared
    assert [(call["name"], call["result"]) for call in result.function_calls] == [("now", "12:00"), ("own", "mine")]
    assert list(agent.trace.tool_calls["source"]) == ["clock", ""]
    assert agent.function_registry.names() == ["own", "now"]  # the agent's own win
    assert agent.provider.requests[0][0][0].text == "Be brief.\n\nnow is UTC.\n\nown is UTC."
    assert agent.system_prompt == "Be brief."
    await agent.chat("And now?", use_tools=False)
    assert clock.prepared == 1
    with pytest.raises(ConfigurationError, match=r"functions go into Agent\(tools=\[...\]\)"):
        agent.use(own)


class Counter(Toolset):
    """Reminds the model of how often it was used."""

    def __init__(self):
        self.tools, self.count = FunctionRegistry(), 0
        self.tools.register("count", "Count.", self._count)

    def _count(self) -> int:
        self.count += 1
        return self.count

    def reminder(self):
        return f"Counted {self.count} so far." if self.count else ""


async def test_a_reminder_ends_each_request_and_is_not_stored(tmp_path):
    agent = agent_with([FunctionCall("count")], "done", "again", "no tool").use(Counter())
    await agent.chat("Count.")
    assert "Counted 1 so far." in agent.chat_stream("Once more?").preview().messages[-1].text
    await agent.chat("Once more?")
    await agent.chat("Without it.", tools=["own"])
    lasts = [messages[-1].text for messages, _ in agent.provider.requests]
    reminder = "<reminder>\nCounted 1 so far.\n</reminder>"
    assert lasts == ["Count.", reminder, reminder, "Without it."]
    assert list(agent.trace.calls["reminder"].fillna("")) == ["", "Counted 1 so far.", "Counted 1 so far.", ""]
    assert agent.trace.request(agent.trace.calls["call_id"].iloc[2]).all_messages[-1].text == reminder
    agent.save(tmp_path / "agent.json")
    kept = [(tmp_path / "agent.json").read_text(), str(agent.conversation_history), agent.trace.messages.to_string()]
    assert not [text for text in kept if "so far" in text]


async def test_a_run_without_the_tools_has_no_instructions_for_them():
    agent = agent_with("hello", "again", "once more").use(Clock())
    assert "now is UTC." in agent.chat_stream("Hi").preview().messages[0].text
    await agent.chat("Hi", tools=["own"])
    await agent.chat("Hi", use_tools=False)
    agent.tools_off.add("now")
    await agent.chat("Hi")
    assert [messages[0].text for messages, _ in agent.provider.requests] == ["Be brief."] * 3


async def test_forks_use_the_toolset_and_do_not_add_to_their_parents():
    agent = agent_with([FunctionCall("now", {})], "done").use(Clock())
    fork = agent.fork().use(Clock("later"))
    await fork.chat("When?")
    assert fork.function_registry.names() == ["own", "now", "later"]
    assert agent.function_registry.names() == ["own", "now"]


async def test_closing_the_agent_closes_the_toolset_until_the_next_run():
    clock = Clock()
    agent = agent_with("a", [FunctionCall("now", {})], "b").use(clock)
    await agent.chat("1")
    await agent.aclose()
    assert clock.closed == 1
    assert agent.function_registry.names() == ["own"]
    assert (await agent.chat("2")).function_calls[0]["result"] == "12:00"

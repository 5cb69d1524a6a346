"""Agents as tools of other agents: `agent.as_tool(name, description)`."""

import asyncio

import pytest
from support.small_agent import call

from nbagent import Agent, Limits, ScriptedProvider, tool
from nbagent.core.history.repair import repair
from nbagent.errors import ConfigurationError, RateLimitError


def ask(id, question="Go.", name="research"):
    return call(name, id, question=question)


def answering(*turns, **options):
    return Agent(ScriptedProvider(turns), **options)


def texts(agent):
    return [message.text for message in agent.conversation_history]


async def test_an_agent_calls_another_agent():
    researcher = answering("Emperors weigh 30 kg.", system_prompt="You know penguins.")
    await researcher.fork().chat("Hello")  # earlier runs are not passed on
    researcher.provider = ScriptedProvider(["Emperors weigh 30 kg."])
    writer = answering(
        ask("c1", "Which is heaviest?"), "The emperor.", tools=[researcher.as_tool("research", "Facts.")]
    )
    result = await writer.chat("Write about the heaviest penguin.")
    assert result.function_calls[0]["result"] == "Emperors weigh 30 kg."
    assert [m.text for m in researcher.provider.requests[0][0]] == ["You know penguins.", "Which is heaviest?"]
    assert texts(researcher) == ["You know penguins."]  # its own conversation does not change
    row = researcher.trace.runs.iloc[-1]
    assert (row["prompt"], row["parent_run_id"], row["source"]) == ("Which is heaviest?", result.run_id, "agent")
    assert writer.trace.tool_calls["source"].tolist() == ["agent:research"]


async def test_calls_in_one_turn_are_separate_conversations_that_run_concurrently():
    both = asyncio.Barrier(2)

    async def turn(messages, functions):
        await both.wait()
        return f"{messages[-1].text} {len(messages)}"

    writer = answering(
        [ask("a", "one"), ask("b", "two")], "end", tools=[Agent(ScriptedProvider(turn)).as_tool("research", "F")]
    )
    result = await writer.chat("Go")
    assert [each["result"] for each in result.function_calls] == ["one 1", "two 1"]


async def test_an_agent_that_keeps_its_conversation_remembers():
    researcher = answering("30 kg", "Antarctica")
    writer = answering(
        [ask("a", "How heavy?"), ask("b", "Where?")],
        "end",
        tools=[researcher.as_tool("research", "Facts.", keep_conversation=True)],
    )
    await writer.chat("Go")
    assert texts(researcher) == ["How heavy?", "30 kg", "Where?", "Antarctica"]


async def test_a_call_has_its_own_limits_and_names_the_one_that_ended_it():
    child = Agent(
        ScriptedProvider(lambda messages, functions: call("look", "c")), tools=[tool(name="look")(lambda: "")]
    )
    as_tool = child.as_tool("research", "Facts.", limits=Limits(max_iterations=2))
    result = await answering(ask("a"), "end", tools=[as_tool]).chat("Go")
    assert result.function_calls[0]["result"] == "[limit: The limit of 2 model requests was reached.]"
    assert result.status == "ok"


async def test_a_childs_error_is_its_result():
    parent = answering(ask("a"), "end", tools=[answering(RateLimitError("too many")).as_tool("research", "Facts.")])
    result = await parent.chat("Go")
    assert "too many" in result.function_calls[0]["result"]
    assert result.content == "end"


@pytest.mark.parametrize(("options", "wrong"), [
    ({"limits": 3}, "limits"), ({"keep_conversation": 1}, "keep_conversation"), ({"colour": "red"}, "colour"),
])  # fmt: skip
def test_wrong_options(options, wrong):
    with pytest.raises(ConfigurationError, match=wrong):
        answering().as_tool("research", "Facts.", **options)


# -- approval ---------------------------------------------------------------------------------------------------------


def asking_approval(approve=None):
    @tool(approve=True)
    def delete(path: str) -> str:
        """Delete a file."""
        return f"deleted {path}"

    return answering(call("delete", path="a"), "done", approve=approve, tools=[delete])


@pytest.mark.parametrize("answer", [True, False])
async def test_the_parents_approver_decides_if_the_child_has_none(answer):
    asked = []

    def approve(call, definition):
        asked.append(call.name)
        return answer

    child = asking_approval()
    middle = answering(ask("b"), "end", tools=[child.as_tool("research", "Deletes.")])
    await answering(ask("a"), "end", approve=approve, tools=[middle.as_tool("research", "Asks.")]).chat("Go")
    assert asked == ["delete"]
    assert child.trace.tool_calls["approval"].tolist() == ["approved" if answer else "denied"]


async def test_a_childs_own_approver_comes_first():
    child = asking_approval(lambda call, definition: True)
    await answering(ask("a"), "end", approve=lambda *_: False, tools=[child.as_tool("research", "Deletes.")]).chat("Go")
    assert child.trace.tool_calls["approval"].tolist() == ["approved"]
    assert child.trace.tool_calls["result_text"].tolist() == ["deleted a"]


# -- agents that ask each other ---------------------------------------------------------------------------------------


def two_that_ask_each_other(**options):
    """Two agents that call each other for every prompt."""

    def turn(messages, functions):
        return ask("c", name=functions[0]["name"]) if messages[-1].role == "user" else messages[-1].text

    a, b = Agent(ScriptedProvider(turn)), Agent(ScriptedProvider(turn))
    a.function_registry.add(b.as_tool("b", "Asks a.", **options))
    b.function_registry.add(a.as_tool("a", "Asks b.", **options))
    return a, b


async def awaited(agent):
    return await agent.chat("Go")


async def blocking(agent):
    return await asyncio.to_thread(agent.chat_sync, "Go")


@pytest.mark.parametrize(
    ("way", "keep_conversation", "error"), [(awaited, True, "AgentBusyError"), (blocking, False, "AgentDepthError")]
)
async def test_agents_that_call_each_other_terminate(way, keep_conversation, error):
    a, b = two_that_ask_each_other(keep_conversation=keep_conversation)
    assert error in (await way(a)).content
    assert (await way(b)).content.count(error) == 1  # no state is left over


# -- a tree -----------------------------------------------------------------------------------------------------------


async def test_an_interrupt_ends_all_runs_in_a_tree():
    began = asyncio.Event()

    async def wait() -> str:
        """Wait for ever."""
        began.set()
        await asyncio.sleep(3600)

    last = Agent(ScriptedProvider(lambda messages, functions: call("wait")), tools=[wait])
    middle = answering([ask("b"), ask("c", name="kept")], "again", tools=[last.as_tool("research", "Waits.")])
    middle.function_registry.add(last.as_tool("kept", "Waits.", keep_conversation=True))
    top = answering(ask("a"), "again", tools=[middle.as_tool("research", "Asks.", keep_conversation=True)])
    task = asyncio.create_task(top.chat("Go"))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}
    for agent in (top, middle, last):
        assert set(agent.trace.runs["status"]) == {"interrupted"}
        assert repair(agent.conversation_history) == agent.conversation_history
    assert (await top.chat("And now?")).content == "again"

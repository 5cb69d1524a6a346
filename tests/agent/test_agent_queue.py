"""Runs of one agent follow each other; one that would wait for itself is an error. With a scripted model."""

import asyncio
import time

import pytest
from support.small_agent import call

from nbagent import Agent, ScriptedProvider
from nbagent.errors import AgentBusyError


@pytest.mark.parametrize("blocking", [True, False])
async def test_asking_the_agent_from_its_own_tool_is_an_error_not_a_deadlock(blocking):
    def again_sync() -> str:
        return agent.chat_sync("inner").content

    async def again_async() -> str:
        return (await agent.chat("inner")).content

    tool = again_sync if blocking else again_async
    provider = ScriptedProvider([call(tool.__name__), "done"])
    agent = Agent(provider, tools=[tool])
    result = await asyncio.wait_for(agent.chat("outer"), 300)
    assert AgentBusyError.__name__ in provider.requests[1][0][-1].content
    assert result.content == "done"


def test_asking_inside_a_plain_for_over_the_same_agent_is_an_error():
    agent = Agent(ScriptedProvider(["a b", "c"]))
    for event in agent.chat_stream("x"):
        if event.type == "text":
            with pytest.raises(AgentBusyError):
                agent.chat_sync("y")
    assert agent.chat_sync("z").content == "c"


async def test_a_blocking_call_waits_for_runs_of_other_loops():
    agent = Agent(ScriptedProvider(["a b c", "d e f", "g"], delay=0.01))
    others = [asyncio.create_task(asyncio.to_thread(agent.chat_sync, text)) for text in "xy"]
    while not agent.conversation_history:
        await asyncio.sleep(0.001)
    assert {agent.chat_sync("z").content, *[(await other).content for other in others]} == {"a b c", "d e f", "g"}


async def test_questions_at_once_to_a_new_agent_keep_their_order_and_get_one_provider(monkeypatch):
    made = []

    def slowly(spec):
        time.sleep(0.05)
        made.append(ScriptedProvider(lambda messages, _: messages[-1].text))
        return made[-1]

    monkeypatch.setattr("nbagent.agent.agent.resolve", slowly)
    agent = Agent()
    questions = [str(number) for number in range(9)]
    await asyncio.gather(*map(agent.chat, questions))
    assert [message.text for message in agent.conversation_history[::2]] == questions
    assert len(made) == 1

"""A run that replaces an earlier turn."""

import pytest
from support.small_agent import after_three_questions

from nbagent import Agent, ScriptedProvider
from nbagent.errors import ConfigurationError, ProviderError


def answer(messages, functions):
    """The number of messages that were read, or an error if the prompt says so."""
    if messages[-1].text == "fail":
        raise RuntimeError("no")
    return f"{len(messages)} read"


@pytest.fixture
def agent():
    return after_three_questions(answer)


def texts(agent):
    return [message.text for message in agent.conversation_history if message.role != "system"]


def ask(agent, question, place):
    stream = agent.chat_stream(question, replaces=place, raise_errors=False)
    for _ in stream:
        pass
    return stream


def test_the_model_reads_the_earlier_turns_and_later_turns_stay(agent):
    later = agent.conversation_history[5:]
    stream = agent.chat_stream("second", replaces=agent.conversation_history[3])
    assert [message.text for message in stream.preview().messages] == ["Be brief.", "one", "2 read", "second"]
    assert texts(agent)[2] == "two"
    for _ in stream:
        pass
    assert texts(agent) == ["one", "2 read", "second", "4 read", "three", "6 read"]
    assert all(a is b for a, b in zip(later, agent.conversation_history[5:], strict=True))
    assert agent.context.later == []


def test_a_failed_run_or_an_empty_prompt_keeps_the_old_turn(agent):
    before = list(agent.conversation_history)
    with pytest.raises(RuntimeError):
        ask(agent, "fail", before[3]).result()
    with pytest.raises(ConfigurationError, match="empty"):
        ask(agent, " ", before[1]).result()
    assert all(a is b for a, b in zip(before, agent.conversation_history, strict=True))


async def test_the_conversation_is_restored_if_a_list_of_messages_fails():
    agent = Agent(ScriptedProvider(["one", ProviderError("down"), "two"]))
    await agent.chat("hello")
    before, conversation = list(agent.context.messages), agent.context.here.conversation_id
    with pytest.raises(ProviderError):
        await agent.chat([{"role": "user", "content": "new"}])
    assert (agent.context.messages, agent.context.here.conversation_id) == (before, conversation)
    assert [len(branch.messages) for branch in agent.context.branches] == [2]
    await agent.chat([{"role": "user", "content": "new"}])
    assert [message.text for message in agent.context.messages] == ["new", "two"]

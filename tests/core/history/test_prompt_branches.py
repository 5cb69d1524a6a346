"""Branches of a conversation, and several conversations, can be left and continued."""

import pytest
from support.small_agent import after_three_questions

from nbagent import FunctionCall
from nbagent.errors import AgentBusyError, ConfigurationError


def answer(messages, functions):
    said = messages[-1].text
    if said == "fail":
        raise RuntimeError("no")
    if said == "leave":
        return FunctionCall("leave", {}, "c")
    return f"{len(messages)} read"


@pytest.fixture
def agent():
    return after_three_questions(answer)


def asked(agent):
    return [message.text for message in agent.conversation_history if message.role == "user"]


def fork(agent, question, place):
    """Send another prompt instead of the one at this index."""
    old = [message for message in agent.conversation_history if message.role == "user"][place]
    return finished(agent.chat_stream(question, branch_at=old, raise_errors=False)).result()


def finished(stream):
    for _ in stream:
        pass
    return stream


def places(agent):
    """For each prompt, the number of its version and of all versions."""
    context = agent.context
    found = [context.versions(each) for each in context.here.questions]
    return [f"{each.index(context.here) + 1}/{len(each)}" for each in found]


def step(agent, place, by):
    """Switch to another version of the prompt at this index."""
    context = agent.context
    versions = context.versions(context.here.questions[place])
    context.switch(versions[versions.index(context.here) + by])


def test_a_changed_prompt_starts_a_branch_and_the_other_can_be_continued(agent):
    before = list(agent.conversation_history)
    assert fork(agent, "second", 1).content == "4 read"
    assert asked(agent) == ["one", "second"]
    assert places(agent) == ["1/1", "2/2"]
    agent.chat_sync("after second")
    step(agent, 1, -1)
    assert all(a is b for a, b in zip(before, agent.conversation_history, strict=True)), "no message is copied"
    assert places(agent) == ["1/1", "1/2", "1/1"]
    agent.chat_sync("four")
    step(agent, 1, +1)
    assert asked(agent) == ["one", "second", "after second"]
    runs = agent.trace.runs.set_index("prompt")
    first, second = runs.loc["one", "run_id"], runs.loc["second", "run_id"]
    assert runs["branch"].tolist() == [first] * 3 + [second] * 2 + [first]
    assert len({branch.conversation_id for branch in agent.context.branches}) == 1
    messages = agent.trace.messages.set_index("text")
    assert messages.loc["four", "parent_id"] == before[-1].message_id
    assert messages.loc["second", "parent_id"] == before[2].message_id


def test_a_failed_run_or_an_empty_prompt_leaves_no_branch(agent):
    before, branch = list(agent.conversation_history), agent.context.here.branch
    with pytest.raises(RuntimeError):
        fork(agent, "fail", 1)
    with pytest.raises(ConfigurationError, match="empty"):
        fork(agent, " ", 0)
    assert all(a is b for a, b in zip(before, agent.conversation_history, strict=True))
    assert agent.context.here.branch == branch
    assert places(agent) == ["1/1"] * 3
    gone = agent.undo()[0]
    finished(agent.chat_stream("four", branch_at=gone))
    assert asked(agent) == ["one", "two", "four"]
    assert len(agent.context.branches) == 1
    with pytest.raises(ConfigurationError, match="conversation_history"):
        agent.chat_stream("x", branch_at="two")


def test_conversations_can_be_left_and_continued(agent):
    context = agent.context
    fork(agent, "second " + "x" * 99, 1)
    first = context.here.conversation_id
    context.new_conversation()
    assert [message.text for message in agent.conversation_history] == ["Be brief."]
    agent.chat_sync("An\nother? " + "x" * 99)
    agent.system_prompt = "Be long."
    another, one = (each.title for each in context.conversations)
    assert one == "one · 2 prompts"
    assert another.startswith("An other? xxx")
    assert another.endswith("x… · 1 prompt")
    assert len(another) < 80
    context.switch(context.conversations[1])
    assert [message.text for message in agent.conversation_history[:2]] == ["Be long.", "one"]
    assert context.here.conversation_id == first
    assert [each.title for each in context.conversations] == [another, one], "the order stays"
    agent.clear_history()
    assert [each.title for each in context.conversations] == ["New chat", another], "clearing removes its branches"
    assert [message.text for message in agent.conversation_history] == ["Be long."]


def test_a_new_conversation_can_start_with_the_turns_up_to_a_prompt(agent):
    context, before = agent.context, list(agent.conversation_history)
    context.new_conversation(after=before[3])
    assert asked(agent) == ["one", "two"]
    assert all(a is b for a, b in zip(before[:5], agent.conversation_history, strict=True)), "with the answer"
    agent.chat_sync("and here?")
    assert [each.title for each in context.conversations] == ["one · 3 prompts"] * 2
    assert places(agent) == ["1/1"] * 3
    context.switch(context.conversations[1])
    assert asked(agent) == ["one", "two", "three"]
    with pytest.raises(ConfigurationError, match="not in the history"):
        context.new_conversation(after=before[3].replace(content="2"))
    assert len(context.conversations) == 2


def test_branches_cannot_be_switched_while_a_prompt_is_answered(agent):
    other = fork(agent, "second", 1) and agent.context.branches[0]
    agent.register_function("leave", "Leave.", lambda: agent.context.switch(other))
    agent.chat_sync("leave")
    assert "answering" in agent.conversation_history[-2].text
    assert AgentBusyError.__name__ in agent.conversation_history[-2].text
    agent.context.switch(other)

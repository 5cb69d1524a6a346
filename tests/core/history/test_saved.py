"""Conversations in files are complete, readable and never partly written."""

import json
import os

import pytest

from nbagent import Agent, FunctionCall, LLMMessage, ScriptedProvider
from nbagent.core.history import saved
from nbagent.errors import ConfigurationError

HISTORY = [
    LLMMessage("system", "You are brief."),
    LLMMessage(
        "user", [{"type": "text", "text": "Köln?"}, {"type": "image", "media_type": "image/png", "data": "aGk="}]
    ),
    LLMMessage("assistant", "", tool_calls=[FunctionCall("f", {"a": 1}, "c1")], provider_extras={"provider": "claude"}),
    LLMMessage("tool", "Error: no", name="f", tool_call_id="c1", is_error=True),
    LLMMessage("assistant", "1 million", pinned=True),
]


@pytest.fixture
def agent():
    agent = Agent(ScriptedProvider(["more"]))
    agent.context.replace_history(HISTORY)
    return agent


def test_the_file_is_readable_and_no_temporary_file_is_left(agent, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    agent.save("~/talk.json")
    text = (tmp_path / "talk.json").read_text("utf-8")
    assert json.loads(text)["model"] == "scripted:scripted"
    assert "Köln" in text
    assert os.listdir(tmp_path) == ["talk.json"]
    assert Agent.load("~/talk.json", "scripted").conversation_history == HISTORY


def test_a_given_system_prompt_overrides_the_file(agent, tmp_path):
    agent.save(tmp_path / "talk.json")
    other = Agent.load(tmp_path / "talk.json", "scripted", system_prompt="You are long.")
    assert [m.text for m in other.conversation_history if m.role == "system"] == ["You are long."]
    assert other.conversation_history[1:] == HISTORY[1:]


async def test_loaded_branches_share_messages_as_before(tmp_path):
    agent = Agent(ScriptedProvider(lambda messages, tools: messages[-1].text.upper()))
    await agent.chat("one")
    await agent.chat("two")
    await agent.chat("zwei", branch_at=agent.context.here.questions[1])
    branches = agent.context.branches
    saved.save(tmp_path / "talk.json", agent.conversation_history, "m", branches=branches, here=1)
    loaded = saved.load(tmp_path / "talk.json")
    assert loaded.here is loaded.branches[1]
    assert [each.messages for each in loaded.branches] == [each.messages for each in branches]
    assert [each.branch for each in loaded.branches] == [each.branch for each in branches]
    assert loaded.branches[0].messages[0] is loaded.branches[1].messages[0]
    assert loaded.messages == agent.conversation_history
    other = Agent("scripted")
    other.context.resume(loaded.branches, loaded.here)
    assert [each.title for each in other.context.versions(loaded.here.questions[1])] == ["one · 2 prompts"] * 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("", "is not a saved conversation: Expecting value"),
        ("[]", "is not a saved conversation.*agent.save"),
        ('{"format": "nbagent conversation", "version": 9}', "has format version 9, expected 1. Name another file"),
        ('{"format": "nbagent conversation", "version": 1, "messages": [{}]}', "can't be read"),
    ],
)
def test_errors_name_the_problem_with_the_file(text, said, tmp_path):
    if text is not None:
        (tmp_path / "talk.json").write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        Agent.load(tmp_path / "talk.json", "scripted")


def test_a_pipe_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(ConfigurationError, match=r"pipe\.json.*not a file"):
        Agent.load(tmp_path / "pipe.json", "scripted")


def test_a_failed_save_keeps_the_old_file(agent, tmp_path):
    (tmp_path / "talk.json").write_text("old")
    agent.context.add_message(LLMMessage("user", "x", provider_extras=object()))
    with pytest.raises(ConfigurationError, match="not JSON data"):
        agent.save(tmp_path / "talk.json")
    assert (tmp_path / "talk.json").read_text() == "old"
    agent.undo()
    with pytest.raises(ConfigurationError, match="No such file"):
        agent.save(tmp_path / "nowhere" / "talk.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigurationError, match="not a file"):
        agent.save(tmp_path / "folder")
    assert sorted(os.listdir(tmp_path)) == ["folder", "talk.json"]

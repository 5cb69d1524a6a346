"""`chat_stream(...).preview()`: exactly the request that would be sent, and no side effects."""

import pytest
from support.small_agent import add

from nbagent import (
    Agent,
    ContextManager,
    FunctionCall,
    LLMMessage,
    ScriptedProvider,
    create_provider,
)
from nbagent.errors import ConfigurationError

CALL = FunctionCall("add", {"a": 2, "b": 3}, "c1")


def everything(agent):
    return (
        list(agent.conversation_history),
        agent.context.get_tokens(),
        len(agent.trace.runs),
        len(agent.trace.events),
        len(agent.provider.requests),
    )


@pytest.mark.parametrize(
    "options",
    [{}, {"use_tools": False}, {"tools": ["add"], "instructions": "In French."}],
    ids=["plain", "no tools", "tools and instructions"],
)
async def test_the_preview_is_what_is_sent(options):
    context = ContextManager(max_messages=5)
    agent = Agent(ScriptedProvider([CALL, "five", "b", "c", "d"]), system_prompt="Add.", tools=[add], context=context)
    for question in ("first", "second", "third"):
        agent.conversation_history.append(LLMMessage("tool", "orphan", tool_call_id="none"))
        before = everything(agent)
        foreseen = agent.chat_stream(question, **options).preview()
        assert everything(agent) == before
        assert any("repaired" in note for note in foreseen.notes)
        asked = len(agent.provider.requests)
        await agent.chat(question, **options)
        assert (foreseen.messages, foreseen.functions) == agent.provider.requests[asked]


async def test_instructions_are_only_in_the_requests_of_one_run():
    agent = Agent(ScriptedProvider([CALL, "cinq", "six"]), tools=[add])
    await agent.chat("2 + 3", instructions="In French.")
    agent.system_prompt = "Add."
    await agent.chat("3 + 3")
    heads = [(messages[0].role, messages[0].text) for messages, _ in agent.provider.requests]
    assert heads == [("system", "In French."), ("system", "In French."), ("system", "Add.")]
    assert "In French." not in str(agent.conversation_history)


def test_the_preview_announces_a_summary():
    agent = Agent(ScriptedProvider([]), context=ContextManager(max_messages=2, strategy="summarise"))
    agent.conversation_history.extend(LLMMessage("user", f"{n}") for n in range(4))
    foreseen = agent.chat_stream("last").preview()
    (note,) = foreseen.notes
    assert "summarise 4 old messages" in note
    assert [message.text for message in foreseen.messages] == ["last"]


def test_a_preview_raises_for_an_invalid_request():
    agent = Agent(create_provider("claude", api_key="sk-none", model="claude-3-haiku"), tools=[add])
    for options, says in (
        ({"thinking": "high"}, "does not think"),
        ({"tools": ["sub"]}, "sub"),
        ({"max_iterations": -1}, "max_iterations: .* got -1"),
        ({"api_key": "sk-other"}, "can't be set for a single request"),
    ):
        with pytest.raises(ConfigurationError, match=says):
            agent.chat_stream("x", **options).preview()
    assert agent.conversation_history == []
    assert agent.chat_stream("x", temperature=0.5).preview().options["temperature"] == 0.5

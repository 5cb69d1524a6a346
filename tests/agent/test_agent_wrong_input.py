"""Invalid arguments raise errors that name the value and the remedy, before anything is sent."""

import numpy as np
import pytest

from nbagent import (
    Agent,
    ContextManager,
    FunctionRegistry,
    Limits,
    LLMMessage,
    LLMProvider,
    LLMResponse,
    ScriptedProvider,
    StreamingHandler,
    register_provider,
    tool,
)
from nbagent.errors import ConfigurationError


def area(width: float) -> float:
    """Area of a square."""
    return width * width


def agent(**options):
    return Agent(ScriptedProvider("An answer."), tools=[area], **options)


INVALID_ARGUMENTS = {
    "functions as the registry": (lambda: Agent("scripted", [area]), r"expected a FunctionRegistry.*area.*tools="),
    "a number as tools": (lambda: Agent("scripted", tools=5), "tools: .*functions.* got 5"),
    "approve=True": (lambda: Agent("scripted", approve=True), r"function of \(call, definition\).* got True"),
    "an approver of one argument": (lambda: agent(approve=lambda call: True), "two arguments: too many"),
    "a prompt that is no text": (lambda: Agent("scripted", system_prompt=5), "system prompt: .*got 5"),
    "a path as the trace": (lambda: Agent("scripted", trace="x.jsonl"), "trace: expected a Trace .*'x.jsonl'"),
    "a registry and tools": (lambda: Agent(function_registry=FunctionRegistry(), tools=[area]), "not both"),
    "half a request": (lambda: Limits(max_iterations=2.5), "max_iterations: expected a whole number.* got 2.5"),
    "a context's strategy": (lambda: ContextManager(strategy="drop"), "strategy: .* got 'drop'"),
    "no message": (lambda: ContextManager().pin("x"), "message: .*LLMMessage, got 'x'"),
    "a timeout as text": (lambda: tool(timeout="5")(area), "timeout: .*number above 0.* got '5'"),
    "a name as the function": (lambda: tool("area"), "a function, got 'area'"),
    "a provider's class": (lambda: Agent(Own).provider, "provider: .*instance of Own"),
    "a factory": (lambda: register_provider("mine", 5), "factory: .*got int"),
}


@pytest.mark.parametrize(("make", "words"), INVALID_ARGUMENTS.values(), ids=INVALID_ARGUMENTS)
def test_invalid_arguments_of_an_agent(make, words):
    with pytest.raises(ConfigurationError, match=words):
        make()


INVALID_PROMPTS = {
    "a role": ({"role": "usr", "content": "hi"}, "role: expected 'system', 'user'.* got 'usr'"),
    "a number": ({"role": "user", "content": 5}, "can't hold 5"),
    "a text among messages": ([LLMMessage("user", "a"), "b"], "a message with a role, got 'b'"),
    "a call without a name": ([{"role": "assistant", "tool_calls": [{"id": "1"}]}], "in the form of .*to_dict.*'name'"),
    "nothing": (" \n", "is empty"),
    "blank parts": (["", {"type": "text", "text": " "}], r"The prompt .* is empty\. Write a"),
}


@pytest.mark.parametrize(("message", "words"), INVALID_PROMPTS.values(), ids=INVALID_PROMPTS)
def test_invalid_prompts(message, words):
    asked = agent()
    with pytest.raises(ConfigurationError, match=words):
        asked.chat_sync(message)
    assert asked.conversation_history == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tools": [area]}, "names of .*tools, got function <function area"),
        ({"tools": ["are"]}, "no tool 'are'; did you mean area"),
        ({"handler": print}, "expected a StreamingHandler.*print"),
        ({"max_iterations": "5"}, "max_iterations: .* got '5'"),
    ],
)
def test_invalid_run_options(options, words):
    asked = agent()
    with pytest.raises(ConfigurationError, match=words):
        asked.chat_sync("hi", **options)
    assert asked.conversation_history == [], "nothing was sent"
    with pytest.raises(ConfigurationError, match="Iterate over its events"):
        asked.chat_stream("hi", handler=StreamingHandler())


class Own(LLMProvider):
    """A custom provider that returns whatever it was created with."""

    def __init__(self, answer):
        self.answer = answer

    async def chat(self, messages, functions=None, temperature=None, **kwargs):
        return self.answer


class Blocking(Own):
    def chat(self, messages, functions=None, temperature=None, **kwargs):
        return self.answer


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        (Own("text"), r"Own.chat\(\) must be async and return an LLMResponse, got a str"),
        (Blocking(LLMResponse("text")), r"Blocking.chat\(\) must be async .* got a LLMResponse"),
    ],
)
def test_a_provider_that_returns_something_else(provider, words):
    with pytest.raises(TypeError, match=words):
        Agent(provider).chat_sync("hi")


def test_alternative_forms_are_accepted():
    asked = agent(limits=Limits(max_iterations=np.int64(3), max_cost=np.float32(0.5)))
    developer = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    assert asked.chat_sync(developer, tools="area").content == "An answer."
    assert asked.system_prompt == "Be brief.", "OpenAI's newer name for it"
    asked, picture = agent(), {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}
    asked.chat_sync([{"role": "user", "content": ["What is this?", picture]}])
    assert asked.conversation_history[0].content[1] == {"type": "image", "url": "https://example.org/cat.png"}


@pytest.mark.parametrize(
    ("use", "kind", "words"),
    [
        (lambda agent: agent.run, AttributeError, ["await agent.chat(...)", "chat_sync"]),
        (lambda agent: agent.history, AttributeError, ["agent.conversation_history"]),
        (lambda agent: agent.tools, AttributeError, ["agent.function_registry", "offered_tools"]),
        (lambda agent: Agent(model="gpt-4o"), ConfigurationError, ["'model'", "Agent('provider:model')"]),
        (lambda agent: Agent(sistem_prompt="x"), ConfigurationError, ["did you mean system_prompt?"]),
        (lambda agent: Agent(max_cost=1), ConfigurationError, ["Write Agent(limits=Limits(max_cost=...))"]),
        (lambda agent: Agent("gpt-4o").provider, ConfigurationError, ["write 'openai:gpt-4o'"]),
        (lambda agent: Agent("anthropic:claude-opus-5").provider, ConfigurationError, ["write 'claude:claude-opus-5'"]),
        (lambda agent: Agent("google").provider, ConfigurationError, ["write 'gemini:gemini-"]),
    ],
)
def test_names_from_other_tools_are_answered_with_nbagents_names(use, kind, words):
    with pytest.raises(kind) as caught:
        use(agent())
    assert all(word in str(caught.value) for word in words)


async def test_awaiting_a_stream_is_an_error():
    with pytest.raises(TypeError, match="async for event in"):
        await agent().chat_stream("x")

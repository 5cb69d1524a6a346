"""What is passed wrongly is an error of ours that names the value and says what to pass, before anything is asked."""

import numpy as np
import pytest

from nbagent import (
    Agent,
    AgentConfig,
    ContextManager,
    FunctionCall,
    FunctionRegistry,
    Limits,
    LLMMessage,
    LLMProvider,
    LLMResponse,
    ScriptedProvider,
    StreamingHandler,
    create_provider,
    register_provider,
    tool,
)
from nbagent.errors import ConfigurationError


def area(width: float) -> float:
    """Area of a square."""
    return width * width


def agent(**options):
    return Agent(ScriptedProvider("An answer."), tools=[area], **options)


MADE_WRONGLY = {
    "functions as the registry": (lambda: Agent("scripted", [area]), r"expected a FunctionRegistry.*area.*tools="),
    "a number as tools": (lambda: Agent("scripted", tools=5), "tools: .*functions.* got 5"),
    "approve=True": (lambda: Agent("scripted", approve=True), r"function of \(call, definition\).* got True"),
    "an approver of one argument": (lambda: agent(approve=lambda call: True), "two arguments: too many"),
    "a prompt that is no text": (lambda: Agent("scripted", system_prompt=5), "system prompt: .*got 5"),
    "half a request": (lambda: Limits(max_iterations=2.5), "max_iterations: expected a whole number.* got 2.5"),
    "a limit as text": (
        lambda: Agent(AgentConfig(max_tool_calls="2", provider="scripted")),
        "max_tool_calls: .* got '2'",
    ),
    "a context's limit": (lambda: ContextManager(max_messages=True), "max_messages: .*at least 1.* got True"),
    "a context's strategy": (lambda: ContextManager(strategy="drop"), "strategy: .* got 'drop'"),
    "no message": (lambda: ContextManager().pin("x"), "message: .*LLMMessage, got 'x'"),
    "a timeout as text": (lambda: tool(timeout="5")(area), "timeout: .*number above 0.* got '5'"),
    "an option as text": (lambda: tool(parallel="no")(area), "parallel: .*True or False, got 'no'"),
    "retries": (lambda: tool(retries=True)(area), "retries: .*at least 0, got True"),
    "a name as the function": (lambda: tool("area"), "a function, got 'area'"),
    "a provider's name": (lambda: create_provider(5), "name: .*got 5.*'vendor:model'"),
    "a provider's class": (lambda: Agent(Own).provider, "provider: .*instance of Own"),
    "a factory": (lambda: register_provider("mine", 5), "factory: .*got int"),
}


@pytest.mark.parametrize(("make", "words"), MADE_WRONGLY.values(), ids=MADE_WRONGLY)
def test_what_is_made_wrongly(make, words):
    with pytest.raises(ConfigurationError, match=words):
        make()


ASKED_WRONGLY = {
    "a role": ({"role": "usr", "content": "hi"}, "role: expected 'system', 'user'.* got 'usr'"),
    "a number": ({"role": "user", "content": 5}, "can't hold 5"),
    "a message of a number": (LLMMessage("user", 5), "can't hold 5"),
    "a text among messages": ([LLMMessage("user", "a"), "b"], "a message with a role, got 'b'"),
    "a call without a name": ([{"role": "assistant", "tool_calls": [{"id": "1"}]}], "a dict as .*to_dict.*'name'"),
    "nothing": (LLMMessage("user", None), "is empty"),
}


@pytest.mark.parametrize(("message", "words"), ASKED_WRONGLY.values(), ids=ASKED_WRONGLY)
def test_what_is_asked_wrongly(message, words):
    asked = agent()
    with pytest.raises(ConfigurationError, match=words):
        asked.chat_sync(message)
    assert asked.conversation_history == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tools": [area]}, "names of .*tools, got function <function area"),
        ({"tools": 5}, "names of .*tools, got 5"),
        ({"handler": print}, "expected a StreamingHandler.*print"),
        ({"max_iterations": "5"}, "max_iterations: .* got '5'"),
    ],
)
def test_options_of_a_run(options, words):
    asked = agent()
    with pytest.raises(ConfigurationError, match=words):
        asked.chat_sync("hi", **options)
    assert asked.conversation_history == [], "nothing was asked"


def test_a_stream_takes_no_handler():
    with pytest.raises(ConfigurationError, match="iterate its events"):
        agent().chat_stream("hi", handler=StreamingHandler())


class Own(LLMProvider):
    """A provider of the user's own, which answers with whatever it was given."""

    model_name = "own"

    def __init__(self, answer):
        self.answer = answer

    def supports_function_calling(self):
        return True

    async def chat(self, messages, functions=None, temperature=None, **kwargs):
        return self.answer


class Blocking(Own):
    def chat(self, messages, functions=None, temperature=None, **kwargs):
        return self.answer


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        (Own("text"), r"Own.chat\(\) must be async and return an LLMResponse, got a str"),
        (Own(None), "got a NoneType"),
        (Blocking(LLMResponse("text")), r"Blocking.chat\(\) must be async .* got a LLMResponse"),
    ],
)
def test_a_provider_that_gives_something_else(provider, words):
    with pytest.raises(TypeError, match=words):
        Agent(provider).chat_sync("hi")


def test_calls_without_a_text_may_have_none():
    asked = Agent(Own(LLMResponse(None, [FunctionCall("area", {"width": 2})])), tools=[area])
    assert [call["result"] for call in asked.chat_sync("hi", max_iterations=1).function_calls] == ["4.0"]


@pytest.mark.parametrize("turn", [5, {"content": "x"}, ["text"], lambda messages, functions: None])
def test_a_turn_that_is_none(turn):
    provider = ScriptedProvider(turn if callable(turn) else [turn])
    with pytest.raises(ConfigurationError, match="turn: expected a text, a FunctionCall"):
        Agent(provider).chat_sync("hi")


def test_what_is_meant_is_taken():
    asked = agent(limits=Limits(max_iterations=np.int64(3), max_cost=np.float32(0.5)))
    developer = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    assert asked.chat_sync(developer, tools="area").content == "An answer."
    assert asked.system_prompt == "Be brief.", "OpenAI's newer word for it"
    asked.context.add_message("and this")
    asked.context.add_message({"role": "assistant", "content": "too"})
    assert [(m.role, m.text) for m in asked.context.messages[-2:]] == [("user", "and this"), ("assistant", "too")]
    assert repr(ContextManager(max_messages=4)) == "<ContextManager 0 messages, about 0 tokens, max_messages=4>"


def test_images_as_chat_completions_have_them():
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}
    asked = agent()
    asked.chat_sync([{"role": "user", "content": ["What is this?", picture]}])
    assert asked.conversation_history[0].content[1] == {"type": "image", "url": "https://example.org/cat.png"}


def test_a_registry_names_what_is_no_name():
    with pytest.raises(ConfigurationError, match="no tool 'are'; did you mean area"):
        agent().tool_executor.with_options(only=["are"])
    with pytest.raises(ConfigurationError, match="none is registered"):
        FunctionRegistry().only(["area"])


@pytest.mark.parametrize(
    ("use", "kind", "words"),
    [
        (lambda agent: agent.run, AttributeError, ["await agent.chat(...)", "chat_sync"]),
        (lambda agent: agent.history, AttributeError, ["agent.conversation_history"]),
        (lambda agent: agent.tools, AttributeError, ["agent.function_registry", "offered_tools"]),
        (lambda agent: agent.nothing_like_it, AttributeError, ["nothing_like_it"]),
        (lambda agent: Agent(model="gpt-4o"), ConfigurationError, ["'model'", "Agent('vendor:model')"]),
        (lambda agent: Agent(sistem_prompt="x"), ConfigurationError, ["did you mean system_prompt?"]),
        (lambda agent: Agent(max_iteration=3), ConfigurationError, ["did you mean max_iterations?"]),
        (lambda agent: Agent("gpt-4o").provider, ConfigurationError, ["write 'openai:gpt-4o'"]),
        (lambda agent: Agent("anthropic:claude-opus-5").provider, ConfigurationError, ["write 'claude:claude-opus-5'"]),
        (lambda agent: Agent("google").provider, ConfigurationError, ["write 'gemini:gemini-"]),
        (lambda agent: Agent("openai/gpt-4o").provider, ConfigurationError, ["write 'openai:gpt-4o'"]),
    ],
)
def test_spellings_of_other_tools_are_answered_with_ours(use, kind, words):
    with pytest.raises(kind) as caught:
        use(agent())
    assert all(word in str(caught.value) for word in words)
    assert not hasattr(agent(), "history")
    assert "run" not in dir(agent())


async def test_a_stream_is_not_awaited():
    with pytest.raises(TypeError, match="async for event in"):
        await agent().chat_stream("x")

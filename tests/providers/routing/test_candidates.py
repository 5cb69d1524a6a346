"""Several models: the prompt chooses among them, and the next one takes over when one is down or refuses."""

import pytest
from support.loopback import Answer, Loopback, claude_said, gemini_said, said, sse
from support.provider_answers import claude_stream
from support.small_agent import add

from nbagent import Agent, Budget, Candidates, FunctionCall, LLMResponse, ScriptedProvider, Usage, create_provider
from nbagent.core.messages import LLMMessage
from nbagent.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    IncompleteStreamError,
    ModelNotFoundError,
    ProviderConnectionError,
    QuotaError,
    RateLimitError,
    RegionError,
    ServerError,
)
from nbagent.providers.routing import candidates

QUESTION = "How much is 2 + 2?"
DOWN = Answer(b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}', 529)
USED = {"prompt_tokens": 100, "completion_tokens": 10}
THOUGHT = {"type": "thinking", "thinking": "Add them.", "signature": "c2lnbmVk"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 2, "b": 2}}


def claude_at(server):
    return create_provider("claude:claude-sonnet-5", api_key="k", base_url=server.url, max_retries=0)


def openai_at(server):
    url = f"{server.url}/v1"
    return create_provider("openai:gpt-5-mini", api_key="k", base_url=url, api="chat", max_retries=0)


def gemini_at(server):
    url = f"{server.url}/v1beta"
    return create_provider("gemini:gemini-2.5-flash", api_key="k", base_url=url, max_retries=0)


@pytest.fixture
def clock(monkeypatch):
    """The clock for failed models' rests, as a list with the time."""
    now = [1000.0]
    monkeypatch.setattr(candidates, "monotonic", lambda: now[0])
    return now


def scripted(turns, model="m", **options):
    return ScriptedProvider(turns, model=model, **options)


def said_by(name, **options):
    """A model that answers with its name and the number of messages."""
    return scripted(lambda messages, _: f"{name} {len(messages)}", name, **options)


async def test_the_next_provider_takes_over_between_tools_and_answer_and_the_first_returns(clock):
    async with Loopback() as claude, Loopback() as openai:
        claude.answers = [Answer(claude_stream(THOUGHT, CALL, reason="tool_use")), DOWN, Answer(claude_said("Six."))]
        openai.answers = [Answer(sse(said("It is 4.", usage=USED)))]
        agent = Agent([claude_at(claude), openai_at(openai)], tools=[add])
        result = await agent.chat(QUESTION)
        assert (result.content, len(result.function_calls)) == ("It is 4.", 1)
        await agent.chat("Again?")
        assert (len(claude.requests), len(openai.requests)) == (2, 2), "what failed rests"
        clock[0] += candidates.REST_S + 1
        assert (await agent.chat("And 3 + 3?")).content == "Six."
        await agent.aclose()
    sent = openai.requests[0].json["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert sent[1]["tool_calls"][0]["function"]["name"] == "add"
    assert sent[2] == {"role": "tool", "tool_call_id": sent[1]["tool_calls"][0]["id"], "content": "4"}
    assert THOUGHT["signature"] not in openai.requests[0].body.decode(), "what is Claude's own stays with Claude"
    last = claude.requests[-1].json["messages"]
    assert [block["type"] for block in last[1]["content"]] == ["thinking", "tool_use"]
    assert last[1]["content"][0] == THOUGHT, "and comes back to it as it was"
    calls = agent.trace.calls
    assert calls["provider"].tolist() == ["claude", "claude", "openai", "openai", "claude"]
    assert calls["error_type"].dropna().tolist() == ["ServerError"]
    assert calls["step"].tolist() == [1, 2, 2, 1, 1]


async def test_three_providers_and_the_pieces_of_a_broken_answer():
    async with Loopback() as claude, Loopback() as openai, Loopback() as gemini:
        claude.answers = [DOWN]
        openai.answers = [Answer(sse(said("It may be", finish=None), done=False), end="drop")]
        gemini.answers = [Answer(gemini_said("Four."))]
        agent = Agent([claude_at(claude), openai_at(openai), gemini_at(gemini)])
        events = [event async for event in agent.chat_stream(QUESTION, thinking="low")]
        await agent.aclose()
    assert "output_config" in claude.requests[0].json, "each gets the option in its own form"
    assert openai.requests[0].json["reasoning_effort"] == "low"
    assert gemini.requests[0].json["contents"] == [{"role": "user", "parts": [{"text": QUESTION}]}]
    kinds = [event.type for event in events]
    assert kinds[:7] == ["run_started", "turn_started", "retry", "turn_started", "text", "usage", "retry"]
    first, second = (event for event in events if event.type == "retry")
    assert "Overloaded" in first.content
    assert first.content.endswith("Continuing with openai:gpt-5-mini.")
    assert (first.metadata["discard_chars"], second.metadata["discard_chars"]) == (0, len("It may be"))
    assert second.metadata["next"] == "gemini:gemini-2.5-flash"
    assert (events[-1].content, events[-1].result.iterations) == ("Four.", 1)
    assert agent.conversation_history[-1].text == "Four."
    calls = agent.trace.calls
    assert calls["error_type"].tolist()[:2] == ["ServerError", "IncompleteStreamError"]
    assert calls["http_status"].tolist()[0] == 529
    assert calls["cost_usd"].tolist()[0] == 0.0


async def test_provider_failures_fall_back_and_user_errors_are_raised():
    troubles = (RateLimitError, QuotaError, RegionError, ServerError, ProviderConnectionError, IncompleteStreamError)
    for error in troubles:
        for kind in (Agent, Candidates):
            asked = kind([scripted([error("no")]), said_by("b")])
            assert (await asked.chat([LLMMessage("user", "Hi")])).content == "b 1", error
    for error in (AuthenticationError, ModelNotFoundError, BadRequestError, ConfigurationError, ZeroDivisionError):
        second = said_by("b")
        with pytest.raises(error):
            await Agent([scripted([error("wrong")]), second]).chat("Hi")
        assert second.requests == []


async def test_if_all_fail_the_last_error_is_raised():
    agent = Agent([scripted([ServerError("one", code="busy")]), scripted([QuotaError("two")])])
    with pytest.raises(QuotaError, match="two") as caught:
        await agent.chat("Hi")
    assert caught.value.partial.run_id
    assert agent.trace.calls["error_type"].tolist() == ["ServerError", "QuotaError"]
    assert agent.trace.calls["error_code"].iloc[0] == "busy"
    assert agent.conversation_history == []


async def test_a_provider_without_a_key_is_skipped_and_none_with_a_key_is_an_error(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    agent = Agent("scripted")
    agent.provider = ["claude", said_by("b")]
    assert (await agent.chat("Hi")).content == "b 1"
    assert "there is no API key: ANTHROPIC_API_KEY" in agent.trace.calls["error_message"].iloc[0]
    with pytest.raises(AuthenticationError, match="ANTHROPIC_API_KEY"):
        agent.provider = ["claude", "openai"]


async def test_forks_share_failures_and_a_failed_model_is_tried_last(clock):
    first = scripted([ServerError("down"), "a"])
    agent = Agent([first, said_by("b")])
    await agent.chat("Hi")
    fork = agent.fork()
    assert (await fork.chat("Ho")).content == "b 3"
    assert len(first.requests) == 1
    agent.provider = [first, scripted([ServerError("down, too")])]
    assert (await agent.chat("Ho")).content == "a", "another list has rests of its own"


async def test_one_request_counts_and_the_budget_holds():
    rates = {"input": 0, "output": 1e6}
    late = LLMResponse("x", None, "stop", {"usage": Usage(1, 3)})
    agent = Agent([scripted([ServerError("down")]), scripted([late] * 2, price=rates)], budget=Budget(max_cost=2.0))
    result = await agent.chat("Hi", max_iterations=1)
    assert (result.status, result.iterations, result.cost) == ("ok", 1, 3.0)
    assert (await agent.chat("Ho")).limit_reason == "cost"


def by_word(messages):
    return "strong" if "why" in messages[-1].text else "cheap"


async def test_after_a_tool_the_same_model_continues_without_another_choice():
    asked = []

    def choose(messages):
        asked.append([message.role for message in messages])
        return "strong"

    strong = ScriptedProvider([FunctionCall("look", {}), "done"], model="strong")
    agent = Agent(Candidates({"cheap": said_by("cheap"), "strong": strong}, choose), tools=[look])
    assert (await agent.chat("Hi")).content == "done"
    assert asked == [["user"]]
    assert agent.trace.calls["model"].tolist() == ["strong", "strong"]


def look() -> str:
    """Look."""
    return "seen"


async def test_an_agent_may_choose_and_its_tokens_count_for_the_run():
    rates = {"input": 0.0, "output": 1e6}
    small = Agent(ScriptedProvider(["strong"] * 2, price=rates))

    async def choose(messages):
        return (await small.chat(messages[-1].text)).content

    agent = Agent(Candidates({"cheap": said_by("cheap"), "strong": said_by("strong", price=rates)}, choose))
    result = await agent.chat("Hi")
    assert (result.content, result.cost) == ("strong 1", 3.0)
    assert small.trace.runs["parent_run_id"].tolist() == [result.run_id]


@pytest.mark.parametrize(
    ("question", "model"),
    [("Hi", "small"), ("Hi " * 200, "large"), ("What is this?\n```\nx\n```", "large"), ("", "small")],
)
async def test_without_a_function_the_first_model_answers_short_prompts(question, model):
    agent = Agent(Candidates({"small": said_by("small"), "middle": said_by("middle"), "large": said_by("large")}))
    assert (await agent.chat(question or "x")).content.startswith(model)


async def test_a_model_may_be_a_list():
    models = {"cheap": said_by("cheap"), "strong": [ScriptedProvider([ServerError("down")]), said_by("other")]}
    agent = Agent(Candidates(models, by_word))
    assert (await agent.chat("why?")).content == "other 1"


async def test_the_error_for_a_missing_key_names_its_model(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(AuthenticationError, match="OPENAI_API_KEY") as caught:
        Agent("scripted").provider = Candidates({"cheap": said_by("cheap"), "strong": "openai"})
    assert "'strong'" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Agent([]).provider, "models: expected a list of models"),
        (lambda: Agent([3]).provider, "provider: expected"),
        (lambda: Candidates({}), "models: expected a list of models, or a dict"),
        (lambda: Candidates({"a": "nobody:m"}), "Unknown provider 'nobody'"),
        (lambda: Candidates({"a": "scripted"}, choose="a"), "choose: expected a function"),
        (
            lambda: Agent(Candidates({"a": said_by("a")}, lambda messages: "b")).chat_sync("Hi"),
            r"choose: .* \(a\), got 'b'",
        ),
    ],
)
def test_wrong_arguments_are_named(make, problem):
    with pytest.raises(ConfigurationError, match=problem):
        make()

"""`Router`: a function of the question chooses which of several models answers."""

import pytest
from support.loopback import Answer, Loopback, claude_said, said, sse

from nbagent import Agent, FunctionCall, Router, ScriptedProvider, create_provider
from nbagent.errors import AuthenticationError, ConfigurationError, ServerError


def named(name, **options):
    return ScriptedProvider(lambda messages, _: f"{name} {len(messages)}", model=name, **options)


def by_word(messages):
    return "strong" if "why" in messages[-1].text else "cheap"


async def test_two_vendors_in_one_conversation():
    async with Loopback() as claude, Loopback() as qwen:
        claude.answers = [Answer(claude_said("Because."))]
        qwen.answers = [Answer(sse(said("Yes.")))]
        models = {
            "cheap": create_provider("qwen:qwen-flash", api_key="k", base_url=f"{qwen.url}/v1"),
            "strong": create_provider("claude:claude-sonnet-5", api_key="k", base_url=claude.url),
        }
        agent = Agent(Router(models, choose=by_word), system_prompt="Be brief.")
        answers = [(await agent.chat(text)).content for text in ("Is it?", "But why?", "So?")]
        await agent.aclose()
    assert answers == ["Yes.", "Because.", "Yes."]
    assert agent.trace.calls["model"].tolist() == ["qwen-flash", "claude-sonnet-5", "qwen-flash"]
    told = claude.requests[0].json["messages"]
    assert [message["role"] for message in told] == ["user", "assistant", "user"]
    assert len(qwen.requests[1].json["messages"]) == 6


async def test_what_follows_a_tool_is_asked_of_the_same_model_and_chosen_once():
    asked = []

    def choose(messages):
        asked.append([message.role for message in messages])
        return "strong"

    strong = ScriptedProvider([FunctionCall("look", {}), "done"], model="strong")
    agent = Agent(Router({"cheap": named("cheap"), "strong": strong}, choose), tools=[look])
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

    agent = Agent(Router({"cheap": named("cheap"), "strong": named("strong", price=rates)}, choose))
    result = await agent.chat("Hi")
    assert (result.content, result.cost) == ("strong 1", 3.0)
    assert small.trace.runs["parent_run_id"].tolist() == [result.run_id]


@pytest.mark.parametrize(
    ("question", "model"),
    [("Hi", "small"), ("Hi " * 200, "large"), ("What is this?\n```\nx\n```", "large"), ("", "small")],
)
async def test_without_a_function_short_questions_get_the_first_model(question, model):
    agent = Agent(Router({"small": named("small"), "middle": named("middle"), "large": named("large")}))
    assert (await agent.chat(question or "x")).content.startswith(model)


async def test_a_model_may_be_a_list():
    models = {"cheap": named("cheap"), "strong": [ScriptedProvider([ServerError("down")]), named("other")]}
    agent = Agent(Router(models, by_word))
    assert (await agent.chat("why?")).content == "other 1"


async def test_a_key_that_is_missing_is_told_with_the_name_of_its_model(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(AuthenticationError, match="OPENAI_API_KEY") as caught:
        Agent("scripted").provider = Router({"cheap": named("cheap"), "strong": "openai"})
    assert "'strong'" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Router({}), "models: expected a dict with one model or more by name"),
        (lambda: Router({"a": "nobody:m"}), "Unknown provider 'nobody'"),
        (lambda: Router({"a": "scripted"}, choose="a"), "choose: expected a function"),
        (lambda: Agent(Router({"a": named("a")}, lambda messages: "b")).chat_sync("Hi"), r"choose: .* \(a\), got 'b'"),
    ],
)
def test_wrong_arguments_are_named(make, problem):
    with pytest.raises(ConfigurationError, match=problem):
        make()

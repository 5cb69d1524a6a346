"""Tool calls by prompting: with the real small model, and with a server model without tool calling."""

import pytest
from support.loopback import Answer, said, sse
from support.requests import streamed
from support.small_tools import CALL, MEAN_BY, MEANS, TIMER, TOOLS, FakeCompleter, after, tool, user

from nbagent import Agent
from nbagent.core.events import Text
from nbagent.core.messages import FunctionCall, LLMMessage, Usage
from nbagent.core.model_request import ModelRequest
from nbagent.errors import ConfigurationError
from nbagent.providers.local.provider import LocalProvider
from nbagent.providers.prompting.provider import UNREADABLE, PromptedProvider, checked_call, fit, plain

# ---------------------------------------------------------------- with the real model


@pytest.mark.local_model
@pytest.mark.parametrize(
    ("request_text", "name", "arguments"),
    [
        ("What is the mean body_mass_g by species?", "mean_by", {"column": "body_mass_g", "group": "species"}),
        ("average flipper length per island", "mean_by", {"column": "flipper_length_mm", "group": "island"}),
        ("How is the weather in New York?", "get_weather", {"city": "New York"}),
        ("Set a 3 minute timer called 'tea'", "set_timer", {"minutes": 3, "label": "tea"}),
        ("What is the median of 3, 9.5 and -2?", "median", {"numbers": [3, 9.5, -2]}),
        ("What is the current time?", "current_time", {}),
        ("Set a timer for 010 minutes", "set_timer", {"minutes": 10}),
    ],
)
async def test_the_small_model_calls_the_right_tool(embedded, request_text, name, arguments):
    response = await embedded.chat([user(request_text)], TOOLS)
    (call,) = response.function_calls
    assert (call.name, call.arguments) == (name, arguments)
    assert call.id
    assert response.finish_reason == "tool_calls"


@pytest.mark.local_model
async def test_without_a_fitting_tool_the_model_just_answers(embedded):
    asked = [user("What is a median?")]
    items = [item async for item in streamed(embedded, asked, TOOLS, max_tokens=12)]
    response = items[-1]
    assert not response.function_calls
    assert response.content == "".join(item.content for item in items if isinstance(item, Text)) != ""


@pytest.mark.local_model
async def test_rule_based_calls_and_answers_use_no_tokens(embedded):
    def current_time() -> dict:
        """The current time."""
        return {"hours": [10, 11, 12], "zone": "UTC"}

    agent = Agent(embedded, tools=[current_time])
    result = await agent.chat("What is the current time?")
    assert (result.usage, result.cost) == (Usage(), 0)


# ---------------------------------------------------------------- never an invalid call


@pytest.mark.parametrize(("text", "city"), [('{"city": "Oslo"}', "Oslo"), ('{"city": "O', "Rome"), ("none", "Rome")])
async def test_the_model_chooses_among_several_values(text, city):
    inner = FakeCompleter(text, cut_off=text.endswith("O"))
    response = await PromptedProvider(inner).chat([user("Is the weather better in Rome or in Oslo?")], TOOLS)
    assert len(inner.prompts) == 1
    assert [call.arguments for call in response.function_calls] == [{"city": city}]
    assert response.usage == Usage(7, 3)


async def test_an_unreadable_language_is_reported():
    response = await PromptedProvider(inner := FakeCompleter()).chat([user("法国的首都是哪里？")], TOOLS)
    no_tool = response.metadata["no_tool"]
    assert (response.content, response.usage, inner.chats, no_tool) == (UNREADABLE, Usage(), [], False)


async def test_arguments_that_do_not_fit_lead_to_no_call():
    short = tool("set_timer", "Set a timer.", minutes={"type": "integer", "maximum": 3})
    response = await PromptedProvider(FakeCompleter()).chat([user("a timer of 5 minutes")], [short])
    assert (response.function_calls, response.content) == (None, "Plain answer.")
    assert response.metadata["no_tool"] is True


async def test_a_forced_call_uses_the_likeliest_tool():
    provider = PromptedProvider(FakeCompleter())
    for choice in ("required", "set_timer"):
        response = await provider.chat([user("5, please")], [MEAN_BY, TIMER], tool_choice=choice)
        assert [(call.name, call.arguments) for call in response.function_calls] == [("set_timer", {"minutes": 5})]
    with pytest.raises(ConfigurationError, match=r"tool_choice: expected 'auto', .* or 'set_timer', got 'timer'"):
        await provider.chat([user("5")], [TIMER], tool_choice="timer")


def test_an_answer_from_memory_is_short_unless_max_tokens_is_set():
    asked, used, none, given = [user("Heaviest?")], after(CALL, MEANS), {"max_tokens": None}, {"max_tokens": 500}
    cases = ((asked, TOOLS, none, 120), (asked, None, {}, 300), (used, TOOLS, {}, 300), (asked, TOOLS, given, 500))
    for messages, tools, options, limit in cases:
        resolved = PromptedProvider(LocalProvider(**options)).resolve(ModelRequest(messages, tools)).resolved
        assert resolved.options["max_tokens"] == limit


ATTACHED = '\n\n<attached name="notes.txt" about="1 line">\nisland\n</attached>'


@pytest.mark.parametrize("text", ["And by sex?", f"And by sex?{ATTACHED}"])
async def test_a_follow_up_repeats_the_last_call_with_what_it_changes(text):
    messages = [*after(CALL, MEANS), LLMMessage("assistant", "Adelie: 3700.7"), user(text)]
    (call,) = (await PromptedProvider(FakeCompleter()).chat(messages, TOOLS)).function_calls
    assert (call.name, call.arguments) == ("mean_by", {**CALL.arguments, "group": "sex"})


# ---------------------------------------------------------------- answers from results


async def test_all_results_of_a_turn_are_answered():
    other = FunctionCall("get_weather", {"city": "Rome"}, "call_2")
    messages = [
        user("Both please"),
        LLMMessage("assistant", "", tool_calls=[CALL, other]),
        LLMMessage("tool", MEANS, name="mean_by", tool_call_id="call_1"),
        LLMMessage("tool", "no such city", name="get_weather", tool_call_id="call_2", is_error=True),
    ]
    response = await PromptedProvider(FakeCompleter()).chat(messages, TOOLS)
    answer = response.content
    assert "3733.1" in answer
    assert '`get_weather(city="Rome")` failed: no such city' in answer
    assert response.metadata["quoted"]


async def test_an_answer_that_repeats_itself_is_stopped():
    closed = False

    class Endless(FakeCompleter):
        async def stream(self, request):
            nonlocal closed
            try:
                while True:
                    yield Text("again ")
            finally:
                closed = True

    items = [item async for item in streamed(PromptedProvider(Endless()), [user("Hello!")], TOOLS)]
    assert items[-1].content == "again " * 5 + " …" == "".join(item.content for item in items if isinstance(item, Text))
    assert items[-1].usage.output_tokens == 5
    assert closed


# ---------------------------------------------------------------- conversations


def test_tool_calls_are_removed_because_a_model_would_copy_them():
    asked = [LLMMessage("system", "Be brief."), *after(CALL, MEANS)]
    unanswered = plain([*asked, user("And now?")])
    assert [message.role for message in unanswered] == ["system", "user", "user", "user"]
    assert "3700.7" in unanswered[2].text
    answered = plain([*asked, LLMMessage("assistant", "3700.7."), user("Now?")])
    assert answered[2].text == "3700.7."
    assert [message.role for message in answered] == ["system", "user", "assistant", "user"]
    assert not any(message.tool_calls or message.tool_call_id for message in [*unanswered, *answered])


def test_old_turns_are_dropped_whole():
    turns = [message for i in range(9) for message in (user(f"{i} " + "x" * 300), LLMMessage("assistant", "y" * 300))]
    kept = fit([LLMMessage("system", "s"), *turns, user("last")], 600)
    assert kept[0].role == "system"
    assert kept[1].role == "user"
    assert kept[-1].text == "last"
    assert 3 < len(kept) < len(turns)
    assert fit([user("x" * 9000)], 600)[0].text == "x" * 9000


# ---------------------------------------------------------------- a server model without tool calling


async def test_a_server_model_is_prompted_for_json(loopback, connect):
    wanted = '```json\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n```'
    loopback.answers = [Answer(sse(said(wanted)))]
    response = await connect(function_calling=False).chat([user("How is it in Rome?")], TOOLS)
    assert response.function_calls[0].arguments == {"city": "Rome"}
    body = loopback.requests[0].json
    assert "tools" not in body
    assert "set_timer" in body["messages"][0]["content"]
    forms = body["response_format"]["json_schema"]["schema"]["anyOf"]
    assert [form["properties"]["name"] for form in forms] == [*({"const": t["name"]} for t in TOOLS), {"type": "null"}]


@pytest.mark.parametrize("reply", ['{"name": null}', '{"name": "get_weather", "arguments": {"town": 1}}', "Sure!"])
async def test_a_server_model_that_needs_no_tool_answers(loopback, connect, reply):
    loopback.answers = [Answer(sse(said(reply))), Answer(sse(said("It is warm.")))]
    response = await connect(function_calling=False).chat([user("How is it in Rome?")], TOOLS)
    assert not response.function_calls
    assert response.content == "It is warm."


def test_a_schema_elsewhere_is_not_fetched():
    parameters = {"properties": {"count": {"$ref": "http://127.0.0.1:9/count.json"}}}
    assert checked_call({"name": "buy", "parameters": parameters}, {"count": 1}) is None
    assert checked_call({"name": "buy", "parameters": {}}, {"count": 1}).arguments == {"count": 1}

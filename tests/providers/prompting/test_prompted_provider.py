"""Tool calls by prompting: with the real small model, and with a server model without tool calling."""

import pytest
from support.loopback import Answer, said, sse
from support.requests import streamed
from support.small_tools import CALL, MEANS, TOOLS, FakeCompleter, after, user

from nbagent import Agent
from nbagent.core.events import Http, Text
from nbagent.core.messages import FunctionCall, LLMMessage, Usage
from nbagent.errors import ProviderError
from nbagent.providers.local.provider import LocalProvider
from nbagent.providers.prompting.provider import PromptedProvider, fit, plain

POSTCODE = {"type": "object", "properties": {"postcode": {"type": "integer"}}, "required": ["postcode"]}

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
    provider = PromptedProvider(embedded)
    response = await provider.chat([user(request_text)], TOOLS)
    (call,) = response.function_calls
    assert (call.name, call.arguments) == (name, arguments)
    assert call.id
    assert response.finish_reason == "tool_calls"
    if arguments:
        assert response.usage.input_tokens > 100
        assert response.usage.output_tokens > 3


@pytest.mark.local_model
@pytest.mark.parametrize("code", ["01067", "0_1"])
async def test_digits_that_json_has_no_number_for(embedded, code):
    town = {"name": "town", "description": "The town of a postcode.", "parameters": POSTCODE}
    response = await PromptedProvider(embedded).chat([user(f"Which town has the postcode {code}?")], [town])
    values = [call.arguments["postcode"] for call in response.function_calls or ()]
    assert values or response.content
    assert all(isinstance(value, int) for value in values)
    assert code != "01067" or values == [1067]


@pytest.mark.local_model
@pytest.mark.parametrize("request_text", ["Hello!", "What is a median?"])
async def test_if_no_tool_fits_it_just_answers(embedded, request_text):
    items = [item async for item in streamed(PromptedProvider(embedded), [user(request_text)], TOOLS, max_tokens=12)]
    response = items[-1]
    assert not response.function_calls
    assert response.content == "".join(item.content for item in items if isinstance(item, Text)) != ""


@pytest.mark.local_model
async def test_a_sentence_about_a_number_holds_the_number(embedded):
    call = FunctionCall("count_rows", {}, "call_1")
    response = await PromptedProvider(embedded).chat(after(call, "344", request="How many rows are there?"), TOOLS)
    assert "344" in response.content
    assert response.usage.output_tokens > 0
    assert response.metadata["quoted"] is ("`count_rows()`" in response.content)


@pytest.mark.local_model
async def test_calls_and_answers_that_rules_make_take_no_tokens(embedded):
    def current_time() -> dict:
        """The current time."""
        return {"hours": [10, 11, 12], "zone": "UTC"}

    agent = Agent(embedded, tools=[current_time])
    result = await agent.chat("What is the current time?")
    calls = agent.trace.calls
    assert calls["quoted"].tolist() == [False, True]
    assert calls[["input_tokens", "output_tokens"]].to_numpy().tolist() == [[0, 0], [0, 0]]
    assert not calls["usage_estimated"].any()
    assert (result.usage, result.cost) == (Usage(), 0)


@pytest.mark.local_model
async def test_loading_is_announced(embedded_server):
    inner = LocalProvider(n_ctx=896)
    provider = PromptedProvider(inner)
    items = [item async for item in streamed(provider, [user("How is the weather in Rome?")], TOOLS)]
    assert isinstance(items[0], Http)
    assert items[-1].function_calls[0].arguments == {"city": "Rome"}
    await provider.aclose()


# ---------------------------------------------------------------- never an invalid call


@pytest.mark.parametrize(
    ("text", "cut_off"),
    [
        ('{"column": "body_mass_g", "group": "spec', True),
        ('{"column": "body_mass_g", "group": "species"}', True),
        ('{"column": "wingspan", "group": "species"}', False),
        ('{"column": "body_mass_g"}', False),
        ('{"column": 01067}', False),
        ("no JSON", False),
        ("[1]", False),
    ],
)
async def test_arguments_that_do_not_fit_lead_to_no_call(text, cut_off):
    inner = FakeCompleter(text, cut_off)
    response = await PromptedProvider(inner).chat([user("mean body_mass_g by species")], TOOLS)
    assert len(inner.prompts) == 1
    assert not response.function_calls
    assert response.content == "Plain answer."
    assert response.usage == Usage(8, 4)  # of both requests


async def test_a_request_longer_than_the_window_leads_to_no_call():
    inner = FakeCompleter()
    response = await PromptedProvider(inner).chat([user("mean body_mass_g by species " + "and so on " * 500)], TOOLS)
    assert inner.prompts == []
    assert response.content == "Plain answer."


async def test_without_tools_it_answers_as_its_inner_provider():
    inner = FakeCompleter()
    provider = PromptedProvider(inner)
    assert (provider.model_name, provider.vendor) == (inner.model_name, inner.vendor)
    assert provider.supports_function_calling()
    assert (await provider.chat([user("mean body_mass_g by species")])).content == "Plain answer."
    assert inner.prompts == []


# ---------------------------------------------------------------- answers from results


async def test_a_table_of_values_is_quoted():
    inner = FakeCompleter()
    items = [item async for item in streamed(PromptedProvider(inner), after(CALL, MEANS), TOOLS)]
    answer = (
        '`mean_by(column="body_mass_g", group="species")` gives **Adelie** 3700.7, **Chinstrap** 3733.1 and '
        "**Gentoo** 5076.0."
    )
    assert items[-1].content == answer
    assert "".join(item.content for item in items if isinstance(item, Text)) == answer
    assert items[-1].metadata["quoted"] is True
    assert inner.prompts == []


async def test_all_results_of_a_turn_are_answered():
    other = FunctionCall("get_weather", {"city": "Rome"}, "call_2")
    messages = [
        user("Both please"),
        LLMMessage("assistant", "", tool_calls=[CALL, other]),
        LLMMessage("tool", MEANS, name="mean_by", tool_call_id="call_1"),
        LLMMessage("tool", "no such city", name="get_weather", tool_call_id="call_2", is_error=True),
    ]
    answer = (await PromptedProvider(FakeCompleter()).chat(messages, TOOLS)).content
    assert "3733.1" in answer
    assert '`get_weather(city="Rome")` failed: no such city' in answer


@pytest.mark.parametrize(
    ("draft", "kept"),
    [
        ("There are 344 rows.", True),
        ("There are 345 rows.", False),
        ("There are 344 rows and 7 columns.", False),
        ("There are 3445 rows.", False),
        ("There are 344 rows and", False),
    ],
)
async def test_a_draft_is_kept_only_if_it_is_faithful(draft, kept):
    call = FunctionCall("count_rows", {}, "call_1")
    response = await PromptedProvider(FakeCompleter(draft)).chat(after(call, "344", request="How many rows?"), TOOLS)
    assert response.metadata["quoted"] is not kept
    assert response.content == (draft if kept else "`count_rows()` gives 344.")


# ---------------------------------------------------------------- conversations


def test_tool_calls_are_removed_because_a_model_would_copy_them():
    asked = [LLMMessage("system", "Be brief."), *after(CALL, MEANS)]
    unanswered = plain([*asked, user("And now?")])
    assert [message.role for message in unanswered] == ["system", "user", "user", "user"]
    assert "3700.7" in unanswered[2].text
    answered = plain([*asked, LLMMessage("assistant", "`mean_by()` gives **Adelie** 3700.7."), user("Now?")])
    assert answered[2].text == "**Adelie** 3700.7."
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


@pytest.mark.local_model
async def test_a_long_conversation_still_gets_an_answer():
    turns = [
        message
        for i in range(60)
        for message in (user(f"Question {i}: " + "word " * 60), LLMMessage("assistant", "Yes."))
    ]
    provider = PromptedProvider(LocalProvider(n_ctx=1152))
    response = await provider.chat([*turns, user("Hello!")], TOOLS, max_tokens=5)
    assert response.content
    await provider.aclose()


# ---------------------------------------------------------------- a server model without tool calling


async def test_a_server_model_is_asked_for_json(loopback, connect):
    wanted = '```json\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n```'
    loopback.answers = [Answer(sse(said(wanted)))]
    provider = PromptedProvider(connect(function_calling=False))
    response = await provider.chat([user("How is it in Rome?")], TOOLS)
    assert response.function_calls[0].arguments == {"city": "Rome"}
    body = loopback.requests[0].json
    assert "tools" not in body
    assert "set_timer" in body["messages"][0]["content"]
    forms = body["response_format"]["json_schema"]["schema"]["anyOf"]
    assert [form["properties"]["name"] for form in forms] == [*({"const": t["name"]} for t in TOOLS), {"type": "null"}]


async def test_a_server_that_refuses_the_schema_is_asked_without_it(loopback, connect):
    refused = Answer(b'{"error": {"message": "response_format is not supported"}}', status=400)
    loopback.answers = [refused, Answer(sse(said('{"name": "get_weather", "arguments": {"city": "Rome"}}')))]
    response = await PromptedProvider(connect(function_calling=False)).chat([user("How is it in Rome?")], TOOLS)
    assert response.function_calls[0].arguments == {"city": "Rome"}
    assert ["response_format" in request.json for request in loopback.requests] == [True, False]


@pytest.mark.parametrize("reply", ['{"name": null}', '{"name": "get_weather", "arguments": {"town": 1}}', "Sure!"])
async def test_a_server_model_that_needs_no_tool_answers(loopback, connect, reply):
    loopback.answers = [Answer(sse(said(reply))), Answer(sse(said("It is warm.")))]
    response = await PromptedProvider(connect(function_calling=False)).chat([user("How is it in Rome?")], TOOLS)
    assert not response.function_calls
    assert response.content == "It is warm."


async def test_a_failure_is_a_provider_error(loopback, connect):
    loopback.answers = [Answer(b'{"error": {"message": "no"}}', status=400)]
    with pytest.raises(ProviderError):
        await PromptedProvider(connect(function_calling=False)).chat([user("How is it in Rome?")], TOOLS)

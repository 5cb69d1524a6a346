"""Runs as chat completions and responses, streamed and whole, with the official SDK's types."""

import pytest
from support.openai_answers import chunks_of, completion_of, events_of, response_events_of
from support.small_agent import add, call

from nbagent import Agent, LLMResponse, ScriptedProvider, Usage
from nbagent.core.events import Retry, Thinking
from nbagent.server.routes.openai.items import stored_items
from nbagent.server.routes.openai.writing import settled

USAGE = Usage(100, 20, cache_read_tokens=60, cache_write_tokens=7, reasoning_tokens=12)


def thoughtful(text, calls=None):
    metadata = {"thinking": "Let me see.", "usage": USAGE}
    return LLMResponse(text, calls, "tool_calls" if calls else "stop", metadata)


def said(chunks):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def thought(chunks):
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    return "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)


WITH_A_TOOL = [thoughtful("I add them.", [call("add", a=1, b=2)]), thoughtful("It is 3.")]


async def test_a_completion_has_the_text_of_all_turns_without_tool_calls():
    events = await events_of(WITH_A_TOOL, [add])
    completion = completion_of(events)
    (choice,) = completion.choices
    assert choice.message.content == "I add them.\n\nIt is 3."
    assert choice.message.reasoning_content == "Let me see.\n\nLet me see."
    assert choice.finish_reason == "stop"
    assert choice.message.tool_calls is None
    chunks = chunks_of(events)
    assert said(chunks) == choice.message.content
    assert thought(chunks) == choice.message.reasoning_content
    assert not any(each.delta.tool_calls for chunk in chunks for each in chunk.choices)
    assert [each.finish_reason for chunk in chunks for each in chunk.choices if each.finish_reason] == ["stop"]
    assert chunks[0].choices[0].delta.role == "assistant"


async def test_a_completion_counts_tokens_as_the_api_does():
    events = await events_of([thoughtful("Hello.")])
    usage = completion_of(events).usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (100, 20, 120)
    assert usage.prompt_tokens_details.cached_tokens == 60
    assert usage.completion_tokens_details.reasoning_tokens == 12
    *before, last = chunks_of(events, reports_usage=True)
    assert {chunk.usage for chunk in before} == {None}
    assert (last.usage, last.choices) == (usage, [])
    assert all("usage" not in chunk.model_fields_set for chunk in chunks_of(events))


@pytest.mark.parametrize(
    ("reason", "ends", "incomplete"),
    [
        ("stop", "stop", None),
        ("length", "length", "max_output_tokens"),
        ("refusal", "content_filter", "content_filter"),
    ],
)
async def test_finish_reasons(reason, ends, incomplete):
    events = await events_of([LLMResponse("Hello", None, reason)])
    assert completion_of(events).choices[0].finish_reason == ends
    response = response_events_of(events)[-1].response
    assert response.status == ("incomplete" if incomplete else "completed")
    assert (response.incomplete_details and response.incomplete_details.reason) == incomplete


async def test_a_response_has_an_item_per_thought_text_and_call():
    echo = {"instructions": "Be brief.", "metadata": {"a": "b"}, "temperature": 0.5}
    events = response_events_of(await events_of(WITH_A_TOOL, [add]), echo)
    response = events[-1].response
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.item for event in events if event.type == "response.output_item.done"] == response.output
    assert [event.output_index for event in events if event.type == "response.output_item.added"] == list(range(5))
    assert [item.type for item in response.output] == ["reasoning", "message", "mcp_call", "reasoning", "message"]
    thinking, first, tool, _, second = response.output
    assert [part.text for part in thinking.summary] == ["Let me see."]
    assert (first.phase, second.phase) == ("commentary", "final_answer")
    assert [part.text for part in second.content] == ["It is 3."]
    assert (tool.name, tool.arguments, tool.output, tool.status) == ("add", '{"a": 1, "b": 2}', "3", "completed")
    assert response.usage.input_tokens == 200
    assert response.usage.input_tokens_details.cached_tokens == 120
    assert response.usage.output_tokens_details.reasoning_tokens == 24
    assert (response.instructions, response.metadata, response.temperature) == ("Be brief.", {"a": "b"}, 0.5)


async def test_streamed_thinking_ends_when_its_request_is_retried():
    events = await events_of([thoughtful("It is 3.")])
    at = [event.type for event in events].index("thinking")
    events[at:at] = [Thinking("Let"), Retry("")]
    streamed = response_events_of(events)
    added = [(each.output_index, each.item.id) for each in streamed if each.type == "response.output_item.added"]
    done = [each.item for each in streamed if each.type == "response.output_item.done"]
    assert added == list(enumerate(item.id for item in done))
    assert streamed[-1].response.output == done
    assert [item.status for item in done] == ["incomplete", "completed", "completed"]
    thought, message = response_events_of(settled(events))[-1].response.output
    assert (thought.summary[0].text, message.content[0].text) == ("Let me see.", "It is 3.")


async def test_a_whole_answer_omits_rejected_text():
    def is_number(text):
        assert text.isdigit(), "Give a number."

    agent = Agent(ScriptedProvider(["Three.", "3"]), validators=[is_number])
    events = [event async for event in agent.chat_stream("1 + 2?")]
    assert completion_of(events).choices[0].message.content == "3"
    assert response_events_of(settled(events))[-1].response.output_text == "3"
    stored = [item for item in stored_items("conv_1", agent.conversation_history) if item["role"] == "assistant"]
    assert [item["content"][0]["text"] for item in stored] == ["3"]


async def test_parallel_calls_keep_their_own_results():
    calls = [call("add", "c1", a=1, b=2), call("add", "c2", a=3, b=4), call("none", "c3")]
    events = response_events_of(await events_of([calls, "Done."], [add]))
    one, two, none, _ = events[-1].response.output
    assert [(tool.arguments, tool.output) for tool in (one, two)] == [
        ('{"a": 1, "b": 2}', "3"),
        ('{"a": 3, "b": 4}', "7"),
    ]
    assert (none.status, none.output) == ("failed", None)
    assert "none" in none.error.content[0]["text"]

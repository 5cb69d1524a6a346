"""Runs as chat completions and as responses, piece by piece and whole, by the official SDK's own types."""

import pytest
from openai.types.responses import ResponseOutputMessage, ResponseReasoningItem
from openai.types.responses.response_output_item import McpCall
from support.openai_answers import chunks_of, completion_of, events_of, response_events_of
from support.small_agent import add, call

from nbagent import LLMResponse, Usage
from nbagent.core.events import Retry, Text, Thinking
from nbagent.providers.base import StreamingProvider
from nbagent.server.problems import RefusedError

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


async def test_a_completion_has_the_text_of_all_turns_and_no_word_of_tools():
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
    chunks = chunks_of(events, reports_usage=True)
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].usage == usage
    assert chunks[-1].choices == []
    assert all("usage" not in chunk.model_fields_set for chunk in chunks_of(events))


@pytest.mark.parametrize(
    ("reason", "ends", "incomplete"),
    [
        ("stop", "stop", None),
        ("length", "length", "max_output_tokens"),
        ("refusal", "content_filter", "content_filter"),
    ],
)
async def test_why_an_answer_ends(reason, ends, incomplete):
    events = await events_of([LLMResponse("Hello", None, reason)])
    assert completion_of(events).choices[0].finish_reason == ends
    response = response_events_of(events)[-1].response
    assert response.status == ("incomplete" if incomplete else "completed")
    assert (response.incomplete_details and response.incomplete_details.reason) == incomplete


async def test_a_response_has_an_item_for_each_thought_text_and_call():
    events = response_events_of(await events_of(WITH_A_TOOL, [add]))
    response = events[-1].response
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [ResponseReasoningItem, ResponseOutputMessage, McpCall, ResponseReasoningItem, ResponseOutputMessage]
    assert [type(item) for item in response.output] == kinds
    thinking, first, tool, _, second = response.output
    assert [part.text for part in thinking.summary] == ["Let me see."]
    assert (first.phase, second.phase) == ("commentary", "final_answer")
    assert [part.text for part in second.content] == ["It is 3."]
    assert (tool.name, tool.arguments, tool.output, tool.status) == ("add", '{"a": 1, "b": 2}', "3", "completed")
    assert response.usage.input_tokens == 200
    assert response.usage.input_tokens_details.cached_tokens == 120
    assert response.usage.output_tokens_details.reasoning_tokens == 24


async def test_the_events_of_a_response_follow_each_other_as_the_api_has_them():
    events = response_events_of(await events_of([thoughtful("", [call("add", a=1, b=2)]), "It is 3."], [add]))
    assert [event.type.removeprefix("response.") for event in events] == [
        *("created", "in_progress"),
        *("output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta"),
        *("reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done"),
        *("output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta", "mcp_call_arguments.done"),
        *("mcp_call.completed", "output_item.done"),
        *("output_item.added", "content_part.added", *["output_text.delta"] * 3),
        *("output_text.done", "content_part.done", "output_item.done", "completed"),
    ]
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert done == events[-1].response.output
    assert [event.output_index for event in events if event.type == "response.output_item.added"] == [0, 1, 2]


async def test_calls_at_the_same_time_keep_their_own_results():
    calls = [call("add", "c1", a=1, b=2), call("add", "c2", a=3, b=4), call("none", "c3")]
    events = response_events_of(await events_of([calls, "Done."], [add]))
    *tools, _ = events[-1].response.output
    assert [(tool.arguments, tool.output) for tool in tools[:2]] == [
        ('{"a": 1, "b": 2}', "3"),
        ('{"a": 3, "b": 4}', "7"),
    ]
    assert tools[2].status == "failed"
    assert "none" in tools[2].error.content[0]["text"]
    assert tools[2].output is None
    assert "response.mcp_call.failed" in [event.type for event in events]


class Own(StreamingProvider):
    """Sends these pieces, each of which is `(event class, text)`, and then the last text as a whole."""

    vendor, model_name = "own", "own"

    def __init__(self, *pieces, text):
        self._pieces, self._text = pieces, text

    def supports_function_calling(self):
        return True

    async def stream(self, request):
        for kind, text in self._pieces:
            yield kind(text)
        yield LLMResponse(self._text, None, "stop")


FIRST = (Thinking, "Hm."), (Text, "It is "), (Retry, "")
REPEATS = Own(*FIRST, (Thinking, "Hm."), (Text, "It"), (Text, " is sunny"), (Text, "."), text="It is sunny.")
DIFFERS = Own(*FIRST, (Text, "It rains."), text="It rains.")
SHORTER = Own(*FIRST, (Text, "It"), text="It")


async def test_a_stream_goes_on_where_a_second_attempt_repeats_the_first():
    events = await events_of(REPEATS)
    assert said(chunks_of(events)) == "It is sunny."
    assert thought(chunks_of(events)) == "Hm."
    response = response_events_of(events)[-1].response
    assert response.output_text == "It is sunny."
    assert [item.type for item in response.output] == ["reasoning", "message"]


@pytest.mark.parametrize("provider", [DIFFERS, SHORTER], ids=["differs", "shorter"])
@pytest.mark.parametrize("of", [chunks_of, response_events_of])
async def test_a_stream_whose_text_would_have_to_be_taken_back_fails(provider, of):
    events = await events_of(provider)
    with pytest.raises(RefusedError, match="second attempt"):
        of(events)


@pytest.mark.parametrize("provider", [REPEATS, DIFFERS, SHORTER], ids=["repeats", "differs", "shorter"])
async def test_a_whole_answer_has_only_the_second_attempt(provider):
    events = await events_of(provider)
    wanted = events[-1].result.content
    assert completion_of(events).choices[0].message.content == wanted
    response = response_events_of(events, is_streamed=False)[-1].response
    assert response.output_text == wanted
    assert all(item.status == "completed" for item in response.output)


async def test_a_provider_that_completes_its_text_at_the_end():
    events = await events_of(Own((Text, "It is "), text="It is sunny."))
    assert said(chunks_of(events)) == "It is sunny."
    assert response_events_of(events)[-1].response.output_text == "It is sunny."


async def test_an_empty_answer_is_still_an_answer():
    events = await events_of([""])
    assert completion_of(events).choices[0].message.content == ""
    assert [chunk.choices[0].delta.role for chunk in chunks_of(events)] == ["assistant", None]
    assert response_events_of(events)[-1].response.output == []


async def test_a_response_repeats_what_was_asked_for():
    echo = {"instructions": "Be brief.", "metadata": {"a": "b"}, "temperature": 0.5, "conversation": {"id": "conv_1"}}
    response = response_events_of(await events_of(["Hello"]), echo)[-1].response
    assert (response.instructions, response.metadata, response.temperature) == ("Be brief.", {"a": "b"}, 0.5)
    assert response.conversation.id == "conv_1"

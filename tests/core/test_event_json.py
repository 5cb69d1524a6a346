"""Events as JSON and back: a trace that is fed with them has the same tables, whatever happened in the runs."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest
from support.loopback import Answer, Loopback
from support.property_tools import PNG, registry

from nbagent import Agent, ContextManager, FunctionCall, LLMResponse, ScriptedProvider, Trace, Usage, create_provider
from nbagent.core.event_json import SharedMessages, event_from_json, event_to_json, json_data
from nbagent.core.events import Error
from nbagent.core.limits import Limits
from nbagent.errors import ContextLengthError, NbagentError, RateLimitError
from nbagent.trace.columns import COLUMNS

STREAMS = Path(__file__).parents[1] / "providers" / "formats" / "streams"

#: Columns that may differ, and why.
OWN = {
    "session_id": "each trace has its own",
    "message_id": "a message without an id, such as a system prompt, gets one from each trace",
    "parent_id": "see message_id",
    "block_id": "see message_id",
    "messages_in": "see message_id",
    **dict.fromkeys(("ts", "started", "ended", "duration_s", "ttft_s", "thinking_s"), "each trace has its own clock"),
    "setup_s": "the provider measures it after the event was written",
    "traceback": "it names the files of the other process",
    "result_type": "a value that JSON can't hold is a text",
}


class Twins:
    """A trace of the agent's runs, and one that is fed with the same events as JSON."""

    def __init__(self, trace: Trace | None = None):
        self.trace, self.twin = trace or Trace(), Trace()
        self.texts: list[str] = []
        self._writer, self._reader = SharedMessages(), SharedMessages()

    def observe(self, event):
        self.texts.append(json.dumps(event_to_json(event, self._writer), allow_nan=False))
        self.texts[-1].encode()
        read = event_from_json(json.loads(self.texts[-1]), self._reader)
        assert type(read) is type(event)
        assert read.to_dict() == {**event.to_dict(), **json_data(event.to_dict())}
        self.twin.record(read)

    def check(self):
        for name in COLUMNS:
            ours, theirs = getattr(self.trace, name), getattr(self.twin, name)
            same = [column for column in ours.columns if column not in OWN]
            pd.testing.assert_frame_equal(ours[same], theirs[same], obj=name)
        ids = [(trace.messages["message_id"], trace.messages["parent_id"]) for trace in (self.trace, self.twin)]
        places = [parents.map({each: place for place, each in enumerate(own)}) for own, parents in ids]
        pd.testing.assert_series_equal(*places)
        assert [self.trace.request(call).messages for call in self.trace.calls["call_id"]] == [
            self.twin.request(call).messages for call in self.twin.calls["call_id"]
        ]


COUNTED = {"usage": Usage(10, 5, 2, 1, 3), "usage_raw": {"in": 10}, "model": "m-1"}
EXTRAS = {"vendor": "x", "blocks": [{"type": "text", "text": "Ünïcode 東"}]}
CALLS = [
    FunctionCall("add", {"a": 1, "b": 2}, "call_0"),
    FunctionCall("add", {"a": ["x", "東"]}),
    FunctionCall("fail", {}, raw="{cut"),
]
OTHERS = [FunctionCall(name, {"a": 1}) for name in ("draw", "ask_first", "made_up", "clear", "add")]
SCRIPT = [
    LLMResponse("Half: \ud83d", CALLS, "tool_calls", COUNTED, EXTRAS),
    LLMResponse("", OTHERS, "tool_calls", {"thinking": "Well, \ud83d"}),
    LLMResponse("", None, "content_filter"),
    *(RateLimitError("slow", vendor="v", status=429, retry_after=1.5), "Better.", KeyError(1)),
    LLMResponse("Ünïcode 東", None, "length", COUNTED, EXTRAS),
]


@pytest.mark.parametrize("trims", [False, True])
async def test_a_trace_of_the_read_events_has_the_same_tables(trims):
    twins = Twins()
    context = ContextManager(max_messages=4 if trims else None)
    options = {"limits": Limits(max_tool_calls=5), "approve": lambda call, tool: {"a": 7}, "context": context}
    agent = Agent(ScriptedProvider(SCRIPT), system_prompt="You help.", trace=twins.trace, **options)
    agent.function_registry = agent.tool_executor.registry = registry(agent.clear_history)
    agent.observers.append(twins.observe)
    for question in ("Hello", ["See:", PNG], "Ünïcode 東", "Go on", "And?"):
        with suppress(NbagentError, KeyError):
            await agent.chat(question, tags=["t"], metadata={"n": 1}, instructions="Be brief." if trims else "")
    assert len(set(twins.twin.runs["status"])) > 2
    twins.check()


async def test_an_interrupted_run_and_http_exchanges_are_told_too():
    twins = Twins(Trace(record_http=True))
    async with Loopback() as server:
        thinking = (STREAMS / "messages_claude_thinking_tools.sse").read_bytes()
        server.answers = [Answer(b"{}", 529, {"retry-after": "0"}), Answer(thinking), Answer(b'{"error": {}}', 400)]
        provider = create_provider("claude", api_key="sk-secret-1", base_url=server.url, model="claude-sonnet-5")
        agent = Agent(provider, registry(list), trace=twins.trace)
        agent.observers.append(twins.observe)
        with pytest.raises(NbagentError):
            await agent.chat("Look")
        await provider.aclose()

    async def wait(messages, functions):
        agent.provider = ScriptedProvider("never")
        task.cancel()
        await asyncio.sleep(60)

    agent.provider = ScriptedProvider(wait)
    task = asyncio.create_task(agent.chat("Wait"))
    with pytest.raises(asyncio.CancelledError):
        await task
    twins.check()
    assert twins.twin.runs["status"].tolist() == ["error", "interrupted"]
    assert len(twins.twin.http) == 3
    assert "sk-secret-1" not in "".join(twins.texts)


def test_errors_keep_their_class_text_and_attributes():
    error = ContextLengthError("too long", vendor="v", model="m", status=400, code="c", request_id="r")
    error.partial = object()
    read = event_from_json(event_to_json(Error("x", metadata={"run_id": "r"}, exception=error)))
    assert (type(read.exception), str(read.exception)) == (ContextLengthError, str(error))
    assert (read.exception.status, read.exception.retryable, read.exception.partial) == (400, False, None)
    read = event_from_json(event_to_json(Error("x", metadata={"run_id": "r"}, exception=ZeroDivisionError("by zero"))))
    assert (type(read.exception).__name__, str(read.exception)) == ("ZeroDivisionError", "by zero")
    assert isinstance(read.exception, NbagentError)
    assert event_from_json({"type": "from_the_future", "content": ""}) is None

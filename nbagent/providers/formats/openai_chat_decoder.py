"""Decoding chat completions, streamed or whole, in every known dialect.

Thinking comes as `reasoning_content`, `reasoning`, `reasoning_details`, content parts or `<think>` tags; tool calls
with missing, shared or repeated indexes, ids and names, in pieces or whole; images beside the text or among its parts;
usage in any chunk, or in several.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nbagent.core.events import Event, Text, Thinking, ToolCallDelta
from nbagent.core.messages import FunctionCall, LLMResponse, Usage, parse_arguments
from nbagent.errors import IncompleteStreamError, ServerError
from nbagent.providers.formats import DONE, error_in_answer, new_call_id, token_count
from nbagent.providers.formats.images import Pictures
from nbagent.providers.formats.think_tags import ThinkTags, split_missing_open

#: The vendors' words for why an answer ended. Words that are not here leave `finish_reason` None.
FINISH_REASONS = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
    "refusal": "refusal",
}
#: The vendor broke off: the answer is not whole, whatever was sent.
_BROKEN_OFF = {"error", "network_error", "insufficient_system_resource"}


class _Call:
    """A tool call in the making."""

    __slots__ = ("arguments", "extra_content", "id", "index", "key", "name")

    def __init__(self, index: int, key: Any) -> None:
        self.index = index
        self.key = key
        self.id = ""
        self.name = ""
        self.arguments = ""
        self.extra_content: Any = None

    @property
    def whole(self) -> bool:
        """The arguments are a complete JSON value already."""
        try:
            json.loads(self.arguments)
        except ValueError:
            return False
        return True


class ChatDecoder:
    """Decodes one answer."""

    def __init__(self, vendor: str) -> None:
        self.done = False
        self._vendor = vendor
        self._answered = False
        self._tags = ThinkTags()
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._native: dict[str, Any] = {}
        self._calls: list[_Call] = []
        self._pictures = Pictures()
        self._usage: dict[str, Any] = {}
        self._finish: str | None = None
        self._refusal = ""
        self._model: str | None = None
        self._id: str | None = None

    @property
    def complete(self) -> bool:
        """`[DONE]` or a finish reason was seen."""
        return self.done or self._finish is not None

    def feed(self, event: dict[str, Any]) -> list[Event]:
        """See `Decoder`."""
        if event is DONE:
            self.done = True
            return []
        if "done" in event:
            event = _from_ollama(event)
            self.done = event["done"]
        choices = event.get("choices")
        if not choices or "error" in event or "base_resp" in event:
            self._check(event)
        usage = event.get("usage")
        if usage or "x_groq" in event:
            self._take_usage(usage or (event["x_groq"] or {}).get("usage"))
        self._model = self._model or event.get("model")
        self._id = self._id or event.get("id")
        events: list[Event] = []
        for choice in choices or ():
            if not choice.get("index"):  # other choices can't have been asked for
                self._choice(choice, events)
        return events

    def finish(self) -> LLMResponse:
        """See `Decoder`."""
        if self._finish in _BROKEN_OFF:
            raise ServerError(f"the vendor broke off the answer ({self._finish})", should_retry=True)
        if not self.complete:
            raise IncompleteStreamError("the stream ended without a finish reason or [DONE]")
        if not self._answered:
            raise IncompleteStreamError("the answer has no choices")
        self._add(*self._tags.flush(), [])
        text, thinking = "".join(self._text), "".join(self._thinking)
        if "</" in text and not thinking:
            text, thinking = split_missing_open(text)
        calls = [self._function_call(call) for call in self._calls]
        return LLMResponse(
            content=text,
            function_calls=calls or None,
            finish_reason=FINISH_REASONS.get(self._finish or ""),
            metadata=self._metadata(thinking) | self._pictures.metadata(text),
            raw_response=self._raw_response(calls),
        )

    # what one event holds

    def _check(self, event: Mapping[str, Any]) -> None:
        """Raise for an error where an answer should be."""
        base = event.get("base_resp")
        if event.get("error") or event.get("object") == "error" or (base and base.get("status_code")):
            raise error_in_answer(event)

    def _choice(self, choice: Mapping[str, Any], events: list[Event]) -> None:
        delta = choice.get("delta")
        if delta is None and not self._answered:  # beside pieces, the message would say everything twice
            delta = choice.get("message")
        self._answered = True
        if choice.get("error"):
            raise error_in_answer(choice)
        if delta:
            self._reasoning(delta, events)
            if content := delta.get("content"):
                self._content(content, events)
            if images := delta.get("images"):
                self._images(images)
            for call in delta.get("tool_calls") or ():
                self._call_delta(call, events)
            if function := delta.get("function_call"):  # the form before tool_calls
                self._call_delta({"index": 0, "function": function}, events)
            if refusal := delta.get("refusal"):
                self._refusal += refusal
                self._add(refusal, "", events)
        if choice.get("usage"):
            self._take_usage(choice["usage"])
        if finish := choice.get("finish_reason"):
            self._finish = finish

    def _reasoning(self, delta: Mapping[str, Any], events: list[Event]) -> None:
        """The same thinking may come in several fields at once: one is shown, each is kept for replay."""
        shown = ""
        for key in ("reasoning_content", "reasoning"):
            piece = delta.get(key)
            if piece and isinstance(piece, str):
                self._native[key] = self._native.get(key, "") + piece
                shown = shown or piece
        if details := delta.get("reasoning_details"):
            _merge_details(self._native.setdefault("reasoning_details", []), details)
            shown = shown or "".join(item.get("text") or item.get("summary") or "" for item in details)
        if shown:
            self._thinking.append(shown)
            events.append(Thinking(shown))

    def _content(self, content: str | list[Any], events: list[Event]) -> None:
        if isinstance(content, str):
            if self._tags.seeking:
                self._add(*self._tags.feed(content), events)
            else:
                self._text.append(content)
                events.append(Text(content))
            return
        for part in content:
            if isinstance(part, str):
                self._content(part, events)
            elif part.get("type") == "thinking":
                self._add("", _flat(part.get("thinking")), events)
            elif part.get("type") == "image_url":
                self._images([part])
            elif text := part.get("text"):
                self._add(_flat(text), "", events)

    def _images(self, images: list[Any]) -> None:
        """Images that the model made: kept as they came, and shown where they came."""
        kept = self._native.setdefault("images", [])
        for image in images:
            if image not in kept:
                kept.append(image)
                self._pictures.add(sum(map(len, self._text)), (image.get("image_url") or {}).get("url"))

    def _add(self, text: str, thinking: str, events: list[Event]) -> None:
        if thinking:
            self._thinking.append(thinking)
            events.append(Thinking(thinking))
        if text:
            self._text.append(text)
            events.append(Text(text))

    def _call_delta(self, delta: Mapping[str, Any], events: list[Event]) -> None:
        function = delta.get("function") or {}
        call = self._slot(delta.get("index"), delta.get("id") or "", function.get("name") or "")
        piece = function.get("arguments")
        if piece is None:
            piece = ""
        elif not isinstance(piece, str):
            piece = json.dumps(piece)
        call.arguments += piece
        call.extra_content = delta.get("extra_content") or call.extra_content
        events.append(ToolCallDelta(piece, call.name or None, metadata={"index": call.index}))

    def _slot(self, key: Any, call_id: str, name: str) -> _Call:
        """The call that a delta belongs to: by index; without one, by id; else the last. See `_begins_another`."""
        if key is not None:
            call = next((call for call in reversed(self._calls) if call.key == key), None)
        elif call_id:
            call = next((call for call in self._calls if call.id == call_id), None)
        else:
            call = self._calls[-1] if self._calls else None
        if call is None or _begins_another(call, call_id, name):
            call = _Call(len(self._calls), key)
            self._calls.append(call)
        call.id = call.id or call_id
        call.name = call.name or name
        return call

    def _take_usage(self, usage: Any) -> None:
        """Usage is cumulative: later numbers replace earlier ones."""
        if isinstance(usage, dict):
            self._usage |= {key: value for key, value in usage.items() if value is not None}

    # what the answer is made of

    def _function_call(self, call: _Call) -> FunctionCall:
        """A call that the token limit cut before its arguments has unreadable ones, not none."""
        arguments, raw = parse_arguments(call.arguments)
        if FINISH_REASONS.get(self._finish or "") == "length" and call is self._calls[-1] and not call.arguments:
            raw = ""
        call.id = call.id or new_call_id()
        return FunctionCall(call.name, arguments, call.id, raw)

    def _raw_response(self, calls: list[FunctionCall]) -> dict[str, Any]:
        signed = {call.id: call.extra_content for call in self._calls if call.extra_content}
        return {"vendor": self._vendor, **self._native, **({"extra_content": signed} if signed else {})}

    def _metadata(self, thinking: str) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "usage": usage_of(self._usage),
            "usage_raw": self._usage,
            "finish_reason_raw": self._finish,
            "model": self._model,
            "response_id": self._id,
        }
        if thinking:
            metadata["thinking"] = thinking
        if self._refusal:
            metadata["refusal"] = self._refusal
        return metadata


def _from_ollama(line: dict[str, Any]) -> dict[str, Any]:
    """A line of Ollama's own `/api/chat`, which proxies before it may answer with, as a chunk.

    Format: https://docs.ollama.com/api/chat
    """
    message = line.get("message")
    if not isinstance(message, dict):
        return line
    delta = {**message, "reasoning": message.get("thinking")}
    usage = {"prompt_tokens": line.get("prompt_eval_count"), "completion_tokens": line.get("eval_count")}
    return {**line, "choices": [{"delta": delta, "finish_reason": line.get("done_reason")}], "usage": usage}


def _begins_another(call: _Call, call_id: str, name: str) -> bool:
    """Whether a delta on a used index is a call of its own.

    Some servers give all calls index 0; others repeat the name in every delta, or make a new id for each. So a call is
    new when it is named and either has another id, or has none while the arguments before it are already whole.
    """
    if not name or not call.name:
        return False
    if call_id and call.id:
        return call_id != call.id
    return call.whole


def _merge_details(kept: list[dict[str, Any]], details: list[Any]) -> None:
    """Join the pieces of OpenRouter's reasoning_details: text grows within one index and type, the rest overwrites."""
    for item in details:
        if not isinstance(item, dict):
            continue
        last = kept[-1] if kept else None
        if last and all(last.get(key) == item.get(key) for key in ("type", "index")) and "data" not in item:
            for key, value in item.items():
                if key in ("text", "summary") and value:
                    last[key] = (last.get(key) or "") + value
                elif value is not None:
                    last[key] = value
        else:
            kept.append(dict(item))


def _flat(value: Any) -> str:
    """The text of a string or of a list of text parts."""
    if isinstance(value, str):
        return value
    return "".join(_flat(item.get("text")) for item in value or () if isinstance(item, dict))


def usage_of(raw: Mapping[str, Any]) -> Usage:
    """Token counts from any dialect's usage object; zeros for what is missing."""
    prompt = raw.get("prompt_tokens_details") or raw.get("input_tokens_details") or {}
    completion = raw.get("completion_tokens_details") or raw.get("output_tokens_details") or {}
    return Usage(
        input_tokens=token_count(raw.get("prompt_tokens"), raw.get("input_tokens")),
        output_tokens=token_count(raw.get("completion_tokens"), raw.get("output_tokens")),
        cache_read_tokens=token_count(
            prompt.get("cached_tokens"), raw.get("prompt_cache_hit_tokens"), raw.get("cached_tokens")
        ),
        cache_write_tokens=token_count(prompt.get("cache_write_tokens"), prompt.get("cache_creation_input_tokens")),
        reasoning_tokens=token_count(completion.get("reasoning_tokens"), raw.get("reasoning_tokens")),
    )

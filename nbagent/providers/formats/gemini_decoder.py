"""Decoding `generateContent`, streamed or whole. The parts are kept as they came, to be sent back unread."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from nbagent.core.events import Event, Text, Thinking, ToolCallDelta
from nbagent.core.messages import FunctionCall, LLMResponse, Usage, parse_arguments
from nbagent.errors import IncompleteStreamError, ServerError
from nbagent.providers.formats import DONE, error_in_answer, new_call_id, token_count
from nbagent.providers.formats.images import Pictures

#: How the ids begin that are made here, for calls that came without one. Gemini never sees them.
MADE_ID = "gemini_call_"
#: https://ai.google.dev/api/generate-content#FinishReason; numbers come with `enum-encoding=int`. STOP ends a turn with
#: calls too. Words that are not here leave `finish_reason` None.
FINISH_REASONS: dict[Any, str] = {
    "STOP": "stop",
    1: "stop",
    "MAX_TOKENS": "length",
    2: "length",
    3: "content_filter",
    4: "content_filter",
    **dict.fromkeys(
        [
            "SAFETY",
            "RECITATION",
            "LANGUAGE",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "MODEL_ARMOR",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
        ],
        "content_filter",
    ),
}
#: The model garbled its answer, which is left out: there is nothing to go on with.
_GARBLED = {"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"}
_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\[(?:'([^']*)'|"([^"]*)")\]""")


class GeminiDecoder:
    """Decodes one answer."""

    def __init__(self, vendor: str) -> None:
        self.done = False
        self._vendor = vendor
        self._parts: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []  # those of the parts that hold one
        self._open: dict[str, Any] | None = None  # the call whose arguments still come in pieces
        self._plain: list[str] = []  # pieces of text not yet in a part
        self._text: list[str] = []
        self._pictures = Pictures()
        self._thinking: list[str] = []
        self._finish: Any = None
        self._blocked: Any = None
        self._explanation = ""
        self._usage: dict[str, Any] = {}
        self._model: str | None = None
        self._id: str | None = None

    @property
    def complete(self) -> bool:
        """A finish reason was seen, or the word that the prompt was blocked. More text may follow a finish reason."""
        return self._finish is not None or self._blocked is not None

    def feed(self, event: dict[str, Any]) -> list[Event]:
        """See `Decoder`."""
        if event is DONE:  # from gateways
            self.done = True
            return []
        if event.get("error"):
            raise error_in_answer(event)
        self._usage |= {key: value for key, value in (event.get("usageMetadata") or {}).items() if value is not None}
        self._model = event.get("modelVersion") or self._model
        self._id = event.get("responseId") or self._id
        if feedback := event.get("promptFeedback"):  # which may come with ratings only
            self._blocked = feedback.get("blockReason", self._blocked)
            self._explanation = feedback.get("blockReasonMessage") or self._explanation
        events: list[Event] = []
        for candidate in event.get("candidates") or ():
            if not candidate.get("index"):  # other candidates can't have been asked for
                self._candidate(candidate, events)
        return events

    def finish(self) -> LLMResponse:
        """See `Decoder`."""
        if self._finish in _GARBLED:
            reason = ": ".join(filter(None, (self._finish, self._explanation)))
            raise ServerError(f"the model garbled its answer ({reason})", should_retry=True)
        if not self.complete:
            raise IncompleteStreamError("the stream ended without a finishReason")
        self._flush()
        calls = [self._function_call(part) for part in self._calls]
        text = "".join(self._text)
        return LLMResponse(
            content=text,
            function_calls=calls or None,
            finish_reason="content_filter" if self._finish is None else FINISH_REASONS.get(self._finish),
            metadata=self._metadata() | self._pictures.metadata(text),
            raw_response={"vendor": self._vendor, "parts": self._parts},
        )

    # what one event holds

    def _candidate(self, candidate: Mapping[str, Any], events: list[Event]) -> None:
        for part in (candidate.get("content") or {}).get("parts") or ():
            if "functionCall" in part:
                self._call(part, events)
            elif part.get("thought"):
                self._thought(part, events)
            else:
                self._said(part, events)
        if candidate.get("finishReason"):
            self._finish = candidate["finishReason"]
            self._explanation = candidate.get("finishMessage") or self._explanation

    def _said(self, part: dict[str, Any], events: list[Event]) -> None:
        """Text or an image. Pieces of text become one part, but none is ever joined with a part that has more."""
        if inline := part.get("inlineData"):
            self._pictures.add(sum(map(len, self._text)), inline.get("data"))
        if text := part.get("text"):
            self._text.append(text)
            events.append(Text(text))
        if part.keys() - {"text", "thought"}:
            self._keep(part)
        elif text:
            self._plain.append(text)

    def _thought(self, part: dict[str, Any], events: list[Event]) -> None:
        """Thinking. It is not sent back, but for a part that carries a signature."""
        if text := part.get("text"):
            self._thinking.append(text)
            events.append(Thinking(text))
        if part.get("thoughtSignature"):
            self._keep(part)

    def _call(self, part: dict[str, Any], events: list[Event]) -> None:
        """A call comes whole; or, if that was asked for, its name first and then values by their paths."""
        piece = part["functionCall"]
        if self._open is None or piece.get("name"):
            if piece.get("willContinue") or "partialArgs" in piece:
                known = {key: piece[key] for key in ("id", "name") if key in piece}
                part = {**part, "functionCall": {**known, "args": {}}}
            self._keep(part)
            self._calls.append(part)
            self._open = part
        call = self._open["functionCall"]
        for value in piece.get("partialArgs") or ():
            _put(call["args"], value)
        if not piece.get("willContinue"):
            self._open = None
            text = json.dumps(call.get("args") or {}, ensure_ascii=False)
            events.append(ToolCallDelta(text, call.get("name"), metadata={"index": len(self._calls) - 1}))

    def _keep(self, part: dict[str, Any]) -> None:
        self._flush()
        self._parts.append(part)

    def _flush(self) -> None:
        if self._plain:
            self._parts.append({"text": "".join(self._plain)})
            self._plain = []

    # what the answer is made of

    def _function_call(self, part: dict[str, Any]) -> FunctionCall:
        """A call whose arguments never came to their end has unreadable ones."""
        call = part["functionCall"]
        arguments, raw = parse_arguments(call.get("args"))
        if part is self._open:
            arguments, raw = {}, json.dumps(arguments)
        return FunctionCall(call.get("name") or "", arguments, call.get("id") or new_call_id(MADE_ID), raw)

    def _metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "usage": usage_of(self._usage),
            "usage_raw": self._usage,
            "finish_reason_raw": self._blocked if self._finish is None else self._finish,
            "model": self._model,
            "response_id": self._id,
        }
        if self._thinking:
            metadata["thinking"] = "".join(self._thinking)
        if self._explanation:
            metadata["stop_details"] = self._explanation
        return metadata


def _put(args: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Put one value where its path says; text that is there already grows.

    >>> args = {}
    >>> _put(args, {"jsonPath": "$.stops[0].city", "stringValue": "Ber", "willContinue": True})
    >>> _put(args, {"jsonPath": "$.stops[0].city", "stringValue": "lin"})
    >>> args
    {'stops': [{'city': 'Berlin'}]}
    """
    steps = [int(n) if n else name or single or double for name, n, single, double in _STEP.findall(piece["jsonPath"])]
    node: Any = args
    for step, following in pairwise(steps):
        node = _slot(node, step, [] if isinstance(following, int) else {})
    values = [piece[key] for key in ("stringValue", "numberValue", "boolValue") if key in piece]
    value = values[0] if values else None
    before = _slot(node, steps[-1], None)
    node[steps[-1]] = before + value if isinstance(before, str) and isinstance(value, str) else value


def _slot(node: Any, step: str | int, empty: Any) -> Any:
    """What is at one step of a path, `empty` put there before if nothing was."""
    if isinstance(step, int):
        node.extend([None] * (step + 1 - len(node)))
        node[step] = empty if node[step] is None else node[step]
    else:
        node.setdefault(step, empty)
    return node[step]


def usage_of(raw: Mapping[str, Any]) -> Usage:
    """Token counts of a `usageMetadata`, which counts thinking beside the candidates.

    What Google's own tools gave the model to read (`toolUsePromptTokenCount`) is no part of the prompt and not counted
    here; it is kept in `usage_raw`, and `pricing.price` charges it as the input that it is billed as.
    """
    thoughts = token_count(raw.get("thoughtsTokenCount"))
    return Usage(
        input_tokens=token_count(raw.get("promptTokenCount")),
        output_tokens=token_count(raw.get("candidatesTokenCount")) + thoughts,
        cache_read_tokens=token_count(raw.get("cachedContentTokenCount")),
        reasoning_tokens=thoughts,
    )

"""The Messages API as Claude and MiniMax answer it; `anthropic_messages_rules` holds what they refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from support.dialects.anthropic_messages_rules import check_conversation, check_head
from support.dialects.base import Asked, Dialect, bearer, parsed, require
from support.dialects.script import Call, Reply, Said
from support.loopback import Request

WORDS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "refusal": "refusal"}
WORDS["pause"] = "pause_turn"
TEXTS = {
    "key": "invalid x-api-key",
    "rate_limit": "This request would exceed your account's rate limit. Please try again later.",
    "overloaded": "Overloaded",
    "context": "prompt is too long: 210000 tokens > 200000 maximum",
}
_TYPES = {"invalid": "invalid_request_error", "key": "authentication_error", "missing": "not_found_error"}
_TYPES |= {"rate_limit": "rate_limit_error", "overloaded": "overloaded_error", "context": "invalid_request_error"}
_MARK = re.compile(rb',"cache_control":\{[^}]*\}')


@dataclass(frozen=True)
class MessagesDialect(Dialect):
    """Anthropic Messages as one vendor speaks it."""

    #: Thinking has a signature, and is refused without it.
    signed: bool = True
    #: Prefixes of models that refuse a temperature; whether 0 is none.
    cool: tuple[str, ...] = ("claude-opus-5", "claude-sonnet-5", "claude-opus-4-7", "claude-opus-4-8", "claude-fable")
    zero_refused: bool = False
    id_pattern: str = "[a-zA-Z0-9_-]+"
    texts: Mapping[str, str] = field(default_factory=lambda: TEXTS)
    words: Mapping[str, str] = field(default_factory=lambda: WORDS)

    extra: ClassVar[tuple[str, Any]] = ("metadata", {"user_id": "u1"})
    counts_written: ClassVar[bool] = True

    @property
    def takes_temperature(self) -> bool:  # type: ignore[override]
        return not self.cool

    @property
    def least_temperature(self) -> float:  # type: ignore[override]
        return 0.01 if self.zero_refused else 0.0

    # ------------------------------------------------------------------ the answer

    def beginning(self, reply: Reply, asked: Asked) -> list[Any]:
        """Each block with its start, its pieces and its stop; token counts come at the start and in between."""
        message = {**self._message(asked), "content": [], "stop_reason": None, "usage": self._usage(reply, 1)}
        events: list[Any] = [{"type": "message_start", "message": message}, {"type": "ping"}]
        for index, part in enumerate(reply.parts):
            events.append({"type": "content_block_start", "index": index, "content_block": self._opened(part)})
            pieces = self._deltas(part)
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in pieces]
            events.append({"type": "content_block_stop", "index": index})
        if reply.finish == "length" and reply.calls:
            del events[-1]  # the limit cuts the last block
        return events

    def ending(self, reply: Reply, asked: Asked) -> list[Any]:
        """The token counts so far, then the final ones; all are totals."""
        delta = {"stop_reason": self._word(reply), "stop_sequence": None}
        return [
            {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 2}},
            {"type": "message_delta", "delta": delta, "usage": self._usage(reply, reply.counts.output)},
            {"type": "message_stop"},
        ]

    def whole(self, reply: Reply, asked: Asked) -> dict[str, Any]:
        """One body with all blocks."""
        ending = {"stop_reason": self._word(reply), "usage": self._usage(reply, reply.counts.output)}
        return {**self._message(asked), "content": [self._block_of(part) for part in reply.parts], **ending}

    def issued(self, reply: Reply, asked: Asked) -> Any:
        """The blocks, all of which have to come back."""
        return [block for block in self.whole(reply, asked)["content"] if block.get("text") != ""]

    def error_event(self) -> Any:
        return self.error_body("overloaded", self.texts["overloaded"])

    def noise(self) -> list[Any]:
        """Pings, an event and a delta of new kinds."""
        return [{"type": "ping"}, {"type": "content_block_dream", "index": 0, "dream": "sheep"}]

    def error_body(self, kind: str, message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": _TYPES[kind], "message": message}, "request_id": "req_1"}

    def status(self, kind: str) -> int:
        return 529 if kind == "overloaded" else super().status(kind)

    def _word(self, reply: Reply) -> str:
        return reply.word or self.words[reply.finish]

    def _message(self, asked: Asked) -> dict[str, Any]:
        return {"id": "msg_1", "type": "message", "role": "assistant", "model": asked.model, "stop_sequence": None}

    def _block_of(self, part: Any) -> dict[str, Any]:
        """A whole block, without the arguments that the token limit cut off."""
        if isinstance(part, Said):
            return {"type": "text", "text": part.text}
        if not isinstance(part, Call):
            signature = {"signature": part.signature} if self.signed else {}
            return {"type": "thinking", "thinking": part.text, **signature}
        try:
            arguments = json.loads(part.arguments or "{}")
        except ValueError:
            arguments = {}
        return {"type": "tool_use", **({"id": part.id} if part.id else {}), "name": part.name, "input": arguments}

    def _opened(self, part: Any) -> dict[str, Any]:
        empty = {"text": {"text": ""}, "thinking": {"thinking": ""}, "tool_use": {"input": {}}}
        block = self._block_of(part)
        signature = {"signature": ""} if "signature" in block else {}
        return block | empty[block["type"]] | signature

    def _deltas(self, part: Any) -> list[dict[str, Any]]:
        if isinstance(part, Said):
            return [{"type": "text_delta", "text": piece} for piece in part.pieces]
        if isinstance(part, Call):
            return [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *part.pieces)]
        signature = [{"type": "signature_delta", "signature": part.signature}] if self.signed else []
        return [*({"type": "thinking_delta", "thinking": piece} for piece in part.pieces), *signature]

    def _usage(self, reply: Reply, output: int) -> dict[str, Any]:
        """Input does not count cached tokens."""
        counts = reply.counts
        return {
            "input_tokens": counts.input - counts.cached - counts.written,
            "cache_read_input_tokens": counts.cached,
            "cache_creation_input_tokens": counts.written,
            "output_tokens": output,
            "output_tokens_details": {"thinking_tokens": counts.reasoning},
        }

    # ------------------------------------------------------------------ the request

    def key(self, headers: Mapping[str, str]) -> str | None:
        return headers.get("x-api-key") or bearer(headers)

    def read(self, request: Request) -> Asked:
        """The system prompt is a field of its own."""
        require(request.path == "/v1/messages", "Not Found", "missing")
        require("anthropic-version" in request.headers, "anthropic-version: header is required")
        body = parsed(request)
        turns = body.get("messages")
        require(isinstance(turns, list) and turns, "messages: at least one message is required")
        blocks = [block for turn in turns if isinstance(turn["content"], list) for block in turn["content"]]
        inner = [block["content"] for block in blocks if isinstance(block.get("content"), list)]
        pictures = [block for block in sum(inner, blocks) if block.get("type") == "image"]
        return Asked(
            raw=request.body,
            body=body,
            stream=body.get("stream") is True,
            model=str(body.get("model", "")),
            turns=turns,
            system="".join(block["text"] for block in body.get("system", ())),
            limit=body.get("max_tokens"),
            temperature=body.get("temperature"),
            images=[block["source"]["data"] for block in pictures],
        )

    def check(self, asked: Asked, issued: Sequence[Any]) -> None:
        check_head(self, asked)
        check_conversation(self, asked.turns, issued)

    def without_marks(self, raw: bytes) -> bytes:
        return _MARK.sub(b"", raw)

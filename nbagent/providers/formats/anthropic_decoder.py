"""Decoding Anthropic Messages, streamed or whole. The content blocks are kept as they came, to be sent back unread."""

from __future__ import annotations

from typing import Any

from nbagent.core.events import Event, Text, Thinking, ToolCallDelta
from nbagent.core.messages import FunctionCall, LLMResponse, Usage, parse_arguments
from nbagent.errors import IncompleteStreamError, InvalidResponseError
from nbagent.providers.formats import error_in_answer, new_call_id, token_count

#: https://docs.anthropic.com/en/api/handling-stop-reasons
FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "pause",
    "refusal": "refusal",
}


class MessagesDecoder:
    """Decodes one answer."""

    def __init__(self, vendor: str) -> None:
        self.done = False
        self._vendor = vendor
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        #: Pieces of the growing fields, by block and field: joined once, at the end.
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._usage: dict[str, Any] = {}

    @property
    def complete(self) -> bool:
        """`message_stop` was seen."""
        return self.done

    def feed(self, event: dict[str, Any]) -> list[Event]:
        """See `Decoder`. Events of unknown types are ignored."""
        kind = event.get("type")
        if kind == "content_block_delta":
            return self._delta(event["index"], event["delta"])
        if kind == "content_block_start":
            return self._start(event["index"], event["content_block"])
        if kind == "message_start":
            self._message |= event["message"]
            self._take_usage(event["message"].get("usage"))
        elif kind == "message_delta":
            self._message |= {key: value for key, value in event["delta"].items() if value is not None}
            self._take_usage(event.get("usage"))
        elif kind == "message_stop":
            self.done = True
        elif kind == "error" or event.get("error"):
            raise error_in_answer(event)
        return []

    def feed_body(self, body: dict[str, Any]) -> None:
        """A whole answer in one JSON body."""
        if body.get("type") == "error" or body.get("error") or (body.get("base_resp") or {}).get("status_code"):
            raise error_in_answer(body)
        if not isinstance(body.get("content"), list):
            raise InvalidResponseError("the answer has no content")
        self._message |= body
        self._take_usage(body.get("usage"))
        self._blocks = {index: dict(block) for index, block in enumerate(body["content"])}
        self.done = True

    def finish(self) -> LLMResponse:
        """See `Decoder`."""
        if not self.done:
            raise IncompleteStreamError("the stream ended without message_stop")
        blocks = self._whole_blocks()
        reason = self._message.get("stop_reason")
        uses = [block for block in blocks if block.get("type") == "tool_use"]
        calls = [self._function_call(block, reason == "max_tokens" and block is blocks[-1]) for block in uses]
        return LLMResponse(
            content="".join(block.get("text") or "" for block in blocks if block.get("type") == "text"),
            function_calls=calls or None,
            finish_reason=FINISH_REASONS.get(reason or ""),
            metadata=self._metadata(blocks, reason),
            raw_response={"vendor": self._vendor, "blocks": blocks},
        )

    def _start(self, index: int, block: dict[str, Any]) -> list[Event]:
        """A block begins; what it holds already is shown as its first piece."""
        self._blocks[index] = dict(block)
        kind = block.get("type")
        if kind == "text" and block.get("text"):
            return [Text(block["text"])]
        if kind == "thinking" and block.get("thinking"):
            return [Thinking(block["thinking"])]
        if kind == "tool_use":
            return [ToolCallDelta("", block.get("name"), metadata={"index": index})]
        return []

    def _delta(self, index: int, delta: dict[str, Any]) -> list[Event]:
        kind = delta.get("type", "")
        if kind == "text_delta":
            self._grow(index, "text", delta["text"])
            return [Text(delta["text"])]
        if kind == "thinking_delta":
            self._grow(index, "thinking", delta["thinking"])
            return [Thinking(delta["thinking"])] if delta["thinking"] else []
        if kind == "input_json_delta":
            self._grow(index, "input", delta["partial_json"])
            block = self._blocks[index]
            if block.get("type") == "tool_use":
                return [ToolCallDelta(delta["partial_json"], block.get("name"), metadata={"index": index})]
        elif kind == "citations_delta":
            block = self._blocks[index]
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        elif kind == "signature_delta":
            self._grow(index, "signature", delta["signature"])
        elif kind.endswith("_delta"):  # such as compaction_delta: fields that replace what was there
            self._blocks[index] |= {key: value for key, value in delta.items() if key != "type"}
        return []

    def _grow(self, index: int, name: str, piece: str) -> None:
        self._pieces.setdefault((index, name), []).append(piece)

    def _take_usage(self, usage: Any) -> None:
        """Usage is cumulative: later numbers replace earlier ones."""
        if isinstance(usage, dict):
            self._usage |= {key: value for key, value in usage.items() if value is not None}

    def _whole_blocks(self) -> list[dict[str, Any]]:
        """The blocks with their pieces joined. A tool call's input is still text then: see `_function_call`."""
        for (index, name), pieces in self._pieces.items():
            if name != "input":  # from gateways that leave out where a block starts
                self._blocks.setdefault(index, {"type": "text" if name == "text" else "thinking"})
            block = self._blocks[index]
            text = "".join(pieces)
            if name != "input":
                block[name] = (block.get(name) or "") + text
            elif text:
                block["input"] = text if block.get("type") == "tool_use" else parse_arguments(text)[0]
        return [self._blocks[index] for index in sorted(self._blocks)]

    def _function_call(self, block: dict[str, Any], cut: bool) -> FunctionCall:
        """A call out of its block; the block gets the same arguments, since it is sent back.

        A call that the token limit cut before its arguments has unreadable ones, not none.
        """
        arguments, raw = parse_arguments(block.get("input"))
        if cut and not arguments:
            raw = raw or ""
        block["input"] = arguments
        block["id"] = block.get("id") or new_call_id()
        return FunctionCall(block.get("name") or "", arguments, block["id"], raw)

    def _metadata(self, blocks: list[dict[str, Any]], reason: str | None) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "usage": usage_of(self._usage),
            "usage_raw": self._usage,
            "finish_reason_raw": reason,
            "model": self._message.get("model"),
            "response_id": self._message.get("id"),
        }
        if thinking := "".join(block.get("thinking") or "" for block in blocks if block.get("type") == "thinking"):
            metadata["thinking"] = thinking
        if details := self._message.get("stop_details"):
            metadata["stop_details"] = details
        return metadata


def usage_of(raw: dict[str, Any]) -> Usage:
    """Token counts of a Messages usage object, whose `input_tokens` leaves cached tokens out."""
    read = token_count(raw.get("cache_read_input_tokens"))
    written = token_count(raw.get("cache_creation_input_tokens"))
    details = raw.get("output_tokens_details") or {}
    return Usage(
        input_tokens=token_count(raw.get("input_tokens")) + read + written,
        output_tokens=token_count(raw.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=token_count(details.get("thinking_tokens")),
    )

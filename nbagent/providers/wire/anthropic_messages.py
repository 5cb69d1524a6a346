"""The Anthropic Messages format, as Claude and MiniMax speak it.

An assistant's content blocks go back to the same vendor as they came, thinking and signatures included; a conversation
from elsewhere is rebuilt from its text and calls. Format: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.providers.catalog import Row
from nbagent.providers.wire import Functions, dumps, fitting_id, fitting_name, join_request
from nbagent.providers.wire.anthropic_messages_decoder import MessagesDecoder
from nbagent.providers.wire.refused import Changes
from nbagent.providers.wire.turns import Turn, turns_of

_BREAKPOINT = {"type": "ephemeral"}
_BREAKPOINT_TAIL = b',"cache_control":' + dumps(_BREAKPOINT) + b"}"


@dataclass(frozen=True)
class MessagesCodec:
    """Anthropic Messages with one vendor's facts."""

    row: Row
    _key: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_key", f"anthropic_messages {(self.row.name, self.row.unsigned_thinking)}")

    #: See `Codec`.
    models_path: ClassVar[str] = "/v1/models?limit=1000"

    def path(self, model: str, stream: bool) -> str:
        """See `Codec`."""
        return "/v1/messages"

    def encode_message(self, message: LLMMessage) -> bytes:
        """The content blocks of one message, joined by commas; empty where there is nothing to say."""
        fragment: bytes | None = message.wire.get(self._key)
        if fragment is None:
            fragment = message.wire[self._key] = b",".join(dumps(block) for block in self._blocks(message))
        return fragment

    def encode_request(
        self,
        messages: Sequence[LLMMessage],
        functions: Functions | None = None,
        *,
        model: str,
        stream: bool = True,
        temperature: float | None = None,
        extra: Mapping[str, Any] | None = None,
        changes: Changes | None = None,
    ) -> bytes:
        """See `Codec`."""
        system = "\n\n".join(message.text for message in messages if message.role == "system" and message.content)
        head = self._head(functions, system, model, stream, temperature, extra or {})
        turns = turns_of(messages, self.encode_message)
        marked = set([turn for turn in turns if turn.role == "user"][-2:]) if self.row.cache else set()
        return join_request(head, [_encode(turn, turn in marked) for turn in turns], changes=changes)

    def decoder(self) -> MessagesDecoder:
        """See `Codec`."""
        return MessagesDecoder(self.row.name)

    def decode_body(self, body: dict[str, Any]) -> LLMResponse:
        """A whole answer is what a stream's events add up to."""
        decoder = self.decoder()
        decoder.feed_body(body)
        return decoder.finish()

    def _head(
        self,
        functions: Functions | None,
        system: str,
        model: str,
        stream: bool,
        temperature: float | None,
        extra: Mapping[str, Any],
    ) -> dict[str, Any]:
        """All but the messages. Breakpoints: one on the last tool, one on the system prompt, two on user turns."""
        row = self.row
        mark = {"cache_control": _BREAKPOINT} if row.cache else {}
        head: dict[str, Any] = {"model": model, "stream": stream, **row.body}
        if temperature is not None and not model.startswith(row.no_temperature or ("\0",)):
            head["temperature"] = temperature
        if functions:
            tools = [_tool(item) for item in functions]
            tools[-1] |= mark
            head |= {"tools": tools, **row.tools_body}
        if system:
            head["system"] = [{"type": "text", "text": system, **mark}]
        head |= extra
        if head.get("temperature") is not None:
            head["temperature"] = max(head["temperature"], row.min_temperature)
        return head

    def _blocks(self, message: LLMMessage) -> list[dict[str, Any]]:
        if message.role == "tool":
            return [_tool_result(message, self.row)]
        if message.role == "assistant":
            return self._assistant(message)
        return _content(message.content)

    def _assistant(self, message: LLMMessage) -> list[dict[str, Any]]:
        """The blocks as received, where they still say what the message says; else text and calls."""
        extras = message.provider_extras
        if isinstance(extras, dict) and extras.get("vendor") == self.row.name and _agree(extras["blocks"], message):
            return [self._with_fitting_id(block) for block in extras["blocks"] if self._sendable(block)]
        calls = message.tool_calls or []
        uses = [
            {"type": "tool_use", "id": call.id, "name": fitting_name(call.name), "input": call.arguments}
            for call in calls
        ]
        return _content(message.text) + [self._with_fitting_id(use) for use in uses]

    def _with_fitting_id(self, block: dict[str, Any]) -> dict[str, Any]:
        """Only a server that is not the vendor's own gives calls ids that the vendor would refuse."""
        if block.get("type") != "tool_use" or (fitting := fitting_id(block.get("id"), self.row.call_id)) == block["id"]:
            return block
        return block | {"id": fitting}

    def _sendable(self, block: Mapping[str, Any]) -> bool:
        """The API refuses empty texts, and Claude thinking without its signature."""
        if block.get("type") == "text":
            return bool(block.get("text", "").strip())
        if block.get("type") == "thinking" and not block.get("signature"):
            return self.row.unsigned_thinking and bool(block.get("thinking"))
        return True


def _encode(turn: Turn, breakpoint_here: bool) -> bytes:
    """One turn is one message of the API."""
    fragments = turn.fragments
    if breakpoint_here:
        fragments[-1] = fragments[-1][:-1] + _BREAKPOINT_TAIL
    return b'{"role":"' + turn.role.encode() + b'","content":[' + b",".join(fragments) + b"]}"


def _agree(blocks: Sequence[Mapping[str, Any]], message: LLMMessage) -> bool:
    """Whether the native blocks still match a message whose text or calls may have been edited."""
    text = "".join(block.get("text", "") for block in blocks if block.get("type") == "text")
    uses = [(b.get("id"), b.get("name"), b.get("input")) for b in blocks if b.get("type") == "tool_use"]
    calls = [(call.id, call.name, call.arguments) for call in message.tool_calls or []]
    return text == message.text and uses == calls


def _content(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Content blocks of a user's text or parts; parts of a kind we don't know pass as they are."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return [_image(p) if p.get("type") == "image" and "data" in p else dict(p) for p in content if not _empty(p)]


def _empty(part: Mapping[str, Any]) -> bool:
    return part.get("type") == "text" and not part.get("text", "").strip()


def _image(part: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": part["media_type"], "data": part["data"]}}


def _tool_result(message: LLMMessage, row: Row) -> dict[str, Any]:
    call_id = fitting_id(message.tool_call_id, row.call_id)
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
    if content := _content(message.content):
        block["content"] = message.content if isinstance(message.content, str) else content
    return block | ({"is_error": True} if message.is_error else {})


def _tool(item: Mapping[str, Any]) -> dict[str, Any]:
    tool = {key: item[key] for key in ("name", "description") if item.get(key)}
    return tool | {"input_schema": item.get("parameters") or {"type": "object", "properties": {}}}

"""The OpenAI chat-completions format, as OpenAI and everybody else speaks it.

Encoding follows a catalog row. Decoding is universal: every known dialect is read under any vendor's name.
Format: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.providers.catalog import Row
from nbagent.providers.wire import DONE, Functions, dumps, join_request
from nbagent.providers.wire.openai_chat_decoder import ChatDecoder
from nbagent.providers.wire.refused import Changes

_IMAGES_NOTE = "Images returned by the tools above:"


@dataclass(frozen=True)
class ChatCodec:
    """Chat completions with one vendor's facts."""

    row: Row
    #: Where a message keeps its encoded form: one per vendor and per way of replaying.
    _key: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        facts = (self.row.name, self.row.replay, self.row.replay_always)
        object.__setattr__(self, "_key", f"openai_chat {facts}")

    #: See `Codec`.
    models_path: ClassVar[str] = "/models"

    def path(self, model: str, stream: bool) -> str:
        """See `Codec`."""
        return "/chat/completions"

    def encode_message(self, message: LLMMessage) -> bytes:
        """One message; images of a tool's result come in a message of their own (`encode_request` places it)."""
        fragment: bytes | None = message.wire.get(self._key)
        if fragment is None:
            fragment = message.wire[self._key] = dumps(self._message(message))
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
        head = self._head(functions, model, stream, temperature, extra or {})
        return join_request(head, self._fragments(messages), changes=changes)

    def decoder(self) -> ChatDecoder:
        """See `Codec`."""
        return ChatDecoder(self.row.name)

    def decode_body(self, body: dict[str, Any]) -> LLMResponse:
        """A whole answer is a stream of one chunk."""
        decoder = self.decoder()
        decoder.feed(body)
        if body.get("done", True):  # not a lone line of Ollama's
            decoder.feed(DONE)
        return decoder.finish()

    def _head(
        self, functions: Functions | None, model: str, stream: bool, temperature: float | None, extra: Mapping[str, Any]
    ) -> dict[str, Any]:
        row = self.row
        head: dict[str, Any] = {"model": model, "stream": stream, **row.body}
        if stream and row.stream_usage:
            head["stream_options"] = {"include_usage": True}
        if temperature is not None and not model.startswith(row.no_temperature or ("\0",)):
            head["temperature"] = temperature
        if functions:
            head["tools"] = [{"type": "function", "function": _function(item)} for item in functions]
            head |= row.tools_body
        head |= extra
        if "max_tokens" in head:
            head[row.max_tokens_name] = head.pop("max_tokens")
        return head

    def _fragments(self, messages: Sequence[LLMMessage]) -> list[bytes]:
        """The encoded messages; images from a run of tool results follow the run as one user message."""
        fragments: list[bytes] = []
        images: list[dict[str, Any]] = []
        for message in messages:
            if images and message.role != "tool":
                fragments.append(_image_message(images))
                images = []
            fragments.append(self.encode_message(message))
            if message.role == "tool" and not isinstance(message.content, str):
                images += [part for part in message.content if part.get("type") == "image"]
        if images:
            fragments.append(_image_message(images))
        return fragments

    def _message(self, message: LLMMessage) -> dict[str, Any]:
        if message.role == "assistant":
            return self._assistant(message)
        if message.role == "tool":
            return {"role": "tool", "tool_call_id": message.tool_call_id or "", "content": _tool_text(message)}
        if isinstance(message.content, str) or message.role != "user":
            return {"role": message.role, "content": message.text}
        return {"role": "user", "content": [_part(part) for part in message.content]}

    def _assistant(self, message: LLMMessage) -> dict[str, Any]:
        """Text, calls, and what the same vendor wants back. `content` is always there: some refuse a null."""
        extras = message.provider_extras
        native = extras if isinstance(extras, dict) and extras.get("vendor") == self.row.name else {}
        data: dict[str, Any] = {"role": "assistant", "content": message.text}
        if self.row.replay_always:
            data[self.row.replay_always] = ""
        if received := next((key for key in self.row.replay if native.get(key)), None):
            data[received] = native[received]
        if message.tool_calls:
            signed = native.get("extra_content") or {}
            data["tool_calls"] = [_call(call, signed) for call in message.tool_calls]
        return data


def _function(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item[key] for key in ("name", "description", "parameters", "strict") if key in item}


def _call(call: Any, signed: Mapping[str, Any]) -> dict[str, Any]:
    """A call as sent back: arguments are always a JSON object, `"{}"` where there were none or unreadable ones."""
    function = {"name": call.name, "arguments": dumps(call.arguments).decode()}
    data = {"id": call.id or "", "type": "function", "function": function}
    return data | ({"extra_content": signed[call.id]} if call.id in signed else {})


def _tool_text(message: LLMMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    n = sum(part.get("type") == "image" for part in message.content)
    note = f"[{n} image{'s' if n > 1 else ''}: see the next user message]" if n else ""
    return "\n".join(filter(None, (message.text, note)))


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    """A content part; parts of a kind we don't know pass as they are."""
    if part.get("type") == "image":
        url = f"data:{part['media_type']};base64,{part['data']}"
        return {"type": "image_url", "image_url": {"url": url}}
    return dict(part)


def _image_message(images: list[dict[str, Any]]) -> bytes:
    parts = [{"type": "text", "text": _IMAGES_NOTE}, *map(_part, images)]
    return dumps({"role": "user", "content": parts})

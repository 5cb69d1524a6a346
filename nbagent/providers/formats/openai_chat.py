"""The OpenAI chat-completions format, as OpenAI and everybody else speaks it.

Encoding follows a catalog vendor. Decoding is universal: every known dialect is read under any vendor's name.
Format: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nbagent.core.content.images import has_image
from nbagent.core.messages import FunctionCall, LLMMessage, LLMResponse
from nbagent.providers.formats import DONE, dumps, fitting_id, fitting_name
from nbagent.providers.formats.codec import Codec, Wanted
from nbagent.providers.formats.images import address
from nbagent.providers.formats.openai_chat_decoder import ChatDecoder
from nbagent.providers.formats.strict_schema import strict_schema
from nbagent.providers.vendor import Vendor

_IMAGES_NOTE = "Images returned by the tools above:"


class ChatCodec(Codec):
    """Chat completions with one vendor's facts."""

    format = "openai_chat"

    def _facts(self) -> tuple[object, ...]:
        return (self.vendor.name, self.vendor.replay_fields, self.vendor.replay_always, self.vendor.replay_images)

    def path(self, model: str, stream: bool) -> str:
        """See `Codec`."""
        return "/chat/completions"

    def decoder(self) -> ChatDecoder:
        """See `Codec`."""
        return ChatDecoder(self.vendor.name)

    def decode_body(self, body: dict[str, Any]) -> LLMResponse:
        """A whole answer is a stream of one chunk."""
        decoder = self.decoder()
        decoder.feed(body)
        if body.get("done", True):  # not a lone line of Ollama's
            decoder.feed(DONE)
        return decoder.finish()

    def output_options(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """See `Codec`."""
        if self.vendor.json_output == "schema":
            return schema_format(name, schema)
        return {"response_format": {"type": "json_object"}} if self.vendor.json_output == "object" else {}

    def _head(self, wanted: Wanted) -> dict[str, Any]:
        vendor = self.vendor
        head: dict[str, Any] = {"model": wanted.model, "stream": wanted.stream, **vendor.body}
        if wanted.stream and vendor.stream_usage:
            head["stream_options"] = {"include_usage": True}
        head |= self._temperature(wanted)
        if wanted.functions:
            head["tools"] = [{"type": "function", "function": _function(item)} for item in wanted.functions]
            head |= vendor.tools_body
        head |= wanted.extra
        if "max_tokens" in head:
            head[vendor.max_tokens_name] = head.pop("max_tokens")
        return head

    def _fragments(self, messages: Sequence[LLMMessage]) -> list[bytes]:
        """The encoded messages; images from a run of tool results follow the run as one user message."""
        fragments: list[bytes] = []
        images: list[dict[str, Any]] = []
        for message in messages:
            if images and message.role != "tool":
                fragments.append(_image_message(images))
                images = []
            if fragment := self.encode_message(message):
                fragments.append(fragment)
            if message.role == "tool" and not isinstance(message.content, str):
                images += [part for part in message.content if part.get("type") == "image"]
        if images:
            fragments.append(_image_message(images))
        return fragments

    def _pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        """One message; images of a tool's result come in a message of their own, which `_fragments` places.

        An answer of another vendor, or an edited one, may say nothing here: some refuse it.
        """
        data = self._message(message)
        says_nothing = message.role == "assistant" and not any(data[key] for key in data if key != "role")
        return [] if says_nothing else [data]

    def _message(self, message: LLMMessage) -> dict[str, Any]:
        if message.role == "assistant":
            return self._assistant(message)
        if message.role == "tool":
            call_id = fitting_id(message.tool_call_id, self.vendor.call_id)
            return {"role": "tool", "tool_call_id": call_id, "content": _tool_text(message)}
        if isinstance(message.content, str) or message.role != "user":
            return {"role": message.role, "content": message.text}
        return {"role": "user", "content": [_part(part) for part in message.content]}

    def _assistant(self, message: LLMMessage) -> dict[str, Any]:
        """Text, calls, and what the same vendor wants back. `content` is always there: some refuse a null."""
        native = self._native(message)
        data: dict[str, Any] = {"role": "assistant", "content": message.text}
        if self.vendor.replay_always:
            data[self.vendor.replay_always] = ""
        if received := next((key for key in self.vendor.replay_fields if native.get(key)), None):
            data[received] = native[received]
        if self._replays(message):
            data["images"] = native["images"]
        if message.tool_calls:
            signed = native.get("extra_content") or {}
            data["tool_calls"] = [_call(call, signed, self.vendor) for call in message.tool_calls]
        return data

    def _native(self, message: LLMMessage) -> dict[str, Any]:
        extras = message.provider_extras
        return extras if isinstance(extras, dict) and extras.get("vendor") == self.vendor.name else {}

    def _replays(self, message: LLMMessage) -> bool:
        return self.vendor.replay_images and has_image(message.content) and "images" in self._native(message)


def schema_format(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The option `response_format` of both of OpenAI's formats."""
    strict = strict_schema(schema, all_required=True)
    wanted = {"name": name, "schema": strict or schema, "strict": strict is not None}
    return {"response_format": {"type": "json_schema", "json_schema": wanted}}


def _function(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item[key] for key in ("name", "description", "parameters", "strict") if key in item}


def _call(call: FunctionCall, signed: Mapping[str, Any], vendor: Vendor) -> dict[str, Any]:
    """A call as sent back: arguments are always a JSON object, `"{}"` where there were none or unreadable ones."""
    function = {"name": fitting_name(call.name), "arguments": dumps(call.arguments).decode()}
    data = {"id": fitting_id(call.id, vendor.call_id), "type": "function", "function": function}
    return data | ({"extra_content": signed[call.id]} if call.id and call.id in signed else {})


def _tool_text(message: LLMMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    n = sum(part.get("type") == "image" for part in message.content)
    note = f"[{n} image{'s' if n > 1 else ''}: see the next user message]" if n else ""
    return "\n".join(filter(None, (message.text, note)))


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    """A content part; parts of a kind we don't know pass as they are."""
    if part.get("type") == "image":
        return {"type": "image_url", "image_url": {"url": address(part)}}
    return dict(part)


def _image_message(images: list[dict[str, Any]]) -> bytes:
    parts = [{"type": "text", "text": _IMAGES_NOTE}, *map(_part, images)]
    return dumps({"role": "user", "content": parts})

"""The Anthropic Messages format, as Claude and MiniMax speak it.

An assistant's content blocks go back to the same vendor as they came, thinking and signatures included; a conversation
from elsewhere is rebuilt from its text and calls. Format: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.providers.formats import dumps, fitting_id, fitting_name
from nbagent.providers.formats.anthropic_decoder import MessagesDecoder
from nbagent.providers.formats.cache_breakpoints import breakpoints, mark_of
from nbagent.providers.formats.codec import Codec, Wanted
from nbagent.providers.formats.role_groups import Turn, turns_of
from nbagent.providers.formats.strict_schema import strict_schema
from nbagent.providers.vendor import Vendor

#: What a schema for a whole answer may not say.
_UNCHECKED = (
    *str.split("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength"),
    *str.split("minItems maxItems uniqueItems"),
)


class MessagesCodec(Codec):
    """Anthropic Messages with one vendor's facts."""

    format = "anthropic_messages"
    models_path = "/v1/models?limit=1000"

    def __init__(self, vendor: Vendor, cache: str | bool = True) -> None:
        super().__init__(vendor)
        #: How long a conversation's beginning stays cached; empty for not at all.
        self.ttl = cache if isinstance(cache, str) else next(iter(vendor.cache_ttls), "") if cache else ""

    def _facts(self) -> tuple[object, ...]:
        return (self.vendor.name, self.vendor.unsigned_thinking)

    def path(self, model: str, stream: bool) -> str:
        """See `Codec`."""
        return "/v1/messages"

    def decoder(self) -> MessagesDecoder:
        """See `Codec`."""
        return MessagesDecoder(self.vendor.name)

    def decode_body(self, body: dict[str, Any]) -> LLMResponse:
        """A whole answer is what a stream's events add up to."""
        decoder = self.decoder()
        decoder.feed_body(body)
        return decoder.finish()

    def output_options(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """See `Codec`."""
        strict = strict_schema(schema, all_required=False, without=_UNCHECKED)
        if strict is None or self.vendor.json_output != "schema":
            return {}
        return {"output_config": {"format": {"type": "json_schema", "schema": strict}}}

    def _parts(self, wanted: Wanted, messages: Sequence[LLMMessage]) -> tuple[dict[str, Any], list[bytes]]:
        """Breakpoints stand outside of what is kept with the messages: they move on, the rest stays byte for byte."""
        head = self._head(wanted)
        turns = turns_of(messages, self.encode_message)
        places = breakpoints(head, turns, self.ttl) if self.ttl else {}
        for name in ("tools", "system"):
            if name in places:
                *before, last = head[name]
                head[name] = [*before, {**last, "cache_control": mark_of(places[name])}]
        return head, [_encode(turn, places.get(turn)) for turn in turns]

    def _head(self, wanted: Wanted) -> dict[str, Any]:
        vendor = self.vendor
        head: dict[str, Any] = {
            "model": wanted.model,
            "stream": wanted.stream,
            **vendor.body,
            **self._temperature(wanted),
        }
        if wanted.functions:
            head |= {"tools": [_tool(item) for item in wanted.functions], **vendor.tools_body}
        if wanted.system:
            head["system"] = [{"type": "text", "text": wanted.system}]
        return {**head, **wanted.extra}

    def _fragments(self, messages: Sequence[LLMMessage]) -> list[bytes]:
        return [_encode(turn) for turn in turns_of(messages, self.encode_message)]

    def _pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        if message.role == "tool":
            return [_tool_result(message, self.vendor)]
        if message.role == "assistant":
            return self._assistant(message)
        return _content(message.content)

    def _assistant(self, message: LLMMessage) -> list[dict[str, Any]]:
        """The blocks as received, where they still say what the message says; else text and calls."""
        extras = message.provider_extras
        if isinstance(extras, dict) and extras.get("vendor") == self.vendor.name and _agree(extras["blocks"], message):
            return [self._with_fitting_id(block) for block in extras["blocks"] if self._sendable(block)]
        calls = message.tool_calls or []
        uses = [
            {"type": "tool_use", "id": call.id, "name": fitting_name(call.name), "input": call.arguments}
            for call in calls
        ]
        return _content(message.text) + [self._with_fitting_id(use) for use in uses]

    def _with_fitting_id(self, block: dict[str, Any]) -> dict[str, Any]:
        """Only a server that is not the vendor's own gives calls ids that the vendor would refuse."""
        if (
            block.get("type") != "tool_use"
            or (fitting := fitting_id(block.get("id"), self.vendor.call_id)) == block["id"]
        ):
            return block
        return block | {"id": fitting}

    def _sendable(self, block: Mapping[str, Any]) -> bool:
        """The API refuses empty texts, and Claude thinking without its signature."""
        if block.get("type") == "text":
            return bool(block.get("text", "").strip())
        if block.get("type") == "thinking" and not block.get("signature"):
            return self.vendor.unsigned_thinking and bool(block.get("thinking"))
        return True


def _encode(turn: Turn, ttl: str | None = None) -> bytes:
    """One turn is one message of the API; `ttl` puts a breakpoint on its last block."""
    fragments = turn.fragments
    if ttl:
        fragments[-1] = fragments[-1][:-1] + b',"cache_control":' + dumps(mark_of(ttl)) + b"}"
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
    return [_image(part) if part.get("type") == "image" else dict(part) for part in content if not _empty(part)]


def _empty(part: Mapping[str, Any]) -> bool:
    return part.get("type") == "text" and not part.get("text", "").strip()


def _image(part: Mapping[str, Any]) -> dict[str, Any]:
    if "url" in part:
        return {"type": "image", "source": {"type": "url", "url": part["url"]}}
    if "data" in part:
        return {"type": "image", "source": {"type": "base64", "media_type": part["media_type"], "data": part["data"]}}
    return dict(part)  # in the vendor's own form already


def _tool_result(message: LLMMessage, vendor: Vendor) -> dict[str, Any]:
    call_id = fitting_id(message.tool_call_id, vendor.call_id)
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
    if content := _content(message.content):
        block["content"] = message.content if isinstance(message.content, str) else content
    return block | ({"is_error": True} if message.is_error else {})


def _tool(item: Mapping[str, Any]) -> dict[str, Any]:
    tool = {key: item[key] for key in ("name", "description") if item.get(key)}
    return tool | {"input_schema": item.get("parameters") or {"type": "object", "properties": {}}}

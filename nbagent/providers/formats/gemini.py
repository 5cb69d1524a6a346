"""Gemini's own format, `generateContent`.

A model's parts go back to Gemini as they came, each signature on its own part; a conversation from elsewhere is rebuilt
from its text and calls. Format: https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from nbagent.core.messages import FunctionCall, LLMMessage, LLMResponse
from nbagent.providers.formats.codec import Codec, Wanted
from nbagent.providers.formats.gemini_decoder import MADE_ID, GeminiDecoder
from nbagent.providers.formats.gemini_schema import gemini_schema
from nbagent.providers.formats.role_groups import Turn, turns_of

#: The fields of a body; every other option is a field of its `generationConfig`.
_BODY_FIELDS = {
    "cachedContent",
    "generationConfig",
    "labels",
    "safetySettings",
    "serviceTier",
    "store",
    "systemInstruction",
    "toolConfig",
    "tools",
}
#: Newer models refuse a call without a signature; this stands for calls that another model made.
#: https://ai.google.dev/gemini-api/docs/thought-signatures
_FOREIGN = {"thoughtSignature": "skip_thought_signature_validator"}
_ROLES = {"user": b"user", "assistant": b"model"}


class GeminiCodec(Codec):
    """generateContent with one vendor's facts."""

    format = "gemini"
    conversation = "contents"
    models_path = "/models?pageSize=1000"

    def path(self, model: str, stream: bool) -> str:
        """See `Codec`. A model with a slash is a whole resource name, such as `tunedModels/mine`."""
        name = model if "/" in model else f"models/{model}"
        return f"/{quote(name)}:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"

    def decoder(self) -> GeminiDecoder:
        """See `Codec`."""
        return GeminiDecoder(self.vendor.name)

    def decode_body(self, body: dict[str, Any]) -> LLMResponse:
        """A whole answer is a stream of one chunk."""
        decoder = self.decoder()
        decoder.feed(body)
        return decoder.finish()

    def output_options(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """See `Codec`."""
        return {"responseMimeType": "application/json", "responseJsonSchema": schema}

    def _head(self, wanted: Wanted) -> dict[str, Any]:
        """The vendor's own tools, given as `tools`, stand beside the functions."""
        head: dict[str, Any] = {"systemInstruction": {"parts": [{"text": wanted.system}]}} if wanted.system else {}
        config = {**self.vendor.body, **self._temperature(wanted)}
        for name, value in wanted.extra.items():
            (head if name in _BODY_FIELDS else config)[name] = value
        if "max_tokens" in config:
            config[self.vendor.max_tokens_name] = config.pop("max_tokens")
        if config := config | head.pop("generationConfig", {}):
            head["generationConfig"] = config
        if wanted.functions:
            declared = {"functionDeclarations": [_function(item) for item in wanted.functions]}
            head["tools"] = [declared, *head.get("tools", ())]
        if not head.get("tools"):
            head.pop("toolConfig", None)  # refused without tools
        return head

    def _fragments(self, messages: Sequence[LLMMessage]) -> list[bytes]:
        return [_encode(turn) for turn in turns_of(_named(messages), self.encode_message)]

    def _pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        if message.role == "tool":
            return _result(message)
        if message.role == "assistant":
            return self._assistant(message)
        return _content(message.content)

    def _assistant(self, message: LLMMessage) -> list[dict[str, Any]]:
        """The parts as received, where they still say what the message says; else text and calls."""
        if self._replays(message):
            return list(message.provider_extras["parts"])
        calls: list[dict[str, Any]] = [{"functionCall": _call(call)} for call in message.tool_calls or ()]
        if calls:
            calls[0] |= _FOREIGN  # of calls made at the same time only the first has one
        return _content(message.text) + calls

    def _replays(self, message: LLMMessage) -> bool:
        extras = message.provider_extras
        ours = isinstance(extras, dict) and extras.get("vendor") == self.vendor.name
        return ours and _agree(extras["parts"], message)


def _encode(turn: Turn) -> bytes:
    return b'{"role":"' + _ROLES[turn.role] + b'","parts":[' + b",".join(turn.fragments) + b"]}"


def _agree(parts: Sequence[Mapping[str, Any]], message: LLMMessage) -> bool:
    """Whether the native parts still match a message whose text or calls may have been edited."""
    text = "".join(part.get("text") or "" for part in parts if not part.get("thought"))
    native = [part["functionCall"] for part in parts if "functionCall" in part]
    calls = message.tool_calls or []
    return (
        text == message.text
        and [(call.get("name"), call.get("args") or {}) for call in native] == [(c.name, c.arguments) for c in calls]
        and all(item.get("id", call.id) == call.id for item, call in zip(native, calls, strict=True))
    )


def _call(call: FunctionCall) -> dict[str, Any]:
    return {**_id(call.id), "name": _name(call.name), "args": call.arguments}


def _name(name: str | None) -> str:
    """A function's name as Gemini takes it: another model may have made one up that it would not."""
    return re.sub(r"[^a-zA-Z0-9_.:-]|^(?![a-zA-Z_])", "_", name or "unknown")[:64]


def _id(call_id: str | None) -> dict[str, str]:
    """The id of a call, unless Gemini gave it none: then results are matched by name and order."""
    return {"id": call_id} if call_id and not call_id.startswith(MADE_ID) else {}


def _named(messages: Sequence[LLMMessage]) -> Sequence[LLMMessage]:
    """The messages, each result with the name of its function, which Gemini wants."""
    if all(message.name for message in messages if message.role == "tool"):
        return messages
    names = {call.id: call.name for message in messages for call in message.tool_calls or ()}
    return [
        message.replace(name=names.get(message.tool_call_id, "unknown"))
        if message.role == "tool" and not message.name
        else message
        for message in messages
    ]


def _result(message: LLMMessage) -> list[dict[str, Any]]:
    """A tool's result: its text as the function's response, its images after it."""
    response = {"error" if message.is_error else "output": message.text}
    part = {"functionResponse": {**_id(message.tool_call_id), "name": _name(message.name), "response": response}}
    images = [] if isinstance(message.content, str) else [p for p in message.content if p.get("type") != "text"]
    note = [{"text": f"Images returned by {message.name}:"}] if images else []
    return [part, *note, *_content(images)]


def _content(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts of a text or of content parts; parts of a kind we don't know pass as they are."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return [_part(part) for part in content if part.get("type") != "text" or part.get("text")]


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part.get("type") == "text":
        return {"text": part["text"]}
    if part.get("type") == "image" and "data" in part:
        return {"inlineData": {"mimeType": part["media_type"], "data": part["data"]}}
    if part.get("type") == "image" and "url" in part:
        kind = {"mimeType": part["media_type"]} if "media_type" in part else {}
        return {"fileData": {**kind, "fileUri": part["url"]}}
    return dict(part)


def _function(item: Mapping[str, Any]) -> dict[str, Any]:
    """A function's declaration; without parameters where it has none, since Gemini refuses an empty object."""
    declared = {key: item[key] for key in ("name", "description") if item.get(key)}
    schema = gemini_schema(item.get("parameters") or {"type": "object"})
    return declared | ({"parameters": schema} if schema.get("properties") else {})

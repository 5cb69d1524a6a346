"""The OpenAI Responses format, used without any state on the server: each request holds the whole conversation.

An assistant's output items go back to the same vendor as they came, one after the other, reasoning included in its
encrypted form; a conversation from elsewhere is rebuilt from its text and calls.
Format: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.providers.formats import dumps, fitting_id, fitting_name
from nbagent.providers.formats.codec import Codec, Wanted
from nbagent.providers.formats.images import address
from nbagent.providers.formats.openai_chat import schema_format
from nbagent.providers.formats.openai_responses_decoder import ResponsesDecoder, arguments_of, text_of
from nbagent.providers.vendor import Vendor

_ENCRYPTED = "reasoning.encrypted_content"
#: Longer ids of calls are refused.
_CALL_ID = ".{1,64}"


class ResponsesCodec(Codec):
    """OpenAI Responses with one vendor's facts. Models that don't reason (`reasoning`) refuse what goes with it."""

    format = "openai_responses"
    conversation = "input"

    def __init__(self, vendor: Vendor, reasoning: bool = True) -> None:
        self.reasoning = reasoning
        super().__init__(vendor)

    def _facts(self) -> tuple[object, ...]:
        return (self.vendor.name, self.reasoning)

    def path(self, model: str, stream: bool) -> str:
        """See `Codec`."""
        return "/responses"

    def decoder(self) -> ResponsesDecoder:
        """See `Codec`."""
        return ResponsesDecoder(self.vendor.name)

    def decode_body(self, body: dict[str, Any]) -> LLMResponse:
        """A whole answer is what a stream's last event holds."""
        decoder = self.decoder()
        decoder.feed_body(body)
        return decoder.finish()

    def output_options(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """See `Codec`."""
        return schema_format(name, schema)

    def _head(self, wanted: Wanted) -> dict[str, Any]:
        vendor = self.vendor
        head: dict[str, Any] = {"model": wanted.model, "stream": wanted.stream, "store": False, **vendor.body}
        if self.reasoning:
            head["include"] = [_ENCRYPTED]
        head |= self._temperature(wanted)
        if wanted.functions:
            head |= {"tools": [_tool(item) for item in wanted.functions], **vendor.tools_body}
        return head | _options(wanted.extra)

    def _fragments(self, messages: Sequence[LLMMessage]) -> list[bytes]:
        return [items for message in _each_once(messages) if (items := self.encode_message(message))]

    def _pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        if message.role == "assistant":
            return self._assistant(message)
        if message.role == "tool":
            output = message.content if isinstance(message.content, str) else [_part(part) for part in message.content]
            return [{"type": "function_call_output", "call_id": self._id(message.tool_call_id), "output": output}]
        if isinstance(message.content, str) or message.role != "user":
            return [_said(message.role, message.text)]
        return [_said("user", [_part(part) for part in message.content])]

    def _assistant(self, message: LLMMessage) -> list[dict[str, Any]]:
        """The items as received, where they may go back; else text and calls."""
        if self._replays(message):
            return [self._with_fitting_id(item) for item in _without_loose_reasoning(message.provider_extras["items"])]
        calls = [
            {"type": "function_call", "call_id": self._id(call.id), "name": fitting_name(call.name), "arguments": text}
            for call in message.tool_calls or []
            for text in [dumps(call.arguments).decode()]
        ]
        return ([_said("assistant", message.text)] if message.text else []) + calls

    def _replays(self, message: LLMMessage) -> bool:
        extras = message.provider_extras
        if not (isinstance(extras, dict) and extras.get("vendor") == self.vendor.name and "items" in extras):
            return False
        return _agree(extras["items"], message) and all(map(self._sendable, extras["items"]))

    def _id(self, call_id: str | None) -> str:
        return fitting_id(call_id, _CALL_ID)

    def _with_fitting_id(self, item: dict[str, Any]) -> dict[str, Any]:
        """Only a server that is not the vendor's own gives calls ids that the vendor would refuse."""
        fits = item.get("type") != "function_call" or self._id(item["call_id"]) == item["call_id"]
        return item if fits else item | {"call_id": self._id(item["call_id"])}

    def _sendable(self, item: Mapping[str, Any]) -> bool:
        """Reasoning goes back only to models that reason, and by value: the server keeps nothing under its id."""
        if item.get("type") != "reasoning":
            return True
        return self.reasoning and bool(item.get("encrypted_content") or item.get("content"))


def _agree(items: Sequence[Mapping[str, Any]], message: LLMMessage) -> bool:
    """Whether the native items still match a message whose text or calls may have been edited."""
    uses = [item for item in items if item.get("type") == "function_call"]
    made = [(item.get("call_id"), item.get("name"), arguments_of(item)[0]) for item in uses]
    calls = [(call.id, call.name, call.arguments) for call in message.tool_calls or []]
    return text_of(items) == message.text and made == calls


def _each_once(messages: Sequence[LLMMessage]) -> Iterator[LLMMessage]:
    """The messages; an answer that stands there again is told in other words, for no item may come twice."""
    seen: set[Any] = set()
    for message in messages:
        extras = message.provider_extras
        ids = {item.get("id") for item in extras.get("items") or ()} if isinstance(extras, dict) else ()
        yield message if seen.isdisjoint(ids) else message.replace(provider_extras=None)
        seen.update(ids)
        seen.discard(None)


def _without_loose_reasoning(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reasoning that led to nothing, as where the token limit cut it, is refused: an item must follow it."""
    end = len(items)
    while end and items[end - 1].get("type") == "reasoning":
        end -= 1
    return items[:end]


def _said(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    """A content part; parts of a kind we don't know pass as they are."""
    if part.get("type") == "text":
        return {"type": "input_text", "text": part.get("text", "")}
    if part.get("type") == "image":
        return {"type": "input_image", "image_url": address(part), "detail": "auto"}
    return dict(part)


def _tool(item: Mapping[str, Any]) -> dict[str, Any]:
    """A function. Unless told so, the schema is not enforced: `strict` allows no optional parameters."""
    tool = {key: item[key] for key in ("name", "description") if item.get(key)}
    parameters = item.get("parameters") or {"type": "object", "properties": {}}
    return {"type": "function", **tool, "parameters": parameters, "strict": item.get("strict", False)}


def _options(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Body fields; those named as for chat completions get their place here, so that callers need not know the API."""
    options = dict(extra)
    for name in ("max_tokens", "max_completion_tokens"):
        if name in options:
            options["max_output_tokens"] = options.pop(name)
    if "reasoning_effort" in options:
        options["reasoning"] = {**(options.get("reasoning") or {}), "effort": options.pop("reasoning_effort")}
    if "verbosity" in options:
        options["text"] = {**(options.get("text") or {}), "verbosity": options.pop("verbosity")}
    if "response_format" in options:
        wanted = options.pop("response_format")
        flat = {"type": wanted["type"], **wanted.get("json_schema", {})}
        options["text"] = {**(options.get("text") or {}), "format": flat}
    choice = options.get("tool_choice")
    if isinstance(choice, dict) and "function" in choice:
        options["tool_choice"] = {"type": "function", **choice["function"]}
    return options

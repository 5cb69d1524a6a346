"""The base of the four formats. Each message is encoded only once. A request consists of a head and the encoded
messages.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, ClassVar

from nbagent.core.events import Event, Text, Thinking
from nbagent.core.json_text import json_text
from nbagent.core.messages import FunctionCall, LLMMessage, LLMResponse, Usage
from nbagent.core.provider_calls import ProviderCall, events_of
from nbagent.errors import ConfigurationError, IncompleteStreamError
from nbagent.providers.formats.documents import sendable_documents, sent_as_text
from nbagent.providers.formats.images import sendable_messages
from nbagent.providers.formats.refused import CALLS, IMAGES, Changes, changed_head
from nbagent.providers.options.resolved import ResolvedOptions, merged
from nbagent.providers.options.tool_choice import form_of
from nbagent.providers.provider_facts import ProviderFacts
from nbagent.providers.tool_names import ALL_OWN, Renamed, fitting_name, is_same_call, restored

Messages = Sequence[LLMMessage]
#: A call as a provider sent it: id (None if missing), name and arguments.
Call = tuple[Any, Any, Any]
#: Errors from decoding an answer of an unexpected form.
UNREADABLE = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)
#: The texts of the events about a provider's summary of the conversation.
COMPACTED, NOT_COMPACTED = "the provider summarised the conversation so far", "the provider could not summarise"


class Decoder(ABC):
    """Decodes one answer. Feed it each event of the stream, then call `finish`."""

    def __init__(self, provider: str) -> None:
        #: Whether the logical end was reached, so that nothing that follows matters.
        self.done = False
        self._provider = provider
        self._model: str | None = None
        self._id: str | None = None
        self._usage: dict[str, Any] = {}
        #: The calls to the provider's own tools, by id.
        self._provider_calls: dict[str, ProviderCall] = {}

    @property
    def complete(self) -> bool:
        """Whether the terminal marker has arrived. Other data, such as token counts, may follow it."""
        return self.done

    @abstractmethod
    def feed(self, event: dict[str, Any]) -> Sequence[Event]:
        """The pieces of text, thinking and arguments in one event. Raises `ProviderError` for an error event."""

    def feed_body(self, body: dict[str, Any]) -> None:
        """Decode an answer that arrived as one JSON body. By default, it is decoded like a stream with one event."""
        self.feed(body)

    @abstractmethod
    def finish(self) -> LLMResponse:
        """The whole answer. Raises `IncompleteStreamError` if the terminal marker is missing."""

    def _take_usage(self, usage: Any) -> None:
        """Update the usage, which is cumulative: later numbers replace earlier ones."""
        if usage:
            self._usage |= {key: value for key, value in usage.items() if value is not None}

    def _tool_started(self, call: ProviderCall) -> list[Event]:
        """A call to one of the provider's own tools has started."""
        self._provider_calls[call.id] = call
        return [call.begun()]

    def _tool_ended(self, result: ProviderCall) -> list[Event]:
        """The result of a call to one of the provider's own tools has arrived. The call itself may be in the previous,
        paused answer.
        """
        call = self._provider_calls.get(result.id)
        if call is None:
            self._provider_calls[result.id] = result
            return [result.begun(has_ended=True), result.ended()]
        call.result, call.is_error = result.result, result.is_error
        return [call.ended()]

    def _response(
        self,
        text: str,
        calls: list[FunctionCall],
        finish_reason: str | None,
        usage: Usage,
        native: Mapping[str, Any],
        *,
        word: str | None,
        **more: Any,
    ) -> LLMResponse:
        """The answer. `word` is the provider's own finish reason, and `native` the data to send back.

        Its metadata includes the non-empty values of `more`, such as thinking and citations.
        """
        metadata: dict[str, Any] = {
            "usage": usage,
            "usage_raw": self._usage,
            "finish_reason_raw": word,
            "model": self._model,
            "response_id": self._id,
        }
        more["provider_calls"] = [call.to_dict() for call in self._provider_calls.values()]
        metadata |= {name: value for name, value in more.items() if value}
        return LLMResponse(text, calls or None, finish_reason, metadata, {"provider": self._provider, **native})


class Codec(ABC):
    """Encodes and decodes one format, configured by one provider's facts. It does no I/O and keeps no conversation."""

    #: The format's name.
    format: ClassVar[str]
    decoder_class: ClassVar[type[Decoder]]
    #: The body field with the conversation.
    conversation: ClassVar[str] = "messages"
    #: The name under which a message keeps an answer's pieces, if the format sends them back unchanged.
    native: ClassVar[str] = ""
    #: The paths for requests and for the list of models, after the base URL.
    request_path: ClassVar[str]
    models_path: ClassVar[str] = "/models"

    def __init__(self, facts: ProviderFacts) -> None:
        self.facts = facts
        #: The key of a message's encoded form, shared by all codecs that encode it alike.
        self._key = f"{self.format} {self._encoding_facts()}"

    def _encoding_facts(self) -> tuple[object, ...]:
        """The facts that decide how a message is encoded."""
        return (self.facts.name,)

    def path(self, model: str, stream: bool) -> str:
        """The path that a request appends to the base URL."""
        return self.request_path

    def decoder(self) -> Decoder:
        """A decoder for one answer."""
        return self.decoder_class(self.facts.name)

    def decode_body(self, body: dict[str, Any], names: Renamed = ALL_OWN) -> LLMResponse:
        """Decode an answer that arrived as one JSON body. See `finish`."""
        decoder = self.decoder()
        decoder.feed_body(body)
        return self.finish(decoder, names)

    def items(self, body: dict[str, Any], names: Renamed = ALL_OWN) -> list[Event | LLMResponse]:
        """Like `decode_body`, but return the items that a stream would yield. Raises a `ProviderError` if the body is
        not an answer.
        """
        try:
            response = self.decode_body(body, names)
        except UNREADABLE as exc:
            raise undecodable(exc) from None
        metadata, text = response.metadata or {}, response.content
        thinking = [Thinking(metadata["thinking"])] if metadata.get("thinking") else []
        return [*thinking, *events_of(metadata), *([Text(text)] if text else []), response]

    def finish(self, decoder: Decoder, names: Renamed = ALL_OWN) -> LLMResponse:
        """The whole answer, with the original names of renamed tools.

        The answer is also encoded here as a check, because one that can't be sent back would make every later request
        fail. Raises the same errors as `Decoder.finish`, and one of `UNREADABLE` if a value has an unexpected type.
        """
        answer = decoder.finish()
        for call in answer.function_calls or ():
            if not isinstance(call.name, str) or not isinstance(call.id, str):
                raise TypeError(f"a call with the name {call.name!r:.100} and the id {call.id!r:.100}")
        content, calls, extras = answer.message_content, answer.function_calls, answer.raw_response
        message = LLMMessage("assistant", content, tool_calls=calls, provider_extras=extras, encoded=answer.encoded)
        self.encode_message(message)
        return restored(answer, names)

    @abstractmethod
    def output_options(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """See `LLMProvider.output_options`."""

    def _pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        """One message in this format: messages, items, blocks or parts; none if it is empty."""
        if message.role == "tool":
            return self._result_pieces(message)
        if message.role != "assistant":
            return self._input_pieces(message)
        native = self._native_pieces(message)
        return self._answer_pieces(message) if native is None else native

    @abstractmethod
    def _input_pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        """A user or system message."""

    @abstractmethod
    def _result_pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        """A tool's result."""

    @abstractmethod
    def _answer_pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        """An answer, rebuilt from its text and calls."""

    def _native_pieces(self, message: LLMMessage) -> list[dict[str, Any]] | None:
        """An answer's unchanged pieces; None if there are none, it was edited, or they can't be sent back."""
        pieces = self._native(message).get(self.native)
        return None if pieces is None or not _agree(self._text_and_calls(pieces), message) else self._sendable(pieces)

    def _text_and_calls(self, pieces: list[dict[str, Any]]) -> tuple[str, list[Call]]:
        """The text and the calls in an answer's pieces."""
        raise NotImplementedError

    def _sendable(self, pieces: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        """An answer's pieces in the form to send back; None if they can't be sent back."""
        raise NotImplementedError

    @abstractmethod
    def _head(self, model: str, options: ResolvedOptions, system: str) -> dict[str, Any]:
        """The body without the conversation. `system` is the text of the system messages.

        Fields in `options.extra` override the provider's defaults.
        """

    @abstractmethod
    def _fragments(self, messages: Messages, reminder: Messages, head: dict[str, Any], changes: Changes) -> list[bytes]:
        """The encoded elements of the conversation and reminder. May add to the head."""

    def _native(self, message: LLMMessage) -> Mapping[str, Any]:
        """This provider's own data in an answer; empty for messages from another source."""
        extras = message.provider_extras
        return extras if isinstance(extras, dict) and extras.get("provider") == self.facts.name else {}

    def _holds_images(self, message: LLMMessage) -> bool:
        """Whether a message can contain images. An answer can if its pieces are sent back unchanged."""
        return message.role != "assistant" or self._native_pieces(message) is not None

    def encode_message(self, message: LLMMessage) -> bytes:
        """One message's pieces as JSON, joined by commas; empty if there are none. They are cached in the message."""
        fragment: bytes | None = message.encoded.get(self._key)
        if fragment is None:
            fragment = message.encoded[self._key] = b",".join(map(dumps, self._pieces(message)))
        return fragment

    def encode_request(
        self,
        messages: Messages,
        options: ResolvedOptions,
        model: str,
        changes: Changes | None = None,
        reminder: Messages = (),
    ) -> bytes:
        """Build a request body from these messages and options. `changes` apply to the fields that this model refuses
        (see `formats.refused`). Only new messages have to be encoded.

        A `reminder` (`ModelRequest.reminder_messages`) comes last, and changes nothing before it. Raises
        `ImageInputError` if the prompt has an image and the model does not accept images.
        """
        changes = changes or {}
        if not all_text(messages):
            text_only = IMAGES in changes or not self.facts.takes_images(model)
            messages = sendable_documents(messages, self.facts.takes_pdfs(model) and not text_only)
            messages = sendable_messages(messages, self.facts, text_only, self._holds_images)
        if CALLS in changes and not options.tools:
            options = self._with_called_tools(options, messages)
        system = "\n\n".join(message.text for message in messages if message.role == "system" and message.content)
        head = merged(self._head(model, options, system), options.extra_body)
        if self.conversation in options.extra_body:
            raise ConfigurationError(f"extra_body can't contain {self.conversation!r}, which is the conversation.")
        fragments = self._fragments(messages, reminder, head, changes)
        head = changed_head(head, changes)
        opening = dumps(head)[:-1] + (b"," if head else b"")
        return b"".join((opening, b'"', self.conversation.encode(), b'":[', b",".join(fragments), b"]}"))

    def _with_called_tools(self, options: ResolvedOptions, messages: Messages) -> ResolvedOptions:
        """The options with the names of the called tools, and the choice to call none."""
        names = dict.fromkeys(fitting_name(call.name) for message in messages for call in message.tool_calls or ())
        tools = [{"name": name, "description": "", "parameters": {"type": "object"}} for name in names]
        extra = {**options.extra, **form_of("none", self.format)}
        return replace(options, tools=tools, extra=extra) if tools else options

    def left_out(self, messages: Messages, model: str) -> str:
        """A note that names the documents that are sent as text; empty if there are none."""
        names = ", ".join(dict.fromkeys(sent_as_text(messages, self.facts.takes_pdfs(model))))
        return f"{model} can't read PDFs there: it receives the text of {names}." if names else ""

    def read_documents(self, messages: Messages, model: str) -> None:
        """Extract the text of documents and keep it in the messages. This takes about 0.04 s per page, so call it in a
        thread.

        Raises the same errors as `encode_request`.
        """
        sendable_documents(messages, self.facts.takes_pdfs(model))

    def _common_fields(self, options: ResolvedOptions) -> dict[str, Any]:
        """The provider's own fields, with its tool fields if there are tools, and the temperature that it allows."""
        fields = {**self.facts.body, **(self.facts.tools_body if options.tools else {})}
        if options.temperature is not None:
            fields["temperature"] = max(options.temperature, self.facts.min_temperature)
        return fields


def all_text(messages: Sequence[LLMMessage]) -> bool:
    """Whether no message has content parts. This must be fast, since each request checks the whole conversation."""
    return {type(message.content) for message in messages} <= {str}


#: `json.dumps` would create an encoder for each value.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def dumps(value: Any) -> bytes:
    """Compact JSON. Lone surrogates, which no provider accepts, become `?`; NaN and infinity become null."""
    try:
        text = _ENCODER.encode(value)
    except ValueError:
        text = _ENCODER.encode(json.loads(json_text(value)))
    return text.encode("utf-8", "replace")


def undecodable(exc: Exception) -> IncompleteStreamError:
    """The error for an answer whose decoding raised one of `UNREADABLE`."""
    return IncompleteStreamError(f"the answer has content that can't be decoded ({exc!r})")


def fitting_id(call_id: str | None, pattern: str) -> str:
    """A call's id in a form that matches `pattern`. The same invalid id is always replaced by the same valid one.

    >>> fitting_id("call_1", "[a-z0-9_]+"), fitting_id("functions.find:0", "[a-z0-9_]+")
    ('call_1', 'call_5501b3cd51f853ba')
    """
    if not call_id or not pattern or re.fullmatch(pattern, call_id):
        return call_id or ""
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()
    fitting = f"call_{digest[:16]}"
    return fitting if re.fullmatch(pattern, fitting) else digest[:9]  # Mistral's


def new_call_id(prefix: str = "call_") -> str:
    """A unique id for a tool call without one."""
    return f"{prefix}{uuid.uuid4().hex[:24]}"


def token_count(*values: Any) -> int:
    """The first positive number among these values, as an integer; 0 if there is none.

    >>> token_count(None, 7), token_count("many")
    (7, 0)
    """
    for value in values:
        if isinstance(value, (int, float)) and 0 < value < inf:
            return int(value)
    return 0


def _agree(native: tuple[str, Sequence[Call]], message: LLMMessage) -> bool:
    """Whether a message, which may have been edited, still has this text and these calls."""
    text, calls = native
    message_calls = message.tool_calls or ()
    return (
        text == message.text
        and len(calls) == len(message_calls)
        and all(
            call_id in (None, call.id) and is_same_call(call, name, arguments)
            for (call_id, name, arguments), call in zip(calls, message_calls, strict=True)
        )
    )

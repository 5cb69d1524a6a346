"""Wire formats: pure codecs that turn conversations into request bodies and events into answers. They do no I/O.

`DONE` stands for the `[DONE]` line of a chat-completions stream.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from nbagent.core.events import Event
from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.errors import (
    AuthenticationError,
    BadRequestError,
    ContextLengthError,
    ModelNotFoundError,
    ProviderError,
    RateLimitError,
    ServerError,
)
from nbagent.providers.wire.refused import Changes, changed_head

DONE: dict[str, Any] = {"type": "[DONE]"}

Functions = Sequence[dict[str, Any]]


class Decoder(Protocol):
    """One answer being decoded. Feed it every event of the stream, then `finish`."""

    #: The logical end was reached: nothing that follows matters.
    done: bool

    @property
    def complete(self) -> bool:
        """The terminal marker was seen: the answer is whole, though more (a usage chunk) may follow."""

    def feed(self, event: dict[str, Any]) -> Sequence[Event]:
        """The pieces of text, thinking and arguments in one event. Raises `ProviderError` for an error event."""

    def finish(self) -> LLMResponse:
        """The whole answer. Raises `IncompleteStreamError` without the terminal marker."""


class Codec(Protocol):
    """One wire format with one vendor's facts."""

    #: Where the models are listed, after the base URL.
    models_path: ClassVar[str]

    def path(self, model: str, stream: bool) -> str:
        """Where requests go, after the base URL."""

    def encode_message(self, message: LLMMessage) -> bytes:
        """One message as JSON, kept with the message."""

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
        """A request body. `extra` holds further body fields and wins over the vendor's defaults.

        `changes` holds the fields that this model refuses.
        """

    def decoder(self) -> Decoder:
        """A decoder for one streamed answer."""

    def decode_body(self, body: dict[str, Any]) -> LLMResponse:
        """The answer in one JSON body."""


def dumps(value: Any) -> bytes:
    """Compact JSON. Lone surrogates, which no vendor takes, become question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def join_request(
    head: dict[str, Any], fragments: Sequence[bytes], name: str = "messages", changes: Changes | None = None
) -> bytes:
    """`head` and the encoded messages, called `name`, as one body: only new messages cost anything."""
    head = changed_head(head, changes or {})
    opening = dumps(head)[:-1] + (b"," if head else b"")
    return opening + b'"' + name.encode() + b'":[' + b",".join(fragments) + b"]}"


def new_call_id(prefix: str = "call_") -> str:
    """A unique id for a tool call that came without one."""
    return f"{prefix}{uuid.uuid4().hex[:24]}"


_BY_WORD: dict[str, type[ProviderError]] = {
    "authentication_error": AuthenticationError,
    "permission_error": AuthenticationError,
    "invalid_api_key": AuthenticationError,
    "not_found_error": ModelNotFoundError,
    "model_not_found": ModelNotFoundError,
    "rate_limit_error": RateLimitError,
    "rate_limit_exceeded": RateLimitError,
    "context_length_exceeded": ContextLengthError,
    "exceed_context_size_error": ContextLengthError,
    "invalid_request_error": BadRequestError,
    "invalid_prompt": BadRequestError,
    "content_filter": BadRequestError,
}
_CONTEXT_PHRASES = (
    "maximum context length",
    "context length exceeded",
    "context window",
    "prompt is too long",
    "exceeds the available context size",
    "range of input length should be",
    "exceeds the maximum number of tokens allowed",
)
#: Gemini refuses a wrong key with 400, like any other bad argument.
_WRONG_KEY_PHRASES = ("api key not valid", "api key expired", "api_key_invalid")


def error_message(body: Any) -> tuple[str, tuple[str, ...]]:
    """The text of a vendor's error object, and the words (code, type) that class it.

    >>> error_message({"error": {"message": "slow down", "type": "rate_limit_error", "code": None}})
    ('slow down', ('rate_limit_error',))
    """
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return str(body), ()
    error = body.get("error") or body.get("base_resp") or body
    if not isinstance(error, dict):
        return str(error), ()
    words = tuple(str(word) for key in ("code", "type", "status") if (word := error.get(key)) is not None)
    text = next((error[key] for key in ("message", "status_msg", "detail", "msg") if error.get(key)), None)
    return (text if isinstance(text, str) else json.dumps(text or error, ensure_ascii=False)), words


def error_class(message: str, words: Sequence[str], status: int | None = None) -> type[ProviderError]:
    """The class of a vendor's error, by HTTP status, else by the words in its body."""
    words = [word.lower() for word in words]
    low = message.lower()
    if any(phrase in low for phrase in _CONTEXT_PHRASES) or "context_length_exceeded" in words:
        return ContextLengthError
    if any(phrase in low for phrase in _WRONG_KEY_PHRASES):
        return AuthenticationError
    if status is None:
        status = next((int(word) for word in words if word.isdigit() and 400 <= int(word) < 600), None)
    if status is None:
        return next((_BY_WORD[word] for word in words if word in _BY_WORD), ServerError)
    if status in (408, 409) or status >= 500:
        return ServerError
    by_status = {401: AuthenticationError, 403: AuthenticationError, 404: ModelNotFoundError}
    by_status |= {402: RateLimitError, 429: RateLimitError}
    return by_status.get(status, BadRequestError)


def error_in_answer(body: Any) -> ProviderError:
    """The error in a 200 answer. It may be tried again, but for what no repetition can mend."""
    message, words = error_message(body)
    cls = error_class(message, words)
    hopeless = issubclass(cls, AuthenticationError | ModelNotFoundError | ContextLengthError)
    return cls(message, should_retry=not hopeless)

"""What the four wire formats have in common: messages are encoded once, a request is a head and the encoded ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from nbagent.core.events import Event
from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.providers.formats import Functions, dumps
from nbagent.providers.formats.images import sendable
from nbagent.providers.formats.refused import IMAGES, Changes, changed_head
from nbagent.providers.vendor import Vendor


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


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for beside the conversation. `extra` are body fields that win over the vendor's defaults."""

    model: str
    functions: Functions | None = None
    stream: bool = True
    temperature: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    #: The text of the system messages, for formats which have a place of its own for it.
    system: str = ""


class Codec(ABC):
    """One wire format with one vendor's facts. It does no I/O and keeps nothing of a conversation."""

    #: The format's name.
    format: ClassVar[str]
    #: The field of a request's body that holds the conversation.
    conversation: ClassVar[str] = "messages"
    #: Where the models are listed, after the base URL.
    models_path: ClassVar[str] = "/models"

    def __init__(self, vendor: Vendor) -> None:
        self.vendor = vendor
        #: Where a message keeps its encoded form: one for all codecs that encode it alike.
        self._key = f"{self.format} {self._facts()}"

    def _facts(self) -> tuple[object, ...]:
        """What decides how a message is encoded."""
        return (self.vendor.name,)

    @abstractmethod
    def path(self, model: str, stream: bool) -> str:
        """Where requests go, after the base URL."""

    @abstractmethod
    def decoder(self) -> Decoder:
        """A decoder for one streamed answer."""

    @abstractmethod
    def decode_body(self, body: dict[str, Any]) -> LLMResponse:
        """The answer in one JSON body."""

    @abstractmethod
    def output_options(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """The options that hold the answer to a JSON Schema; none where this vendor has none."""

    @abstractmethod
    def _pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        """What one message is on the wire: messages, items, blocks or parts; none where there is nothing to say."""

    @abstractmethod
    def _head(self, wanted: Wanted) -> dict[str, Any]:
        """All of a body but the conversation."""

    @abstractmethod
    def _fragments(self, messages: Sequence[LLMMessage]) -> list[bytes]:
        """The encoded conversation, one element of the body's list each."""

    def _replays(self, message: LLMMessage) -> bool:
        """Whether an answer's images go back to the vendor as they came, in the answer itself."""
        return False

    def encode_message(self, message: LLMMessage) -> bytes:
        """One message's pieces as JSON, joined by commas and kept with the message; empty where there are none."""
        fragment: bytes | None = message.encoded.get(self._key)
        if fragment is None:
            fragment = message.encoded[self._key] = b",".join(map(dumps, self._pieces(message)))
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
        """A request's body. `changes` holds the fields that this model refuses. Only new messages cost anything.

        Raises `ImageInputError` where the question holds an image and the model takes none.
        """
        blind = IMAGES in (changes or {}) or not self.vendor.takes_images(model)
        messages = sendable(messages, self.vendor, blind, self._replays)
        system = "\n\n".join(message.text for message in messages if message.role == "system" and message.content)
        wanted = Wanted(model, functions, stream, temperature, extra or {}, system)
        head, fragments = self._parts(wanted, messages)
        head = changed_head(head, changes or {})
        opening = dumps(head)[:-1] + (b"," if head else b"")
        return b"".join((opening, b'"', self.conversation.encode(), b'":[', b",".join(fragments), b"]}"))

    def _parts(self, wanted: Wanted, messages: Sequence[LLMMessage]) -> tuple[dict[str, Any], list[bytes]]:
        """The head and the encoded conversation."""
        return self._head(wanted), self._fragments(messages)

    def _temperature(self, wanted: Wanted) -> dict[str, float]:
        """The temperature as a field, where one is given: not below the lowest that the vendor takes."""
        if wanted.temperature is None:
            return {}
        return {"temperature": max(wanted.temperature, self.vendor.min_temperature)}

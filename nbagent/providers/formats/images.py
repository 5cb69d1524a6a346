"""Images in a conversation, in the places and forms that a provider takes; and the images of an answer.

For text-only models, earlier images become short descriptions, so that a conversation with images can continue with any
model. Only an image in the prompt itself is an error: without it, the prompt would mean something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from nbagent.core.content.images import Image, Part, content_as_text, has_image, image_note
from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError, ImageInputError
from nbagent.providers.provider_facts import ProviderFacts

T = TypeVar("T")

_NO_IMAGES = "not shown: this model takes no images"
_NO_ADDRESSES = "not shown: this provider does not fetch images from there"
_BELOW = "shown in the next message"
_CAPTIONS = {"assistant": "The images of the answer above:", "tool": "Images returned by the tool above:"}


def without_images(messages: Sequence[LLMMessage], provider: str = "", model: str = "") -> list[LLMMessage]:
    """The conversation with descriptions in place of images. Raises `ImageInputError` if the prompt has one."""
    if messages and messages[-1].role == "user" and has_image(messages[-1].content):
        held = content_as_text([part for part in _parts(messages[-1]) if part.get("type") == "image"])
        text = f"this model takes no images, but the question holds {held.replace(chr(10), ', ')}"
        raise ImageInputError(text, provider=provider, model=model)
    return [_cached(message, _described) if has_image(message.content) else message for message in messages]


def sendable_messages(
    messages: Sequence[LLMMessage], facts: ProviderFacts, text_only: bool, holds_images: Callable[[LLMMessage], bool]
) -> Sequence[LLMMessage]:
    """The conversation with its images where the provider accepts them, and descriptions of the others.

    With `text_only` the model accepts none. Images of an answer and of its calls' results follow in user messages,
    unless the provider accepts them in the answer or result itself (`holds_images`).
    """
    if text_only:
        return without_images(messages)
    sent: list[LLMMessage] = []
    below: list[LLMMessage] = []
    for message in messages:
        if below and message.role != "tool":
            sent += below
            below = []
        taken = message
        if has_image(message.content):
            taken = _fetched(message, facts, asked=message is messages[-1] and message.role == "user")
            if not holds_images(taken):
                taken, images = _cached(taken, _split_off_images)
                below += images
        sent.append(taken)
    return sent + below


def _fetched(message: LLMMessage, facts: ProviderFacts, asked: bool) -> LLMMessage:
    """The message with descriptions of images at addresses that the provider does not fetch."""
    unknown = [part for part in _parts(message) if part.get("type") == "image" and _unfetched(part, facts)]
    if not unknown:
        return message
    if asked:
        raise ConfigurationError(
            f"{facts.name} does not fetch images from {unknown[0]['url']!r}. Download the image, and pass its bytes "
            "or its pathlib.Path."
        )
    words = [{"type": "text", "text": f"\n{image_note(part, _NO_ADDRESSES)}\n"} for part in unknown]
    return message.replace(content=[words[unknown.index(p)] if p in unknown else p for p in _parts(message)])


def _unfetched(part: Part, facts: ProviderFacts) -> bool:
    return "url" in part and not re.match(facts.image_urls, part["url"])


def _described(message: LLMMessage) -> LLMMessage:
    return message.replace(content=content_as_text(message.content, _NO_IMAGES))


def _split_off_images(message: LLMMessage) -> tuple[LLMMessage, list[LLMMessage]]:
    """An answer or a result with descriptions of its images, and the images in a user message."""
    images = [part for part in _parts(message) if part.get("type") == "image"]
    words = message.replace(content=content_as_text(message.content, _BELOW))
    caption = {"type": "text", "text": _CAPTIONS[message.role]}
    return words, [LLMMessage("user", [caption, *images])] if images else []


def _parts(message: LLMMessage) -> list[Part]:
    return [] if isinstance(message.content, str) else message.content


def _cached(message: LLMMessage, make: Callable[[LLMMessage], T]) -> T:
    """`make(message)`, cached in the message, so a conversation is converted and encoded only once."""
    if make.__name__ not in message.encoded:
        message.encoded[make.__name__] = make(message)
    made: T = message.encoded[make.__name__]
    return made


class AnswerImages:
    """The images of an answer, each with its place in the text."""

    def __init__(self) -> None:
        self._placed: list[tuple[int, Part]] = []

    def add(self, place: int, source: Any) -> None:
        """Add an image: base64, a `data:` URL, or an address, which is kept and never fetched.

        Data in an unknown format is omitted, whatever it claims to be, since it must not be displayed.
        """
        if not isinstance(source, str):
            return
        if source.startswith(("https://", "http://")):
            part: Part = {"type": "image", "url": source}
        else:
            data = source.partition(",")[2] if source.startswith("data:") else source
            image = Image.from_part({"data": data})
            if image is None:
                return
            part = image.to_part()
        if not any(part == placed for _, placed in self._placed):  # some providers repeat an image in a later chunk
            self._placed.append((place, part))

    def parts(self, text: str) -> list[Part]:
        """The text with the images in their places. Empty without images."""
        parts: list[Part] = []
        done = 0
        for place, part in self._placed:
            if place > done:
                parts.append({"type": "text", "text": text[done:place]})
                done = place
            parts.append(part)
        if text[done:]:
            parts.append({"type": "text", "text": text[done:]})
        return parts if self._placed else []

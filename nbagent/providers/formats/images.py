"""Puts a conversation's images into the places and forms that a provider accepts, and collects the images in an answer.

For text-only models, earlier images become short descriptions, so a conversation with images can continue with any
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

_NO_IMAGES = "not shown: this model does not accept images"
_NO_ADDRESSES = "not shown: this provider does not fetch images from there"
_BELOW = "shown in the next message"
_CAPTIONS = {"assistant": "The images of the answer above:", "tool": "Images returned by the tool above:"}


def without_images(messages: Sequence[LLMMessage], provider: str = "", model: str = "") -> list[LLMMessage]:
    """The conversation with descriptions instead of images. Raises `ImageInputError` if the prompt has an image."""
    if messages and messages[-1].role == "user" and has_image(messages[-1].content):
        images = content_as_text([part for part in _parts(messages[-1]) if part.get("type") == "image"])
        text = f"this model does not accept images, but the prompt contains {images.replace(chr(10), ', ')}"
        raise ImageInputError(text, provider=provider, model=model)
    return [_cached(message, _described) if has_image(message.content) else message for message in messages]


def sendable_messages(
    messages: Sequence[LLMMessage], facts: ProviderFacts, text_only: bool, holds_images: Callable[[LLMMessage], bool]
) -> Sequence[LLMMessage]:
    """The conversation with every image that the provider accepts, and with descriptions instead of the others.

    If `text_only`, all images become descriptions. An image in an answer or tool result moves to a user message after
    it, unless the provider accepts images there (`holds_images`).
    """
    if text_only:
        return without_images(messages)
    sent: list[LLMMessage] = []
    below: list[LLMMessage] = []
    for message in messages:
        if below and message.role != "tool":
            sent += below
            below = []
        sendable = message
        if has_image(message.content):
            sendable = _fetched(message, facts, is_prompt=message is messages[-1] and message.role == "user")
            if not holds_images(sendable):
                sendable, images = _cached(sendable, _split_off_images)
                below += images
        sent.append(sendable)
    return sent + below


def _fetched(message: LLMMessage, facts: ProviderFacts, is_prompt: bool) -> LLMMessage:
    """The message with descriptions of images at addresses that the provider does not fetch."""
    images = [part for part in _parts(message) if part.get("type") == "image" and "url" in part]
    unknown = [part for part in images if not re.match(facts.image_urls, part["url"])]
    if not unknown:
        return message
    if is_prompt:
        raise ConfigurationError(
            f"{facts.name} does not fetch images from {unknown[0]['url']!r}. Download the image, and pass its bytes "
            "or its pathlib.Path."
        )
    notes = [{"type": "text", "text": f"\n{image_note(part, _NO_ADDRESSES)}\n"} for part in unknown]
    return message.replace(content=[notes[unknown.index(p)] if p in unknown else p for p in _parts(message)])


def _described(message: LLMMessage) -> LLMMessage:
    return message.replace(content=content_as_text(message.content, _NO_IMAGES))


def _split_off_images(message: LLMMessage) -> tuple[LLMMessage, list[LLMMessage]]:
    """An answer or result with descriptions of its images, and a user message with the images."""
    images = [part for part in _parts(message) if part.get("type") == "image"]
    described = message.replace(content=content_as_text(message.content, _BELOW))
    caption = {"type": "text", "text": _CAPTIONS[message.role]}
    return described, [LLMMessage("user", [caption, *images])] if images else []


def _parts(message: LLMMessage) -> list[Part]:
    return [] if isinstance(message.content, str) else message.content


def _cached(message: LLMMessage, make: Callable[[LLMMessage], T]) -> T:
    """`make(message)`, cached in the message, so that it is converted and encoded only once."""
    if make.__name__ not in message.encoded:
        message.encoded[make.__name__] = make(message)
    result: T = message.encoded[make.__name__]
    return result


class AnswerImages:
    """The images in an answer, each with its place in the text."""

    def __init__(self) -> None:
        self._placed: list[tuple[int, Part]] = []

    def add(self, place: int, source: Any) -> None:
        """Add an image, given as base64, a `data:` URL or an address. Addresses are kept and never fetched.

        Data in an unknown format is dropped, whatever type it declares, since it must not be displayed.
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
        """The parts of an answer: its text with the images in their places. Empty if there are no images."""
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

"""Images in a conversation, in the places and forms that a vendor takes; and the images of an answer.

What can't be sent is replaced by a few words, so that a conversation with images goes on with any model. Only an image
in the question itself is an error then: without it the question would mean something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from nbagent.core.content.images import Image, Part, content_as_text, has_image, image_note
from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError, ImageInputError
from nbagent.providers.vendor import Vendor

T = TypeVar("T")

_NO_IMAGES = "not shown: this model takes no images"
_NO_ADDRESSES = "not shown: this vendor does not fetch images from there"
_BELOW = "shown in the next message"
_CAPTION = "The images of the answer above:"


def without_images(messages: Sequence[LLMMessage], vendor: str = "", model: str = "") -> list[LLMMessage]:
    """The conversation with words in place of its images. Raises `ImageInputError` for one in the question itself."""
    if messages and messages[-1].role == "user" and has_image(messages[-1].content):
        held = content_as_text([part for part in _parts(messages[-1]) if part.get("type") == "image"])
        text = f"this model takes no images, and the question holds {held.replace(chr(10), ', ')}"
        raise ImageInputError(text, vendor=vendor, model=model)
    return [_kept(message, _in_words) if has_image(message.content) else message for message in messages]


def sendable(
    messages: Sequence[LLMMessage], vendor: Vendor, blind: bool, replays: Callable[[LLMMessage], bool]
) -> Sequence[LLMMessage]:
    """The conversation with its images where the vendor takes them, and words in place of the others.

    `blind` tells that the model takes none. Answers can't hold images, but for those that go back to their vendor as
    they came (`replays`): the others follow the answer, and the results of its calls, in a user's message.
    """
    if all(isinstance(message.content, str) for message in messages):
        return messages
    if blind:
        return without_images(messages)
    sent: list[LLMMessage] = []
    below: LLMMessage | None = None  # the images of the last answer
    for message in messages:
        if below is not None and message.role != "tool":
            sent.append(below)
            below = None
        if not has_image(message.content):
            sent.append(message)
            continue
        taken = _fetched(message, vendor, asked=message is messages[-1] and message.role == "user")
        if taken.role == "assistant" and not replays(taken):
            taken, below = _kept(taken, _parted)
        sent.append(taken)
    return [*sent, below] if below else sent


def _fetched(message: LLMMessage, vendor: Vendor, asked: bool) -> LLMMessage:
    """The message with words in place of images at addresses that the vendor does not fetch."""
    unknown = [part for part in _parts(message) if part.get("type") == "image" and _unfetched(part, vendor)]
    if not unknown:
        return message
    if asked:
        raise ConfigurationError(
            f"{vendor.name} does not fetch images from {unknown[0]['url']!r}. Download the image, and pass its bytes "
            "or its pathlib.Path."
        )
    words = [{"type": "text", "text": f"\n{image_note(part, _NO_ADDRESSES)}\n"} for part in unknown]
    return message.replace(content=[words[unknown.index(p)] if p in unknown else p for p in _parts(message)])


def _unfetched(part: Part, vendor: Vendor) -> bool:
    return "url" in part and not re.match(vendor.image_urls, part["url"])


def _in_words(message: LLMMessage) -> LLMMessage:
    return message.replace(content=content_as_text(message.content, _NO_IMAGES))


def _parted(message: LLMMessage) -> tuple[LLMMessage, LLMMessage | None]:
    """An answer with words in place of its images, and a user's message with them."""
    images = [part for part in _parts(message) if part.get("type") == "image"]
    if not images:
        return message, None
    words = message.replace(content=content_as_text(message.content, _BELOW))
    return words, LLMMessage("user", [{"type": "text", "text": _CAPTION}, *images])


def _parts(message: LLMMessage) -> list[Part]:
    return [] if isinstance(message.content, str) else message.content


def _kept(message: LLMMessage, make: Callable[[LLMMessage], T]) -> T:
    """What was made of a message before: it holds its own encoded form, so that a conversation is encoded once."""
    if make.__name__ not in message.encoded:
        message.encoded[make.__name__] = make(message)
    made: T = message.encoded[make.__name__]
    return made


def address(part: Mapping[str, Any]) -> str:
    """The URL of an image part: its own, or one that holds the image itself."""
    return str(part["url"]) if "url" in part else f"data:{part['media_type']};base64,{part['data']}"


class Pictures:
    """The images of an answer, each with the place in the text where it came."""

    def __init__(self) -> None:
        self._placed: list[tuple[int, Part]] = []

    def __bool__(self) -> bool:
        return bool(self._placed)

    def add(self, place: int, source: Any) -> None:
        """An image as base64, as a `data:` URL, or as an address, which is kept and never fetched.

        What is none of the known formats, whatever it claims to be, is left out: it is not for displaying.
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
        if not any(part == placed for _, placed in self._placed):  # some send an image again in a later chunk
            self._placed.append((place, part))

    def metadata(self, text: str) -> dict[str, list[Part]]:
        """`parts`: the text with the images in their places; nothing where there are no images."""
        parts: list[Part] = []
        done = 0
        for place, part in self._placed:
            if place > done:
                parts.append({"type": "text", "text": text[done:place]})
                done = place
            parts.append(part)
        if text[done:]:
            parts.append({"type": "text", "text": text[done:]})
        return {"parts": parts} if self._placed else {}

"""What clients send as the content of a message, in the forms of both APIs, as nbagent's own content.

Images come as `data:` URLs, or as addresses that the vendor fetches. Nothing here reads a file or an address.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbagent.core.content.images import image_part, joined_content
from nbagent.core.messages import Content
from nbagent.errors import ConfigurationError
from nbagent.server.routes.openai.body import BodyPart
from nbagent.server.routes.openai.errors import ParameterError, unsupported


class ImageURL(BodyPart):
    """Where an image is, in chat completions."""

    url: str


class Part(BodyPart):
    """A part of a content: a text, a refusal or an image, of either API."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | ImageURL | None = None


def content_from(content: str | Sequence[Part] | None, param: str) -> Content:
    """The content of a message. `param` names it in errors, such as `messages[0].content`."""
    if content is None or isinstance(content, str):
        return content or ""
    return joined_content(_part_from(part, f"{param}[{index}]") for index, part in enumerate(content))


def _part_from(part: Part, param: str) -> dict[str, Any]:
    if part.type in ("text", "input_text", "output_text", "summary_text", "reasoning_text", "refusal"):
        text = part.refusal if part.type == "refusal" else part.text
        if text is None:
            raise ParameterError(param, "its text is missing.")
        return {"type": "text", "text": text}
    if part.type not in ("image_url", "input_image"):
        raise unsupported(param, f"{part.type} is not supported: send text, and images as URLs.")
    address = part.image_url.url if isinstance(part.image_url, ImageURL) else part.image_url
    if address is None:
        raise unsupported(param, "uploaded files are not supported: pass image_url, which may be a data: URL.")
    try:
        return image_part({"type": "image", "url": address})
    except ConfigurationError as error:
        raise ParameterError(param, str(error), "invalid_image") from None

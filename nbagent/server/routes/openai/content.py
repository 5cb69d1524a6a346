"""What clients send as the content of a message, in the forms of both APIs, as nbagent's own content.

Images come as `data:` URLs, or as addresses that the vendor fetches. Nothing here reads a file or an address.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from nbagent.core.content.images import image_part, joined_content
from nbagent.core.messages import Content
from nbagent.errors import ConfigurationError
from nbagent.server.routes.openai.errors import ParameterError, unsupported
from nbagent.server.routes.openai.form import BodyPart


class TextPart(BodyPart):
    """A text: `text` in chat completions, the others in responses."""

    type: Literal["text", "input_text", "output_text", "summary_text", "reasoning_text"]
    text: str


class RefusalPart(BodyPart):
    """What an assistant said when it refused to answer."""

    type: Literal["refusal"]
    refusal: str


class ImageURL(BodyPart):
    """Where an image is."""

    url: str = Field(examples=["data:image/png;base64,iVBORw0KGgo="])


class ChatImagePart(BodyPart):
    """An image of chat completions."""

    type: Literal["image_url"]
    image_url: ImageURL | str


class ResponseImagePart(BodyPart):
    """An image of responses."""

    type: Literal["input_image"]
    image_url: str | None = None


class OtherPart(BodyPart):
    """Files and sounds, which an agent can't read."""

    type: Literal["file", "input_file", "input_audio", "input_video"]


Part = Annotated[TextPart | RefusalPart | ChatImagePart | ResponseImagePart | OtherPart, Field(discriminator="type")]


def content_from(content: str | Sequence[Part] | None, param: str) -> Content:
    """The content of a message. `param` names it in errors, such as `messages[0].content`."""
    if content is None or isinstance(content, str):
        return content or ""
    return joined_content(_part_from(part, f"{param}[{index}]") for index, part in enumerate(content))


def _part_from(part: Part, param: str) -> dict[str, Any]:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case RefusalPart():
            return {"type": "text", "text": part.refusal}
        case ChatImagePart():
            address = part.image_url if isinstance(part.image_url, str) else part.image_url.url
        case ResponseImagePart(image_url=str() as address):
            pass
        case ResponseImagePart():
            raise unsupported(param, "uploaded files are not supported: pass image_url, which may be a data: URL.")
        case OtherPart():
            raise unsupported(param, f"{part.type} is not supported: send text, and images as URLs.")
    try:
        return image_part({"type": "image", "url": address})
    except ConfigurationError as error:
        raise ParameterError(param, str(error), "invalid_image") from None

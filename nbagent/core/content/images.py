"""Images in messages. A value from a user or a tool becomes a content part, and a part becomes an `Image` to display.

A part is plain JSON data: `{"type": "image", "media_type": "image/png", "data": base64 str}`, or `{"type": "image",
"url": "https://…"}` for an image that the provider fetches. `documents` handles other files. A file's format is
determined from its first bytes, not from its name. PIL and matplotlib objects are recognised by their class names, so
neither library is imported.
"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from nbagent.checks import SHOWN_CHARS, invalid
from nbagent.core.content.documents import document_note, file_part, is_document, pdf_part
from nbagent.core.content.pdf import PDF_MARK
from nbagent.errors import ConfigurationError, MissingDependencyError
from nbagent.text import shortened

Part = dict[str, Any]

#: Figures and PIL images are scaled down to this many pixels on the longest side, as providers do themselves.
MAX_SIDE = 1568
#: Files and bytes within these limits are sent unchanged: Claude and Zhipu accept 5 MiB of base64 and 8000 pixels.
#: https://platform.claude.com/docs/en/build-with-claude/vision
MAX_BYTES = 5 * 2**20 * 3 // 4
MAX_FILE_SIDE = 8000

_FORMATS = "PNG, JPEG, GIF or WebP"
_FILES = f"{_FORMATS}, a PDF, or text in UTF-8"
_KNOWN = ("image/png", "image/jpeg", "image/gif", "image/webp")
_ACCEPTED = (
    "Pass text, a matplotlib figure or Axes, a PIL image, a pathlib.Path, the bytes of a PNG, JPEG, GIF, WebP or "
    'PDF file, a part such as {"type": "image", "url": "https://…"}, or a list of these'
)
_PIL_MODES = ("1", "L", "LA", "P", "RGB", "RGBA")


@dataclass(frozen=True, slots=True, repr=False)
class Image:
    """An image's bytes. It displays itself in a notebook. `AgentResult.images` is a list of these.

    >>> Image(b"GIF89a", "image/gif")
    <Image gif, 6 bytes>
    """

    data: bytes
    media_type: str

    @classmethod
    def from_part(cls, part: Mapping[str, Any]) -> Image | None:
        """Return the image in a part, or None if its data is in no known format, whatever the part claims."""
        data = part.get("data")
        try:
            raw = base64.b64decode(data) if isinstance(data, str) else b""
        except ValueError:  # not base64, or not even ASCII
            return None
        media_type = image_media_type(raw)
        return cls(raw, media_type) if media_type else None

    @property
    def size(self) -> tuple[int, int] | None:
        """The width and height in pixels; None without Pillow, or if the start of the file is incomplete or broken."""
        try:
            import PIL.Image
        except ImportError:
            return None
        try:
            with PIL.Image.open(io.BytesIO(self.data)) as image:
                return image.size
        except (OSError, EOFError, SyntaxError, ValueError, PIL.Image.DecompressionBombError):
            return None

    @property
    def format(self) -> str:
        """The format: png, jpeg, gif or webp."""
        return self.media_type.removeprefix("image/")

    def to_part(self) -> Part:
        """The image's content part."""
        return {"type": "image", "media_type": self.media_type, "data": self.to_base64()}

    def to_base64(self) -> str:
        """The bytes in base64."""
        return base64.b64encode(self.data).decode("ascii")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the image to a file and return the file's path. If the suffix names another format, PIL converts the
        image.
        """
        target = Path(path).expanduser()
        ending = target.suffix.lower().lstrip(".").replace("jpg", "jpeg")
        if ending in ("", self.format):
            target.write_bytes(self.data)
        else:
            picture = self.to_pil()
            (picture.convert("RGB") if ending == "jpeg" else picture).save(target)
        return target

    def to_pil(self) -> Any:
        """Return the image as a `PIL.Image.Image`. Raises `MissingDependencyError` without Pillow."""
        return _opened(self.data, "The image")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {self.media_type: self.to_base64(), "text/plain": repr(self)}

    def __repr__(self) -> str:
        n = len(self.data)
        return f"<Image {_shape(self)}, {f'{n / 1000:,.0f} kB' if n >= 1000 else f'{n} bytes'}>"


def is_image_object(value: Any) -> bool:
    """Whether a value is an `Image`, a PIL image, a matplotlib figure, or part of a figure."""
    return isinstance(value, Image) or matplotlib_figure(value) is not None or _is_pil(value)


def is_image(value: Any) -> bool:
    """Whether a value is meant as an image or document: an image object, a path, bytes or a file, but not a string."""
    return is_image_object(value) or isinstance(value, (os.PathLike, bytes, bytearray, memoryview, io.IOBase))


def has_image(content: str | Iterable[Mapping[str, Any]]) -> bool:
    """Whether a message's content includes an image part."""
    return not isinstance(content, str) and any(part.get("type") == "image" for part in content)


def images_in(content: str | Iterable[Mapping[str, Any]]) -> list[Image]:
    """Return the images in a message's content, in order. Images given as URLs are omitted."""
    parts = [] if isinstance(content, str) else [part for part in content if part.get("type") == "image"]
    return [image for part in parts if (image := Image.from_part(part)) is not None]


def content_parts(items: Iterable[Any]) -> list[Part]:
    """Combine texts, images and parts into the content of one message. Raises `ConfigurationError` for anything else.

    >>> content_parts(["What is this?", Image(b"GIF89a", "image/gif")])[1]["media_type"]
    'image/gif'
    """
    return [{"type": "text", "text": item} if isinstance(item, str) else image_part(item) for item in items]


def joined_content(parts: Iterable[Part]) -> str | list[Part]:
    """Combine parts into a message's content. Adjacent texts are joined. If all parts are text, the content is a
    string.

    >>> joined_content([{"type": "text", "text": "Which "}, {"type": "text", "text": "species?"}])
    'Which species?'
    """
    joined: list[Part] = []
    for is_text, group in groupby(parts, lambda part: part["type"] == "text"):
        same = list(group)
        joined += [{**same[-1], "text": "".join(part["text"] for part in same)}] if is_text else same
    if all(part["type"] == "text" for part in joined):
        return "".join(part["text"] for part in joined)
    return joined


def image_part(value: Any) -> Part:
    """Return the content part of an image or a document. Parts of other types are returned unchanged.

    Figures and PIL images become PNGs of at most `MAX_SIDE` pixels on each side. Bytes and files are scaled down only
    if they exceed the providers' limits. Raises `ConfigurationError` for anything else.
    """
    if isinstance(value, Mapping):
        return _known_part(dict(value))
    if isinstance(value, Image):
        return _from_bytes(value.data, "The image")
    if (figure := matplotlib_figure(value)) is not None:
        return _from_figure(figure)
    if _is_pil(value):
        return _from_pil(value)
    if isinstance(value, os.PathLike):
        return _from_path(value)
    if isinstance(value, io.IOBase):
        content = value.getvalue() if isinstance(value, io.BytesIO) else value.read()
        return _from_file(content, getattr(value, "name", type(value).__name__))
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        if data.startswith(PDF_MARK):
            return pdf_part(data, "document.pdf")
        return _from_bytes(data, f"The {type(value).__name__} value")
    raise unsupported_content(value)


def unsupported_content(value: Any) -> ConfigurationError:
    """Return the error for a value that is neither text nor an image. It lists the valid types."""
    shown = shortened(repr(value), SHOWN_CHARS)
    return ConfigurationError(f"A message can't hold {shown} (type {type(value).__name__}). {_ACCEPTED}.")


def _known_part(part: Part) -> Part:
    """A user's part: read its path, encode its bytes, check its URL."""
    if part.get("type") == "image_url":  # the chat-completions form
        address = part.get("image_url")
        part = {"type": "image", "url": address.get("url") if isinstance(address, Mapping) else address}
    if "path" in part and part.get("type") in ("image", "document"):
        return _from_path(part["path"])
    if part.get("type") != "image":
        if "type" not in part:
            raise unsupported_content(part)
        return part
    data, url = part.get("data"), part.get("url")
    if isinstance(url, str) and url.startswith("data:"):
        data = url.partition(",")[2]
    elif isinstance(url, str):
        if not url.startswith(("https://", "http://", "gs://")):
            fix = f"For a file, pass pathlib.Path({url!r})."
            raise invalid("image url", url, "a URL that starts with https://, http:// or gs://", fix)
        return part
    if isinstance(data, str) and data:
        image = Image.from_part({"data": data})
        if image is None and part.get("media_type", _KNOWN[0]) in _KNOWN:
            return _from_bytes(data.encode(), "The image part's data")
        known = {"data": data, "media_type": image.media_type} if image else {}
        return {key: value for key, value in part.items() if key != "url"} | known
    if isinstance(data, (bytes, bytearray, memoryview)):
        return _from_bytes(bytes(data), "The image part's data")
    raise unsupported_content(part)


def _from_path(path: str | os.PathLike[str]) -> Part:
    file = Path(path).expanduser()
    try:
        data = file.read_bytes()
    except OSError as exc:
        where = "" if file.is_absolute() else f" The current folder is {str(Path.cwd())!r}."
        reason = exc.strerror or type(exc).__name__
        raise ConfigurationError(f"The file {str(file)!r} can't be read: {reason}.{where}") from None
    return _from_file(data, str(file))


def _from_file(data: Any, name: Any) -> Part:
    """An image, a PDF, or text in UTF-8."""
    if isinstance(data, bytes) and image_media_type(data) is None:
        part = file_part(data, Path(str(name)).name)
        if part is not None:
            return part
    return _from_bytes(data, f"The file {name!r}", _FILES)


def _from_bytes(data: Any, name: str, accepted: str = _FORMATS) -> Part:
    """Check the data, and scale the image down to the providers' limits."""
    if not data:
        raise ConfigurationError(f"{name} is empty. Pass {accepted}.")
    media_type = image_media_type(data) if isinstance(data, bytes) else None
    if media_type is None:
        raise ConfigurationError(
            f"{name} is not in a format that models accept: it starts with {data[:12]!r}. Pass {accepted}, or open it "
            "with PIL.Image.open() and pass the result."
        )
    image = Image(data, media_type)
    if len(data) > MAX_BYTES or max(image.size or (0,)) > MAX_FILE_SIDE:
        return _from_pil(_opened(data, f"{name} ({_shape(image)}, {len(data) / 1e6:.1f} MB) is too large to send, and"))
    return image.to_part()


def _opened(data: bytes, name: str) -> Any:
    """The bytes as a PIL image, turned upright."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError:
        raise MissingDependencyError(
            f"{name} can't be opened without Pillow: pip install pillow, or pass a smaller image."
        ) from None
    try:
        image = PIL.Image.open(io.BytesIO(data))
        image.load()
        return PIL.ImageOps.exif_transpose(image)
    except (OSError, SyntaxError, ValueError, PIL.Image.DecompressionBombError) as exc:
        raise ConfigurationError(f"{name} can't be opened: {exc}. Pass a complete or smaller file.") from None


def _from_pil(value: Any) -> Part:
    """As PNG, or as JPEG if the PNG would be too large."""
    image = value.copy() if value.mode in _PIL_MODES else value.convert("RGB")
    image.thumbnail((MAX_SIDE, MAX_SIDE))
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    if len(buffer.getvalue()) > MAX_BYTES:
        buffer = io.BytesIO()
        image.convert("RGB").save(buffer, format="JPEG", quality=90)
        return Image(buffer.getvalue(), "image/jpeg").to_part()
    return Image(buffer.getvalue(), "image/png").to_part()


def _from_figure(figure: Any) -> Part:
    buffer = io.BytesIO()
    drawn = figure.get_tightbbox()  # in inches, with all labels and without wide margins, as in notebooks
    figure.savefig(buffer, format="png", dpi=min(100.0, MAX_SIDE / (max(drawn.size) + 0.2)), bbox_inches="tight")
    return Image(buffer.getvalue(), "image/png").to_part()


def _is_pil(value: Any) -> bool:
    return any(base.__module__ == "PIL.Image" for base in type(value).__mro__)


def matplotlib_figure(value: Any) -> Any:
    """The matplotlib figure that a value is or belongs to (plotting functions often return axes), or None."""
    if callable(getattr(type(value), "savefig", None)):
        return getattr(value, "figure", value)
    if any(base.__module__.startswith("matplotlib.") for base in type(value).__mro__):
        figure = getattr(value, "figure", None)
        return figure if callable(getattr(type(figure), "savefig", None)) else None
    return None


def image_url(part: Mapping[str, Any]) -> str:
    """An image part's own URL, or a `data:` URL with the image itself."""
    return str(part["url"]) if "url" in part else f"data:{part['media_type']};base64,{part['data']}"


def image_note(part: Mapping[str, Any], why: str = "") -> str:
    """Return a note that replaces an image. It describes the image briefly and says `why` it is missing.

    >>> image_note({"type": "image", "url": "https://a.org/cat.png"}, "not shown: this model does not accept images")
    '[image: https://a.org/cat.png, not shown: this model does not accept images]'
    """
    image = Image.from_part(part)
    what = _shape(image) if image else part.get("url") or part.get("media_type") or "unreadable"
    return f"[image: {', '.join(filter(None, (str(what), why)))}]"


def content_as_text(content: str | Iterable[Mapping[str, Any]], why: str = "") -> str:
    """Return a message's content as text. Each image and document is replaced by a note on its own line."""
    if isinstance(content, str):
        return content
    lines = [
        image_note(part, why)
        if part.get("type") == "image"
        else document_note(part)
        if is_document(part)
        else part.get("text", "")
        for part in content
    ]
    return "\n".join(filter(None, lines))


def _shape(image: Image) -> str:
    size = image.size
    return f"{size[0]}x{size[1]} {image.format}" if size else image.format


def image_media_type(data: bytes) -> str | None:
    """Determine an image's media type from its first bytes. Returns None for anything but PNG, JPEG, GIF and WebP.

    >>> image_media_type(b"GIF89a..."), image_media_type(b"<svg>")
    ('image/gif', None)
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data.startswith(b"RIFF") and data[8:12] == b"WEBP" else None

"""Images: what a user or a tool hands over becomes a content part, and a part becomes something that a notebook shows.

A part is plain JSON data: `{"type": "image", "media_type": "image/png", "data": base64 str}`, or `{"type": "image",
"url": "https://…"}` for an image that the vendor is to fetch. What format an image has is told by its first bytes, not
by its name. PIL and matplotlib are known by the names of their classes: neither is imported for it.
"""

from __future__ import annotations

import base64
import binascii
import io
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nbagent.errors import ConfigurationError, MissingDependencyError

Part = dict[str, Any]

#: Pixels of the longest side of a figure or PIL image: vendors scale larger ones down themselves.
MAX_SIDE = 1568
#: Files and bytes are sent as they are up to here: 5 MiB in base64 and 8000 pixels are what Claude takes, and Zhipu.
#: https://docs.anthropic.com/en/docs/build-with-claude/vision
MAX_BYTES = 5 * 2**20 * 3 // 4
MAX_FILE_SIDE = 8000

_FORMATS = "PNG, JPEG, GIF or WebP"
_KNOWN = ("image/png", "image/jpeg", "image/gif", "image/webp")
_ACCEPTED = (
    "Give a text, a matplotlib figure or Axes, a PIL image, a pathlib.Path, the bytes of a PNG, JPEG, GIF or WebP "
    'file, a part such as {"type": "image", "url": "https://…"}, or a list of these'
)
_PIL_MODES = ("1", "L", "LA", "P", "RGB", "RGBA")


@dataclass(frozen=True, slots=True, repr=False)
class Image:
    """An image as bytes, which displays itself in a notebook. `AgentResult.images` is a list of these.

    >>> image = Image(b"GIF89a" + bytes([3, 0, 2, 0]), "image/gif")
    >>> image
    <Image 3x2 gif, 10 bytes>
    """

    data: bytes
    media_type: str

    @classmethod
    def from_part(cls, part: Mapping[str, Any]) -> Image | None:
        """The image in a part; None where it holds none of a known format, whatever it claims to be."""
        data = part.get("data")
        try:
            raw = base64.b64decode(data) if isinstance(data, str) else b""
        except binascii.Error:
            return None
        media_type = image_media_type(raw)
        return cls(raw, media_type) if media_type else None

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height in pixels; None where the file does not tell."""
        return image_size(self.data)

    @property
    def format(self) -> str:
        """png, jpeg, gif or webp."""
        return self.media_type.removeprefix("image/")

    def to_part(self) -> Part:
        """The content part that holds it."""
        return {"type": "image", "media_type": self.media_type, "data": self.to_base64()}

    def to_base64(self) -> str:
        """The bytes in base64."""
        return base64.b64encode(self.data).decode("ascii")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it to a file and return its path. Where the name ends otherwise than its format, PIL converts it."""
        target = Path(path).expanduser()
        ending = target.suffix.lower().lstrip(".").replace("jpg", "jpeg")
        if ending in ("", self.format):
            target.write_bytes(self.data)
        else:
            picture = self.to_pil()
            (picture.convert("RGB") if ending == "jpeg" else picture).save(target)
        return target

    def to_pil(self) -> Any:
        """The image as a `PIL.Image.Image`. Raises `MissingDependencyError` without Pillow."""
        return _opened(self.data, "The image")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {self.media_type: self.to_base64(), "text/plain": repr(self)}

    def __repr__(self) -> str:
        n = len(self.data)
        return f"<Image {_shape(self)}, {f'{n / 1000:,.0f} kB' if n >= 1000 else f'{n} bytes'}>"


# -- what is an image -------------------------------------------------------------------------------------------------


def is_image_object(value: Any) -> bool:
    """Whether a value is an image by its nature: an `Image`, a PIL image, a matplotlib figure or part of one."""
    return isinstance(value, Image) or matplotlib_figure(value) is not None or _is_pil(value)


def is_image(value: Any) -> bool:
    """Whether a user who passes this value means an image: pictures, paths, bytes and files; never a string."""
    return is_image_object(value) or isinstance(value, (os.PathLike, bytes, bytearray, memoryview, io.IOBase))


def has_image(content: str | Iterable[Mapping[str, Any]]) -> bool:
    """Whether a message's content holds an image part."""
    return not isinstance(content, str) and any(part.get("type") == "image" for part in content)


def images_in(content: str | Iterable[Mapping[str, Any]]) -> list[Image]:
    """The images in a message's content, in order; those that are only addresses are left out."""
    parts = [] if isinstance(content, str) else [part for part in content if part.get("type") == "image"]
    return [image for part in parts if (image := Image.from_part(part)) is not None]


# -- values into parts ------------------------------------------------------------------------------------------------


def content_parts(items: Iterable[Any]) -> list[Part]:
    """Texts, images and parts as the content of one message. Raises `ConfigurationError` for anything else.

    >>> content_parts(["What is this?", Image(b"GIF89a", "image/gif")])[1]["media_type"]
    'image/gif'
    """
    return [{"type": "text", "text": item} if isinstance(item, str) else image_part(item) for item in items]


def image_part(value: Any) -> Part:
    """The content part of an image; parts of other kinds pass as they are.

    Figures and PIL images become PNG of at most `MAX_SIDE` pixels; bytes and files are kept as they are, unless they
    are larger than vendors take, and then scaled down by PIL. Raises `ConfigurationError` for what is no image.
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
        return _from_bytes(content, f"The file {getattr(value, 'name', type(value).__name__)!r}")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _from_bytes(bytes(value), f"The {type(value).__name__} value")
    raise unsupported_content(value)


def unsupported_content(value: Any) -> ConfigurationError:
    """The error about a value that is neither text nor image: it says what can be given."""
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:60]}…"
    return ConfigurationError(f"A message can't hold {shown} (a {type(value).__name__}). {_ACCEPTED}.")


def _known_part(part: Part) -> Part:
    """A part that the user wrote: paths are read, bytes encoded, addresses looked at."""
    if part.get("type") == "image_url":  # as chat completions have it
        address = part.get("image_url")
        part = {"type": "image", "url": address.get("url") if isinstance(address, Mapping) else address}
    if part.get("type") != "image":
        if "type" not in part:
            raise unsupported_content(part)
        return part
    if "path" in part:
        return _from_path(part["path"])
    data, url = part.get("data"), part.get("url")
    if isinstance(url, str) and url.startswith("data:"):
        data = url.partition(",")[2]
    elif isinstance(url, str):
        if not url.startswith(("https://", "http://", "gs://")):
            raise ConfigurationError(f"{url!r} is no address of an image. For a file, give pathlib.Path({url!r}).")
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
        raise ConfigurationError(f"The image {str(file)!r} can't be read: {reason}.{where}") from None
    return _from_bytes(data, f"The file {str(file)!r}")


def _from_bytes(data: Any, name: str) -> Part:
    """Checked, and within the vendors' limits."""
    if not data:
        raise ConfigurationError(f"{name} is empty: there is no image in it.")
    media_type = image_media_type(data) if isinstance(data, bytes) else None
    if media_type is None:
        raise ConfigurationError(
            f"{name} is no image that models take: it begins with {data[:12]!r}. Give {_FORMATS}; "
            "PIL.Image.open() reads many other formats, and its images can be given too."
        )
    image = Image(data, media_type)
    if len(data) > MAX_BYTES or max(image.size or (0,)) > MAX_FILE_SIDE:
        return _from_pil(_opened(data, f"{name} ({_shape(image)}, {len(data) / 1e6:.1f} MB) is too large to send, and"))
    return image.to_part()


def _opened(data: bytes, name: str) -> Any:
    """The PIL image in some bytes, upright."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError:
        raise MissingDependencyError(
            f"{name} can't be opened without Pillow: pip install pillow, or give a smaller one."
        ) from None
    try:
        image = PIL.Image.open(io.BytesIO(data))
        image.load()
        return PIL.ImageOps.exif_transpose(image)
    except (OSError, SyntaxError, ValueError, PIL.Image.DecompressionBombError) as exc:
        raise ConfigurationError(f"{name} can't be opened: {exc}. Give a whole file, or a smaller one.") from None


def _from_pil(value: Any) -> Part:
    """PNG, or JPEG where that would be too large."""
    image = value if value.mode in _PIL_MODES else value.convert("RGB")
    image = image.copy()
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
    drawn = figure.get_tightbbox()  # inches; as notebooks show figures: with their labels, without wide margins
    figure.savefig(buffer, format="png", dpi=min(100.0, MAX_SIDE / (max(drawn.size) + 0.2)), bbox_inches="tight")
    return Image(buffer.getvalue(), "image/png").to_part()


def _is_pil(value: Any) -> bool:
    return any(base.__module__ == "PIL.Image" for base in type(value).__mro__)


def matplotlib_figure(value: Any) -> Any:
    """The matplotlib figure that a value is, or belongs to (plotting functions often return axes); else None."""
    if callable(getattr(type(value), "savefig", None)):
        return getattr(value, "figure", value)
    if any(base.__module__.startswith("matplotlib.") for base in type(value).__mro__):
        figure = getattr(value, "figure", None)
        return figure if callable(getattr(type(figure), "savefig", None)) else None
    return None


# -- parts into words -------------------------------------------------------------------------------------------------


def image_note(part: Mapping[str, Any], why: str = "") -> str:
    """A few words in place of an image, with the reason why it is not there.

    >>> image_note({"type": "image", "url": "https://example.org/cat.png"}, "not shown: this model takes no images")
    '[image: https://example.org/cat.png, not shown: this model takes no images]'
    """
    image = Image.from_part(part)
    what = _shape(image) if image else part.get("url") or part.get("media_type") or "unreadable"
    return f"[image: {', '.join(filter(None, (str(what), why)))}]"


def content_as_text(content: str | Iterable[Mapping[str, Any]], why: str = "") -> str:
    """A message's content as text, each image as an `image_note` on a line of its own."""
    if isinstance(content, str):
        return content
    lines = [image_note(part, why) if part.get("type") == "image" else part.get("text", "") for part in content]
    return "\n".join(filter(None, lines))


def _shape(image: Image) -> str:
    size = image.size
    return f"{size[0]}x{size[1]} {image.format}" if size else image.format


# -- image files: format and size from their first bytes ---------------------------------------------------------------


def image_media_type(data: bytes) -> str | None:
    """The media type of an image by its first bytes; None for anything but PNG, JPEG, GIF and WebP.

    >>> image_media_type(b"GIF89a..."), image_media_type(b"<svg>")
    ('image/gif', None)
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height in pixels, out of the head of an image file; None where it does not tell.

    >>> image_size(b"GIF89a" + bytes([3, 0, 2, 0]))
    (3, 2)
    """
    try:
        return _size(data)
    except IndexError:
        return None


def _size(data: bytes) -> tuple[int, int] | None:
    """Raises IndexError where the file ends too early."""
    kind = image_media_type(data)
    if kind == "image/png":
        return _number(data, 16, 4, "big"), _number(data, 20, 4, "big")
    if kind == "image/gif":
        return _number(data, 6, 2, "little"), _number(data, 8, 2, "little")
    if kind == "image/webp":
        return _webp_size(data)
    return _jpeg_size(data) if kind == "image/jpeg" else None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    """https://developers.google.com/speed/webp/docs/riff_container"""
    match data[12:16]:
        case b"VP8 ":
            return _number(data, 26, 2, "little") & 0x3FFF, _number(data, 28, 2, "little") & 0x3FFF
        case b"VP8L":
            bits = _number(data, 21, 4, "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return _number(data, 24, 3, "little") + 1, _number(data, 27, 3, "little") + 1
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """In the first start-of-frame segment (C0 to CF, but for three that mean something else)."""
    place = 2
    while data[place] == 0xFF:
        marker = data[place + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _number(data, place + 7, 2, "big"), _number(data, place + 5, 2, "big")
        place += 1 if marker == 0xFF else 2 + _number(data, place + 2, 2, "big")
    return None


def _number(data: bytes, at: int, length: int, order: Literal["big", "little"]) -> int:
    if len(data) < at + length:
        raise IndexError(at)
    return int.from_bytes(data[at : at + length], order)

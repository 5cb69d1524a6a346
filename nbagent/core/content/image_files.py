"""Image files by their first bytes: which format, how large. Only the four formats that models take are known."""

from __future__ import annotations

from typing import Literal


def sniff(data: bytes) -> str | None:
    """The media type of an image by its first bytes; None for anything but PNG, JPEG, GIF and WebP.

    >>> sniff(b"GIF89a..."), sniff(b"<svg>")
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


def size_of(data: bytes) -> tuple[int, int] | None:
    """Width and height in pixels, out of the head of an image file; None where it does not tell.

    >>> size_of(b"GIF89a" + bytes([3, 0, 2, 0]))
    (3, 2)
    """
    try:
        return _size(data)
    except IndexError:
        return None


def _size(data: bytes) -> tuple[int, int] | None:
    """Raises IndexError where the file ends too early."""
    kind = sniff(data)
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

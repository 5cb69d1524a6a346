"""Where the body of an HTTP/1.1 answer ends, and what of it is in the bytes that came (RFC 9112, sections 6 and 7)."""

from __future__ import annotations

import re
from typing import Protocol

Headers = list[tuple[bytes, bytes]]

#: A line with a chunk's size, or a trailer.
LONGEST_LINE = 16 * 2**10
_SIZE = re.compile(rb"[0-9a-fA-F]{1,15}")


class Framing(Protocol):
    """Takes the body out of the bytes of a connection. `complete` when all of it was taken."""

    complete: bool

    def take(self, buffer: bytearray) -> bytes:
        """What of the body is in `buffer`, which loses it. Raises ValueError for what can't be read."""


class Sized:
    """So many bytes (content-length)."""

    def __init__(self, size: int) -> None:
        self._left = size
        self.complete = size == 0

    def take(self, buffer: bytearray) -> bytes:
        """See `Framing`."""
        piece = bytes(buffer[: self._left])
        del buffer[: self._left]
        self._left -= len(piece)
        self.complete = not self._left
        return piece


class UntilEnd:
    """All that comes until the server closes the connection."""

    complete = False

    def take(self, buffer: bytearray) -> bytes:
        """See `Framing`."""
        piece = bytes(buffer)
        buffer.clear()
        return piece


class Chunked:
    """Chunks, each after a line with its size; size 0 and an empty line end them (transfer-encoding: chunked)."""

    def __init__(self) -> None:
        self.complete = False
        self._left = 0  # of the current chunk, with the line end after it
        self._last = False

    def take(self, buffer: bytearray) -> bytes:
        """See `Framing`."""
        pieces, at = [], 0
        while at < len(buffer) and not self.complete:
            if self._left:
                pieces.append(buffer[at : at + max(0, self._left - 2)])
                taken = min(self._left, len(buffer) - at)
                self._left -= taken
                at += taken
                continue
            end = buffer.find(b"\n", at)
            if end < 0:
                if len(buffer) - at > LONGEST_LINE:
                    raise ValueError("a chunk of the answer has no size")
                break
            self._line(buffer[at:end].strip())
            at = end + 1
        del buffer[:at]
        return b"".join(pieces)

    def _line(self, line: bytearray) -> None:
        """A chunk's size; after the last chunk trailers, which say nothing that is needed here."""
        if self._last:
            self.complete = not line
            return
        size = _SIZE.fullmatch(line.partition(b";")[0].strip())
        if size is None:
            raise ValueError(f"{bytes(line[:40])!r} is no size of a chunk")
        self._left = int(size[0], 16) + 2
        if self._left == 2:
            self._left, self._last = 0, True


def framing_of(status: int, headers: Headers, method: str) -> Framing:
    """How the end of a body is told. Raises ValueError for a length that is none.

    >>> framing_of(200, [(b"Content-Length", b"0")], "POST").complete
    True
    """
    named = {name.lower(): value for name, value in headers}
    if method == "HEAD" or status in (204, 304):
        return Sized(0)
    if b"chunked" in named.get(b"transfer-encoding", b"").lower():
        return Chunked()
    length = named.get(b"content-length")
    if length is None:
        return UntilEnd()
    if not length.isdigit():
        raise ValueError(f"{length[:40]!r} is no length of an answer")
    return Sized(int(length))


def is_kept(version: bytes, headers: Headers) -> bool:
    """Whether the server will take another request over the same connection."""
    words = b",".join(value.lower() for name, value in headers if name.lower() == b"connection")
    return b"close" not in words and (version == b"1.1" or b"keep-alive" in words)

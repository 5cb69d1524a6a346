"""Server-sent events out of bytes, cut anywhere.

Only the `data` payloads matter: every wire format here repeats the event's name inside the JSON. Comments, `event`,
`id` and `retry` lines are skipped; LF, CRLF and CR end lines.
Format: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

from nbagent.errors import InvalidResponseError

#: No event is longer: a picture in one event has some ten million bytes.
LONGEST_LINE = 64 * 2**20


class SSESplitter:
    r"""Feed bytes, get complete payloads.

    >>> splitter = SSESplitter()
    >>> splitter.feed(b'data: {"a":'), splitter.feed(b' 1}\r\n\r\n: comment\n\ndata: [DONE]\n\n')
    ([], [b'{"a": 1}', b'[DONE]'])
    """

    __slots__ = ("_data", "_rest", "_size")

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._size = 0
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads that `chunk` completes. Raises `InvalidResponseError` for a line without end."""
        if self._rest and b"\n" not in chunk and b"\r" not in chunk and not self._rest[-1].endswith(b"\r"):
            self._size += len(chunk)  # joined once, when the line ends: long lines come in many chunks
            self._rest.append(chunk)
            if self._size > LONGEST_LINE:
                raise InvalidResponseError(f"the stream holds a line of more than {LONGEST_LINE} bytes")
            return []
        if self._rest:
            chunk = b"".join([*self._rest, chunk])
        # a CR at the end may be the first half of a CRLF: leave it for the next chunk
        lines = chunk.splitlines(keepends=True)
        self._rest = [lines.pop()] if lines and not chunk.endswith(b"\n") else []
        self._size = len(self._rest[0]) if self._rest else 0
        return self._take(lines)

    def flush(self) -> list[bytes]:
        """The payloads of a stream that ended without a blank line."""
        rest, self._rest = b"".join(self._rest), []
        return self._take([rest, b"\n"])

    def _take(self, lines: list[bytes]) -> list[bytes]:
        payloads = []
        for line in lines:
            text = line.rstrip(b"\r\n")
            if text.startswith(b"data:"):
                self._data.append(text[6:] if text.startswith(b"data: ") else text[5:])
            elif not text and self._data:
                payloads.append(b"\n".join(self._data))
                self._data = []
        return payloads

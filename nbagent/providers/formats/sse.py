"""Splits a stream of bytes, which may be cut anywhere, into server-sent events.

Only the `data` payloads matter, since every format here repeats the event's name as `type` in the JSON. If a gateway
omits `type`, it is added. Comments, `id` and `retry` lines are skipped. Lines end with LF, CRLF or CR. Format:
https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import json
from typing import Any

#: Represents the `[DONE]` line of a chat-completions stream.
DONE: dict[str, Any] = {"type": "[DONE]"}


class SSESplitter:
    r"""Converts bytes to complete payloads.

    >>> splitter = SSESplitter()
    >>> splitter.feed(b'data: {"a":'), splitter.feed(b' 1}\r\n\r\n: comment\n\ndata: [DONE]\n\n')
    ([], [b'{"a": 1}', b'[DONE]'])
    """

    __slots__ = ("_data", "_name", "_rest")

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._name = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads that `chunk` completes."""
        if self._rest and b"\n" not in chunk and b"\r" not in chunk and not self._rest[-1].endswith(b"\r"):
            self._rest.append(chunk)  # joined when the line ends, since long lines arrive in many chunks
            return []
        if self._rest:
            chunk = b"".join([*self._rest, chunk])
        # a CR at the end may be the first half of a CRLF: leave it for the next chunk
        lines = chunk.splitlines(keepends=True)
        self._rest = [lines.pop()] if lines and not chunk.endswith(b"\n") else []
        return self._take(lines)

    def flush(self) -> list[bytes]:
        """The remaining payloads of a stream that ended without a blank line."""
        rest, self._rest = b"".join(self._rest), []
        return self._take([rest, b"\n"])

    def _take(self, lines: list[bytes]) -> list[bytes]:
        payloads = []
        for line in lines:
            text = line.rstrip(b"\r\n")
            if text.startswith(b"data:"):
                self._data.append(text[6:] if text.startswith(b"data: ") else text[5:])
            elif not text:
                if self._data:
                    payloads.append(self._payload())
                    self._data = []
                self._name = b""
            elif text.startswith(b"event:"):
                self._name = text[6:].strip()
        return payloads

    def _payload(self) -> bytes:
        """The data with the event's name as its first field. A later `type` in the JSON takes precedence."""
        payload = b"\n".join(self._data)
        if not self._name or not payload.startswith(b"{") or payload.startswith(b'{"type"'):
            return payload
        rest = payload[1:].lstrip()
        comma = b"" if rest.startswith(b"}") else b","
        return b'{"type":' + json.dumps(self._name.decode("utf-8", "replace")).encode() + comma + rest

"""Reads a response: event dicts from a stream, or one JSON body."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Any

from nbagent.errors import IncompleteStreamError, InvalidResponseError
from nbagent.providers.formats.sse import DONE, SSESplitter
from nbagent.providers.http.errors import readable, status_error

#: How long to wait for the few bytes after the logical end, so that the connection can be reused.
DRAIN_TIMEOUT_S = 0.1
#: A line of server-sent events starts with one of these.
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
_LONGEST_FIELD = max(map(len, _FIELDS))


class Body(dict[str, Any]):
    """A whole answer in one JSON body, rather than an event."""


async def read_events(response: Any) -> AsyncGenerator[Iterable[dict[str, Any]] | Body]:
    """The event dicts of a streamed answer, grouped as they arrived, or one `Body`.

    The first bytes, not the content type, show which of the two it is. A JSON array is a stream that arrived in one
    piece.
    """
    foreign = getattr(response, "nbagent_decoder", None)
    if foreign is not None:
        async for sse in foreign.aiter_bytes(response.aiter_bytes()):
            if sse.data:
                yield [_event(sse.data)]
        return
    # uncompressed data skips the response's own layers, which cost CPU for each chunk
    is_compressed = "content-encoding" in response.headers
    chunks: AsyncIterator[bytes] = response.aiter_bytes() if is_compressed else aiter(response.stream)
    head = b""
    async for chunk in chunks:
        head += chunk
        if len(head.lstrip()) >= _LONGEST_FIELD:
            break
    start = head.lstrip()[:_LONGEST_FIELD]
    if not start or not any(start.startswith(field) or field.startswith(start) for field in _FIELDS):
        body = _body(head + await _whole(chunks), response)
        yield body if isinstance(body, list) else Body(body)
        return
    splitter = SSESplitter()
    yield map(_event, splitter.feed(head))
    async for chunk in chunks:
        yield map(_event, splitter.feed(bytes(chunk)))  # a browser's fetch returns memoryviews
    yield map(_event, splitter.flush())


async def check_status(response: Any) -> None:
    """Raise a `ProviderError` for any status but 2xx."""
    if not 200 <= response.status_code < 300:
        raise status_error(response, await _whole(response.aiter_bytes()))


async def _whole(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


async def read_body(response: Any) -> AsyncGenerator[dict[str, Any] | list[dict[str, Any]]]:
    """The JSON object of a body, or its list of objects."""
    yield _body(await _whole(response.aiter_bytes()), response)


async def read_lines(response: Any) -> AsyncGenerator[dict[str, Any]]:
    """The JSON objects of a body, one per line, as they arrive. Skips other lines, including an incomplete last one."""
    rest = b""
    async for chunk in response.aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if found := _object(line):
                yield found
    if found := _object(rest):
        yield found


def _object(line: bytes) -> dict[str, Any]:
    """The object in a line, empty if there is none."""
    with contextlib.suppress(ValueError):
        found = json.loads(line)
        return found if isinstance(found, dict) else {}
    return {}


def _value(text: bytes | str) -> Any:
    """Like `json.loads`, in a third of the time."""
    import pydantic_core  # loaded with the first answer to keep `%load_ext` fast

    try:
        return pydantic_core.from_json(text)
    except ValueError:  # the faster parser accepts no lone surrogates and no deep nesting
        return json.loads(text.decode("utf-8", "surrogatepass") if isinstance(text, bytes) else text)


def _event(payload: bytes | str) -> dict[str, Any]:
    if payload == b"[DONE]":
        return DONE
    try:
        event = _value(payload)
    except (ValueError, RecursionError):
        raise IncompleteStreamError("the stream contains a chunk that is not JSON") from None
    return event if isinstance(event, dict) else {"type": "unknown"}


def _body(content: bytes, response: Any) -> dict[str, Any] | list[dict[str, Any]]:
    text = content.decode("utf-8", "replace").strip()
    try:
        body: dict[str, Any] | list[dict[str, Any]] = _value(text)
    except (ValueError, RecursionError):
        if not text or text.startswith(("{", "[")):
            raise IncompleteStreamError(
                "the answer is empty, or breaks off in the middle of its JSON", status=response.status_code
            ) from None
        raise InvalidResponseError(f"expected JSON, got {readable(text)}", status=response.status_code) from None
    items = body if isinstance(body, list) else [body]
    if not items or not all(isinstance(item, dict) for item in items):
        raise InvalidResponseError("the answer is not a JSON object")
    return body


async def drain(events: AsyncGenerator[Any]) -> None:
    """Read the rest of a stream after its logical end if it arrives immediately, to make the connection reusable."""
    with contextlib.suppress(Exception):  # the answer is complete, even if the rest is broken
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            async for _ in events:
                pass

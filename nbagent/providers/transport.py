"""Sending a ready body and reading the answer: over httpx, or over a vendor's SDK.

A transport opens a response; `read_events` turns any response into event dicts.
One client per event loop, since connections belong to the loop that made them.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import json
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbagent.errors import ConfigurationError, IncompleteStreamError, InvalidResponseError
from nbagent.providers.http_errors import readable, request_id, status_error
from nbagent.providers.wire import DONE
from nbagent.providers.wire.sse import SSESplitter

if TYPE_CHECKING:
    from pydantic import SecretStr

CONNECT_TIMEOUT_S = 10.0
#: How long the few bytes after the logical end are waited for, so that the connection can be used again.
DRAIN_TIMEOUT_S = 0.1
#: An answer in one piece may hold pictures; a web page or other prose is only quoted from, in an error.
LONGEST_BODY = 64 * 2**20
LONGEST_PROSE = 64 * 2**10
#: A line of server-sent events begins with one of these.
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
_LONGEST_FIELD = max(map(len, _FIELDS))
#: By this header the SDKs know that the response's body is not theirs to read (`with_streaming_response` sets it).
_UNREAD = {"X-Stainless-Raw-Response": "stream"}


@dataclass(frozen=True)
class Target:
    """Where a request goes. The key is a `SecretStr`; None where the server wants none."""

    base_url: str
    path: str
    key: SecretStr | None = None
    timeout: float = 60.0
    headers: Mapping[str, str] = field(default_factory=dict)


class Body(dict[str, Any]):
    """A whole answer in one JSON body, instead of an event."""


class Transport(ABC):
    """Opens responses. `client` is the user's own, used as it is and never closed; else one is made per event loop."""

    #: The method of the client that sends.
    sends_by = "send"

    def __init__(self, client: Any = None) -> None:
        if client is not None and not inspect.iscoroutinefunction(getattr(client, self.sends_by, None)):
            raise ConfigurationError(f"client={type(client).__name__} can't be awaited: pass the async client.")
        self._given = client
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = weakref.WeakKeyDictionary()

    async def client(self, target: Target) -> Any:
        """The client for the running event loop."""
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            for old in [known for known in self._clients if known.is_closed()]:
                del self._clients[old]
            made = await self._make(target)
            self._clients.setdefault(loop, made)  # a request at the same time may have been faster
        return self._clients[loop]

    @abstractmethod
    async def _make(self, target: Target) -> Any:
        """A new client."""

    @abstractmethod
    async def open(self, target: Target, body: bytes | None) -> Any:
        """POST `body`, or GET where it is None -> a response still to be read. Raises for any status but 2xx."""

    async def aclose(self) -> None:
        """Close the running loop's client."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await (client.aclose() if hasattr(client, "aclose") else client.close())


class HttpxTransport(Transport):
    """httpx, with the key as a bearer token, or as it is in the header `key_header`."""

    def __init__(self, client: Any = None, key_header: str | None = None) -> None:
        super().__init__(client)
        self._key_header = key_header

    async def _make(self, target: Target) -> Any:
        import httpx

        timeout = httpx.Timeout(target.timeout, connect=min(CONNECT_TIMEOUT_S, target.timeout), pool=None)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30)
        # making the TLS context reads files: it takes tens of milliseconds
        return await asyncio.to_thread(httpx.AsyncClient, timeout=timeout, limits=limits)

    async def open(self, target: Target, body: bytes | None) -> Any:
        """See `Transport`."""
        client = await self.client(target)
        url = target.base_url.rstrip("/") + target.path
        headers = {"Content-Type": "application/json", **target.headers, **self._auth(target.key)}
        method = "GET" if body is None else "POST"
        response = await client.send(client.build_request(method, url, content=body, headers=headers), stream=True)
        if not 200 <= response.status_code < 300:
            try:
                content = await read_up_to(response.aiter_bytes())
            finally:
                await response.aclose()
            raise status_error(response.status_code, response.headers, content)
        return response

    def _auth(self, key: SecretStr | None) -> dict[str, str]:
        if key is None:
            return {}
        secret = key.get_secret_value()
        return {self._key_header: secret} if self._key_header else {"Authorization": f"Bearer {secret}"}


class SDKTransport(Transport):
    """A vendor's official SDK, through its low-level `post`: it brings authentication, proxies, Azure, Bedrock, Vertex.

    The SDK takes a second to import: a thread starts on it as soon as the provider is made.
    """

    sends_by = "post"

    def __init__(self, module: str, client_class: str, client: Any = None) -> None:
        super().__init__(client)
        self._module = module
        self._client_class = client_class
        if client is None:
            threading.Thread(target=_warm, args=(module,), name=f"import {module}", daemon=True).start()

    async def _make(self, target: Target) -> Any:
        sdk = await asyncio.to_thread(importlib.import_module, self._module)
        timeout = sdk.Timeout(target.timeout, connect=min(CONNECT_TIMEOUT_S, target.timeout), pool=None)

        def make() -> Any:
            return getattr(sdk, self._client_class)(
                api_key=target.key.get_secret_value() if target.key else "",
                base_url=target.base_url,
                timeout=timeout,
                max_retries=0,
                default_headers=dict(target.headers),
            )

        return await asyncio.to_thread(make)

    async def open(self, target: Target, body: bytes | None) -> Any:
        """See `Transport`. Clients that rewrite bodies (Azure, Bedrock, Vertex) get a dict, the SDK's own the bytes."""
        client = await self.client(target)
        own = type(client).__name__ == self._client_class
        options: dict[str, Any] = {"max_retries": 0, "headers": {"Content-Type": "application/json", **_UNREAD}}
        if body is None:
            reply = await client.get(target.path, cast_to=object, options=options)
        else:
            content: dict[str, Any] = {"content": body} if own else {"body": json.loads(body)}
            reply = await client.post(target.path, cast_to=object, options=options, **content)
        response = reply.http_response
        if "amazon.eventstream" in response.headers.get("content-type", ""):
            # Bedrock's events come in a binary framing that its client alone can read
            response.nbagent_decoder = client._make_sse_decoder()
        return response


def _warm(module: str) -> None:
    """Import ahead of need. If it can't be, the first request says so."""
    with contextlib.suppress(ImportError):
        importlib.import_module(module)


async def read_events(response: Any) -> AsyncGenerator[dict[str, Any]]:
    """The event dicts of a streamed answer, or one `Body`. Whatever the content type says, the first bytes tell.

    A JSON array is a stream that came in one piece.
    """
    foreign = getattr(response, "nbagent_decoder", None)
    if foreign is not None:
        async for sse in foreign.aiter_bytes(response.aiter_bytes()):
            if sse.data:
                yield _event(sse.data)
        return
    chunks = _pieces(response)
    head = b""
    async for chunk in chunks:
        head += chunk
        if len(head.lstrip()) >= _LONGEST_FIELD:
            break
    start = head.lstrip()[:_LONGEST_FIELD]
    if not start or not any(start.startswith(field) or field.startswith(start) for field in _FIELDS):
        body = _body(await read_up_to(chunks, head), response)
        for item in body if isinstance(body, list) else [Body(body)]:
            yield item
        return
    splitter = SSESplitter()
    for payload in splitter.feed(head):
        yield _event(payload)
    async for chunk in chunks:
        for payload in splitter.feed(chunk):
            yield _event(payload)
    for payload in splitter.flush():
        yield _event(payload)


def _pieces(response: Any) -> AsyncIterator[bytes]:
    """The body as it comes. One that is not compressed is read past the response, whose own ways cost each piece."""
    if "content-encoding" in response.headers:
        return response.aiter_bytes()  # type: ignore[no-any-return]
    return response.stream.__aiter__()  # type: ignore[no-any-return]


async def read_up_to(chunks: AsyncIterator[bytes], head: bytes = b"") -> bytes:
    """`head` and what follows. Of what is no JSON, only so much as an error needs.

    Raises `InvalidResponseError` for a body that does not come to an end.
    """
    parts, size = [head], len(head)
    async for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > LONGEST_PROSE and not b"".join(parts[:2]).lstrip().startswith((b"{", b"[")):
            break
        if size > LONGEST_BODY:
            raise InvalidResponseError(f"the answer has more than {LONGEST_BODY} bytes")
    return b"".join(parts)


def _event(payload: bytes | str) -> dict[str, Any]:
    if payload == b"[DONE]":
        return DONE
    try:
        text = payload.decode("utf-8", "surrogatepass") if isinstance(payload, bytes) else payload
        event = json.loads(text)  # given bytes, it would first look for their encoding
    except (ValueError, RecursionError):
        raise IncompleteStreamError("the stream holds a chunk that is no JSON") from None
    return event if isinstance(event, dict) else {"type": "unknown"}


def _body(content: bytes, response: Any) -> dict[str, Any] | list[dict[str, Any]]:
    text = content.decode("utf-8", "replace").strip()
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        if not text or text.startswith(("{", "[")):
            raise IncompleteStreamError(
                "the answer is empty, or breaks off in the middle of its JSON", status=response.status_code
            ) from None
        raise InvalidResponseError(
            f"{readable(text)} came instead of JSON",
            status=response.status_code,
            request_id=request_id(response.headers),
        ) from None
    items = body if isinstance(body, list) else [body]
    if not items or not all(isinstance(item, dict) for item in items):
        raise InvalidResponseError("the answer is no JSON object")
    return body  # type: ignore[no-any-return]


async def drain(events: AsyncGenerator[dict[str, Any]]) -> None:
    """Read what follows the logical end, if it comes at once: a connection read to its end can be used again."""
    with contextlib.suppress(Exception):  # whatever is wrong with the rest, the answer is whole
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            async for _ in events:
                pass

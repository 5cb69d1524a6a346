"""Sending a ready body and reading the answer: over httpx, or over a vendor's SDK.

A transport opens a response; `read_events` turns any response into event dicts.
One client per event loop, since connections belong to the loop that made them and are closed with it.
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
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nbagent.errors import ConfigurationError, IncompleteStreamError, InvalidResponseError, ProviderError
from nbagent.providers.formats.sse import DONE, SSESplitter
from nbagent.providers.http.capture import recorded
from nbagent.providers.http.connections import Connections, closed_with_loop
from nbagent.providers.http.environment import tls_context
from nbagent.providers.http.errors import readable, request_id, status_error

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
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: The environment variable that may hold the key; its name stands for the key in the HTTP log.
    key_variable: str = "API_KEY"


class Body(dict[str, Any]):
    """A whole answer in one JSON body, instead of an event."""


class Transport(ABC):
    """Opens responses. `client` is the user's own, used as it is and never closed; else one is made per event loop.

    What is made is closed with its event loop, by `aclose`, or when the last reference to this transport goes.
    """

    #: The method of the client that sends.
    sends_by = "send"

    def __init__(self, client: Any, *packages: str) -> None:
        """`packages` are those that a client given by the user may come from."""
        if client is not None:
            _check(client, self.sends_by, packages)
        self._given = client
        self._opened: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Opened] = weakref.WeakKeyDictionary()
        weakref.finalize(self, _abandon_ended, self._opened)

    async def client(self, target: Target) -> Any:
        """The client for the running event loop."""
        if self._given is not None:
            return self._given
        opened = self._open_here()
        if opened is None:
            _abandon_ended(self._opened)
            client, connections = await self._make(target)
            opened = self._open_here()  # a request at the same time may have been faster
            if opened is None:
                opened = _Opened(client, closed_with_loop(connections), connections)
                self._opened[asyncio.get_running_loop()] = opened
                await anext(opened.closing)
        return opened.client

    def _open_here(self) -> _Opened | None:
        opened = self._opened.get(asyncio.get_running_loop())
        return None if opened is None or opened.connections.closed else opened

    @abstractmethod
    async def _make(self, target: Target) -> tuple[Any, Connections]:
        """A new client, and its connections."""

    async def open(self, target: Target, body: bytes | None) -> Any:
        """POST `body`, or GET where it is None -> a response still to be read. Raises for any status but 2xx."""
        response = await recorded(partial(self._send, await self.client(target)), target, body)
        if not 200 <= response.status_code < 300:
            raise await _refusal(response)
        return response

    @abstractmethod
    async def _send(self, client: Any, target: Target, body: bytes | None) -> Any:
        """The response to be read. May raise for a status that is not 2xx."""

    async def aclose(self) -> None:
        """Close the running loop's client."""
        opened = self._opened.pop(asyncio.get_running_loop(), None)
        if opened is not None:
            await opened.closing.aclose()


@dataclass
class _Opened:
    """The client of one event loop, and what closes its connections."""

    client: Any
    closing: AsyncGenerator[None]
    connections: Connections


def _abandon_ended(opened: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Opened]) -> None:
    """Let go of event loops that were closed, also where nobody asked them to close what was opened on them."""
    for loop in [loop for ref in opened.keyrefs() if (loop := ref()) is not None and loop.is_closed()]:
        opened.pop(loop).connections.abandon()


def _check(client: Any, sends_by: str, packages: tuple[str, ...]) -> None:
    """Raise `ConfigurationError` for a client of another library, or one that can't be awaited."""
    name = type(client).__name__
    if not {cls.__module__.partition(".")[0] for cls in type(client).__mro__} & set(packages):
        raise ConfigurationError(f"client={name} does not fit: this provider takes a client of {packages[0]}.")
    if not inspect.iscoroutinefunction(getattr(client, sends_by, None)):
        raise ConfigurationError(f"client={name} can't be awaited: pass the async client.")


class HttpxTransport(Transport):
    """httpx, with the key as a bearer token, or as it is in the header `key_header`."""

    def __init__(self, client: Any = None, key_header: str | None = None) -> None:
        super().__init__(client, "httpx", "httpx2")
        self._key_header = key_header

    async def _make(self, target: Target) -> tuple[Any, Connections]:
        import httpx

        timeout = httpx.Timeout(target.timeout, connect=min(CONNECT_TIMEOUT_S, target.timeout))
        connections = await _connections(httpx, target)
        return connections.plain_client(timeout), connections

    async def _send(self, client: Any, target: Target, body: bytes | None) -> Any:
        url = target.base_url.rstrip("/") + target.path
        method = "GET" if body is None else "POST"
        request = client.build_request(method, url, content=body, headers=self._headers(target))
        return await client.send(request, stream=True)

    def _headers(self, target: Target) -> dict[str, str]:
        """With the key: they are no local variable of any function that a traceback may show."""
        return {"Content-Type": "application/json", **target.headers, **self._auth(target.key)}

    def _auth(self, key: SecretStr | None) -> dict[str, str]:
        if key is None:
            return {}
        secret = key.get_secret_value()
        return {self._key_header: secret} if self._key_header else {"Authorization": f"Bearer {secret}"}


async def _refusal(response: Any) -> ProviderError:
    """The error in an answer whose status tells of one."""
    try:
        content = await read_up_to(response.aiter_bytes())
    finally:
        await response.aclose()
    return status_error(response.status_code, response.headers, content, response.request)


class SDKTransport(Transport):
    """A vendor's official SDK, through its low-level `post`: it brings authentication, proxies, Azure, Bedrock, Vertex.

    The SDK takes a second to import: a thread starts on it as soon as the provider is made.
    """

    sends_by = "post"

    def __init__(self, module: str, client_class: str, client: Any = None) -> None:
        super().__init__(client, module)
        self._module = module
        self._client_class = client_class
        if client is None:
            threading.Thread(target=_warm, args=(module,), name=f"import {module}", daemon=True).start()

    async def _make(self, target: Target) -> tuple[Any, Connections]:
        sdk = await asyncio.to_thread(importlib.import_module, self._module)
        # httpx2, or httpx in older versions; the class itself says that it is the SDK's
        http = importlib.import_module(sdk.Timeout.__init__.__module__.partition(".")[0])
        timeout = sdk.Timeout(target.timeout, connect=min(CONNECT_TIMEOUT_S, target.timeout))
        connections = await _connections(http, target)
        client = getattr(sdk, self._client_class)(
            api_key=target.key.get_secret_value() if target.key else "",
            base_url=target.base_url,
            default_headers=dict(target.headers),
            timeout=timeout,
            max_retries=0,
            http_client=connections.client(timeout),  # which takes the key nowhere else: it follows no redirection
        )
        return client, connections

    async def _send(self, client: Any, target: Target, body: bytes | None) -> Any:
        """See `Transport`. Clients that rewrite bodies (Azure, Bedrock, Vertex) get a dict, the SDK's own the bytes.

        A client made here has the headers already: those of a request are written to the SDK's log.
        """
        own = type(client).__name__ == self._client_class
        more = {} if self._given is None else target.headers
        headers = {"Content-Type": "application/json", **more, **_UNREAD}
        options: dict[str, Any] = {"max_retries": 0, "headers": headers}
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


async def _connections(http: ModuleType, target: Target) -> Connections:
    """New connections. The certificates, if they are needed, are read off the event loop."""
    if target.base_url.startswith("https:"):
        await asyncio.to_thread(tls_context)
    return Connections(http)


def _warm(module: str) -> None:
    """Import ahead of need. If it can't be, the first request says so."""
    with contextlib.suppress(ImportError):
        importlib.import_module(module)


async def read_events(response: Any) -> AsyncGenerator[dict[str, Any]]:
    """The event dicts of a streamed answer, or one `Body`. Whatever the content type says, the first bytes tell.

    A JSON array, or JSON in lines, is a stream that came in one piece.
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
        body: dict[str, Any] | list[dict[str, Any]]
        body = [json.loads(line) for line in text.splitlines()] if "}\n{" in text else json.loads(text)
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
    return body


async def drain(events: AsyncGenerator[dict[str, Any]]) -> None:
    """Read what follows the logical end, if it comes at once: a connection read to its end can be used again."""
    with contextlib.suppress(Exception):  # whatever is wrong with the rest, the answer is whole
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            async for _ in events:
                pass

"""HTTP clients, and sending over them: httpx2 for vendors without an SDK, the SDK's client for OpenAI and Claude.

Both use the same connections: aiohttp's, through `httpx-aiohttp`, or httpx2's own behind a proxy, since these speak to
every kind of proxy. A piece of a paced answer costs aiohttp half the CPU that it costs httpx2, which is more than the
agent's whole share; see tests/benchmarks/README.md. Neither sends a request again: only `retry` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import importlib
import inspect
import json
import logging
import os
import socket
import ssl
import threading
import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from nbagent.errors import ConfigurationError, InvalidResponseError, MissingDependencyError, ProviderTimeoutError
from nbagent.providers.http.address import behind_proxy, proxy_for, without_password
from nbagent.providers.http.capture import recorded
from nbagent.providers.http.errors import proxy_error, status_error
from nbagent.providers.http.response import read_up_to

if TYPE_CHECKING:
    import httpx2
    from pydantic import SecretStr

log = logging.getLogger("nbagent")
CONNECT_TIMEOUT_S = 10.0
#: How long an idle connection is kept. Servers close them after 5 s (uvicorn, llama.cpp) to some minutes.
KEPT_S = 30.0
#: A longer body is handed over in pieces of this size, so that sending images does not block the event loop.
LONGEST_PIECE = 2**18
#: Bytes of one header line.
LONGEST_HEADER = 2**16
#: An answer may be compressed once, by one of these: each layer multiplies the memory that a piece can take.
COMPRESSIONS = ("gzip", "deflate")
#: Certificates to trust instead of the system's: the first of these that is set.
CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
#: Probes on a silent connection (after a minute, each minute, five): routers on the way forget it otherwise while a
#: model thinks. By the names that the platform has.
_PROBES = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 60, "TCP_KEEPCNT": 5}
#: This header tells the SDKs to leave the response's body unread (`with_streaming_response` sets it).
_UNREAD = {"X-Stainless-Raw-Response": "stream"}


@dataclass(frozen=True)
class Target:
    """Where a request goes. The key is a `SecretStr`, or None if the server wants no key."""

    base_url: str
    path: str
    key: SecretStr | None = None
    timeout: float = 60.0
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: The environment variable that may hold the key; its name stands for the key in the HTTP log.
    key_variable: str = "API_KEY"


class Transport(ABC):
    """Opens responses. `client` is the user's own, used as it is and never closed; else one is made per event loop.

    What is made is closed with its event loop, by `aclose`, or when the last reference to this transport goes.
    """

    #: The method of the client that sends.
    sends_by = "send"

    def __init__(self, client: Any, *packages: str) -> None:
        """`packages` are those that a client given by the user may come from."""
        self._given = client
        self._opened: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Opened] = weakref.WeakKeyDictionary()
        if client is not None:
            _check(client, self.sends_by, packages)
            return
        weakref.finalize(self, _close_ended, self._opened)
        # imports take up to a second: a thread starts on them as soon as the provider is made
        threading.Thread(target=_import_all, args=packages[:1], name=f"import {packages[0]}", daemon=True).start()

    async def open(self, target: Target, body: bytes | None) -> Any:
        """POST `body`, or GET if it is None -> a response still to be read. Raises for any status but 2xx."""
        client = await self._client(target) if self._given is None else self._given
        for _ in range(2):  # after a busy while, the event loop notices which idle connections have ended
            await asyncio.sleep(0)
        response = await recorded(partial(self._send_in_time, client), target, body)
        request = response.request
        log.debug("%s %s%s: %d", request.method, request.url.host, request.url.path, response.status_code)
        try:
            if response.status_code == 407 and self._given is None:
                raise proxy_error(target.base_url, "407 Proxy Authentication Required")
            if not 200 <= response.status_code < 300:
                content = await read_up_to(response.aiter_bytes())
                raise status_error(response.status_code, response.headers, content, request)
            self._check_compression(response.headers.get("content-encoding", ""))
        except BaseException:
            await response.aclose()
            raise
        return response

    async def _client(self, target: Target) -> Any:
        """The client of the running event loop."""
        loop = asyncio.get_running_loop()
        opened = self._opened.get(loop)
        if opened is None or opened.http.is_closed:
            _close_ended(self._opened)
            client, http = await asyncio.to_thread(self._make, target)
            opened = self._opened.get(loop)  # another request may have been faster
            if opened is None or opened.http.is_closed:
                opened = self._opened[loop] = _Opened(client, http, _closed_with_loop(http))
                await anext(opened.closing)
        return opened.client

    @abstractmethod
    def _make(self, target: Target) -> tuple[Any, httpx2.AsyncClient]:
        """A new client, and the HTTP client below it. Called in a thread: imports and certificates take their time."""

    async def _send_in_time(self, client: Any, target: Target, body: bytes | None) -> Any:
        """Send, and wait for the head of the answer, with a limit that a server can't put off byte by byte."""
        limit = None if self._given is not None else CONNECT_TIMEOUT_S + 2 * target.timeout
        try:
            async with asyncio.timeout(limit):
                return await self._send(client, target, body)
        except TimeoutError:
            raise ProviderTimeoutError(f"no answer began within {limit:g} s") from None

    @abstractmethod
    async def _send(self, client: Any, target: Target, body: bytes | None) -> Any:
        """The response to be read. May raise for a status that is not 2xx."""

    def _check_compression(self, encoding: str) -> None:
        """Raise for an answer compressed in another way than was asked for, or more than once."""
        known = ("identity", *COMPRESSIONS)
        if encoding and ("," in encoding or (self._given is None and encoding.lower() not in known)):
            raise InvalidResponseError(f"the answer is compressed as {encoding[:60]!r}, expected gzip or deflate")

    async def aclose(self) -> None:
        """Close the running event loop's client."""
        opened = self._opened.pop(asyncio.get_running_loop(), None)
        if opened is not None:
            await opened.closing.aclose()


def _check(client: Any, sends_by: str, packages: tuple[str, ...]) -> None:
    """Raise `ConfigurationError` for a client of another library, or one that can't be awaited."""
    name = type(client).__name__
    if not {cls.__module__.partition(".")[0] for cls in type(client).__mro__} & set(packages):
        raise ConfigurationError(f"client={name} does not fit: this provider takes a client of {packages[0]}.")
    if not inspect.iscoroutinefunction(getattr(client, sends_by, None)):
        raise ConfigurationError(f"client={name} can't be awaited: pass the async client.")


def _import_all(package: str) -> None:
    """Import what a client needs. If an import fails, the first request says so."""
    for module in ("httpx_aiohttp.httpx2", package):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)


class HttpxTransport(Transport):
    """httpx, with the key as a bearer token, or as it is in the header `key_header`."""

    def __init__(self, client: Any = None, key_header: str | None = None) -> None:
        super().__init__(client, "httpx2", "httpx")
        self._key_header = key_header

    def _make(self, target: Target) -> tuple[Any, httpx2.AsyncClient]:
        client = new_http_client(target)
        return client, client

    async def _send(self, client: Any, target: Target, body: bytes | None) -> Any:
        url = target.base_url.rstrip("/") + target.path
        method = "GET" if body is None else "POST"
        request = client.build_request(method, url, content=_in_pieces(body), headers=self._headers(target, body))
        return await client.send(request, stream=True)

    def _headers(self, target: Target, body: bytes | None) -> dict[str, str]:
        """With the key: they are not a local variable of any function that a traceback may show."""
        return {**_about(body), **target.headers, **self._auth(target.key)}

    def _auth(self, key: SecretStr | None) -> dict[str, str]:
        if key is None:
            return {}
        secret = key.get_secret_value()
        return {self._key_header: secret} if self._key_header else {"Authorization": f"Bearer {secret}"}


class SDKTransport(Transport):
    """A vendor's official SDK, through its low-level `post`: it brings authentication, Azure, Bedrock, Vertex."""

    sends_by = "post"

    def __init__(self, module: str, client_class: str, client: Any = None) -> None:
        super().__init__(client, module)
        self._module = module
        self._client_class = client_class

    def _make(self, target: Target) -> tuple[Any, httpx2.AsyncClient]:
        sdk = importlib.import_module(self._module)
        http = new_http_client(target)
        client = getattr(sdk, self._client_class)(
            api_key=target.key.get_secret_value() if target.key else "",
            base_url=target.base_url,
            default_headers=dict(target.headers),
            timeout=http.timeout,
            max_retries=0,
            http_client=http,
        )
        return client, http

    async def _send(self, client: Any, target: Target, body: bytes | None) -> Any:
        """See `Transport`. Clients that rewrite bodies (Azure, Bedrock, Vertex) get a dict, the SDK's own the bytes.

        A client made here has the headers already: those of a request are written to the SDK's log.
        """
        own = type(client).__name__ == self._client_class
        more = {} if self._given is None else target.headers
        headers = {**(_about(body) if own else _about(None)), **more, **_UNREAD}
        options: dict[str, Any] = {"max_retries": 0, "headers": headers}
        if body is None:
            reply = await client.get(target.path, cast_to=object, options=options)
        else:
            content: dict[str, Any] = {"content": _in_pieces(body)} if own else {"body": json.loads(body)}
            reply = await client.post(target.path, cast_to=object, options=options, **content)
        response = reply.http_response
        if "amazon.eventstream" in response.headers.get("content-type", ""):
            # Bedrock's events come in a binary framing that its client alone can read
            response.nbagent_decoder = client._make_sse_decoder()
        return response


def _about(body: bytes | None) -> dict[str, str]:
    """The headers that describe a body."""
    return {"Content-Type": "application/json", **({"Content-Length": str(len(body))} if body else {})}


def _in_pieces(body: bytes | None) -> bytes | AsyncIterator[bytes] | None:
    """A short body as it is, a long one as an iterator."""
    if body is None or len(body) <= LONGEST_PIECE:
        return body

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), LONGEST_PIECE):
            yield body[start : start + LONGEST_PIECE]

    return pieces()


# ------------------------------------------------------------------ making HTTP clients


def new_http_client(target: Target) -> httpx2.AsyncClient:
    """A client for requests to `target`. It follows no redirection, which would take the key to another host.

    Behind a proxy, httpx2 reads proxies and their exceptions from the environment; loopback never has one.

    Raises `ConfigurationError` for certificates or a proxy that can't be used.
    """
    import httpx2

    proxied = behind_proxy(target.base_url)
    context = tls_context() if proxied or target.base_url.startswith("https:") else _trusts_nobody()
    options: dict[str, Any] = {
        "timeout": httpx2.Timeout(target.timeout, connect=min(CONNECT_TIMEOUT_S, target.timeout)),
        "headers": {"Accept-Encoding": ", ".join(COMPRESSIONS)},
        "follow_redirects": False,
    }
    if not proxied:
        with contextlib.suppress(ImportError):  # aiohttp is compiled: a new Python or platform may have no wheel yet
            from httpx_aiohttp.httpx2 import AiohttpTransport

            transport = AiohttpTransport(verify=context, client=partial(_session, context))
            return httpx2.AsyncClient(transport=transport, trust_env=False, **options)
    try:
        limits = httpx2.Limits(max_connections=None, keepalive_expiry=KEPT_S)
        return httpx2.AsyncClient(verify=context, limits=limits, trust_env=proxied, **options)
    except ImportError:
        proxy = without_password(proxy_for(target.base_url) or "named by the environment")
        raise MissingDependencyError(f"The proxy {proxy} needs the package socksio: pip install socksio") from None
    except (ValueError, httpx2.InvalidURL):
        proxy = without_password(proxy_for(target.base_url) or "named by the environment")
        raise ConfigurationError(
            f"The proxy {proxy!r} can't be used: correct HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, such as "
            "http://user:password@proxy.example:3128."
        ) from None


def _session(context: ssl.SSLContext) -> Any:
    """An aiohttp session without a limit of connections and without cookies, on the running event loop."""
    import aiohttp

    connector = aiohttp.TCPConnector(ssl=context, limit=0, keepalive_timeout=KEPT_S, socket_factory=_probed_socket)
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=(_sent_once,),
        max_line_size=LONGEST_HEADER,
        max_field_size=LONGEST_HEADER,
    )


async def _sent_once(request: Any, handler: Any) -> Any:
    """Give errors httpx's names. aiohttp would send a GET again after its own, and take a lost answer for a timeout."""
    import aiohttp
    import httpx2

    try:
        return await handler(request)
    except aiohttp.ConnectionTimeoutError as exc:
        raise httpx2.ConnectTimeout(str(exc)) from None
    except (aiohttp.ClientConnectorError, UnicodeError) as exc:  # the latter for names that can't be any host's
        raise httpx2.ConnectError(str(exc)) from exc
    except aiohttp.ServerDisconnectedError:
        raise httpx2.RemoteProtocolError("the server hung up without an answer") from None
    except aiohttp.ClientOSError as exc:
        raise httpx2.ReadError(f"the connection broke without an answer: {exc}") from None
    except aiohttp.ClientResponseError as exc:
        raise httpx2.RemoteProtocolError(f"the answer is not HTTP/1.1: {exc.message}") from None


def _probed_socket(address: Any) -> socket.socket:
    """A TCP socket that looks from time to time whether the other end is still there."""
    made = socket.socket(*address[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


def tls_context() -> ssl.SSLContext:
    """The certificates to trust, as the environment says now. Reading them takes milliseconds; the last are kept.

    Raises `ConfigurationError` for a variable that names no certificates.
    """
    name = next((name for name in CERTIFICATE_VARIABLES if os.environ.get(name)), "")
    return _tls_context(name, os.environ.get(name, ""))


@functools.lru_cache(maxsize=8)
def _tls_context(name: str, path: str) -> ssl.SSLContext:
    import httpx2

    if not name:
        return httpx2.create_ssl_context(trust_env=False)
    directory = next((each for each in path.split(os.pathsep) if os.path.isdir(each)), None)
    try:
        return ssl.create_default_context(cafile=None if directory else path, capath=path if directory else None)
    except OSError as exc:
        raise ConfigurationError(
            f"{name}={path!r} names no certificates in PEM form ({exc.strerror or exc}): correct it, or unset it."
        ) from None


@functools.cache
def _trusts_nobody() -> ssl.SSLContext:
    """For connections without TLS."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


# ------------------------------------------------------------------ closing them


@dataclass
class _Opened:
    """The client of one event loop, the HTTP client below it, and the generator that closes both."""

    client: Any
    http: httpx2.AsyncClient
    closing: AsyncGenerator[None]


async def _closed_with_loop(http: httpx2.AsyncClient) -> AsyncGenerator[None]:
    """Started once and held, it closes the client when it is collected, or when the event loop ends.

    An event loop closes the async generators that were started on it: `asyncio.run` asks it to, at its end, and one
    that nobody holds any more is closed at once, from whatever thread.
    """
    try:
        yield
    finally:
        await http.aclose()


def _close_ended(opened: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Opened]) -> None:
    """Close the clients of event loops that were closed without asking their generators to end.

    Nothing can be awaited there any more. aiohttp's sessions close at their first step; the sockets below are closed by
    the garbage collector, which asyncio would warn of.
    """
    ended = [loop for ref in opened.keyrefs() if (loop := ref()) is not None and loop.is_closed()]
    if not ended:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for loop in ended:
            closing = opened.pop(loop).http.aclose()
            with contextlib.suppress(Exception):  # StopIteration: it has ended
                closing.send(None)
            closing.close()
            del closing
        gc.collect()

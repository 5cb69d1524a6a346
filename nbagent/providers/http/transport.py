"""Sends an encoded body and opens the response, through httpx or a provider's SDK.

A transport sends each request once: only `retry` sends one again. `response` reads the answer.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from nbagent.core.browser import start_early
from nbagent.core.current import current
from nbagent.core.model_request import Timing
from nbagent.errors import ConfigurationError
from nbagent.providers.http import client as http_client
from nbagent.providers.http.address import Target
from nbagent.providers.http.capture import RecordedResponse

if TYPE_CHECKING:
    import httpx2

#: A longer body is sent in pieces of this size, so the timeout applies to each, and images don't block the event loop.
LONGEST_PIECE = 2**18
#: Default headers of each request, unless the user's headers set them.
OWN_HEADERS = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate", "User-Agent": "nbagent"}
#: This header tells the SDKs to leave the response's body unread (`with_streaming_response` sets it).
_UNREAD = {"X-Stainless-Raw-Response": "stream"}
#: The parts of a form, as httpx accepts them: name -> file name, content and media type.
Form = Mapping[str, tuple[Any, ...]]


class Transport(ABC):
    """Sends requests with the user's own `client`, which is never changed or closed, or with a new client for each
    event loop.
    """

    #: The client method that sends.
    sends_by = "send"

    def __init__(self, client: Any, *packages: str) -> None:
        """`packages` are the packages that a user's client may come from."""
        self._given = client
        self._clients = http_client.ClientPerLoop()
        if client is None:  # imports take seconds: a thread starts them as soon as the provider is created
            start_early(import_packages, packages[0], name=f"import {packages[0]}")
            return
        name = type(client).__name__
        if not {cls.__module__.partition(".")[0] for cls in type(client).__mro__} & set(packages):
            raise ConfigurationError(
                f"client={name} is of the wrong type. This provider accepts a client from {packages[0]}."
            )
        if not inspect.iscoroutinefunction(getattr(client, self.sends_by, None)):
            raise ConfigurationError(f"client={name} is not asynchronous. Pass the async client.")

    async def open(self, target: Target, body: bytes | Form | None, timing: Timing) -> Any:
        """Send a POST request with `body`, or a GET request if `body` is None. Return the unread response, whatever its
        status.

        Only SDKs send forms.
        """
        with timing:
            client = await self._clients.get(target, self._make) if self._given is None else self._given
        collector = current.get().collect
        record = RecordedResponse(collector, target, body) if collector else None
        try:
            response = await self._send(client, target, body)
        except BaseException as exc:  # also if cancelled, since the request may have been sent
            if record:
                record.unanswered(exc)
            raise
        return record.answered(response) if record else response

    @abstractmethod
    def _make(self, target: Target) -> tuple[Any, httpx2.AsyncClient]:
        """A new client, and the HTTP client below it. Called in a thread."""

    @abstractmethod
    async def _send(self, client: Any, target: Target, body: Any) -> Any:
        """The unread response."""

    async def aclose(self) -> None:
        """Close the running event loop's client."""
        await self._clients.aclose()


def import_packages(package: str) -> None:
    """Import a client's packages and the price list. An import error is ignored here; the first request raises it."""
    for module in ("httpx_aiohttp.httpx2", package, "genai_prices.data"):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)


class HttpxTransport(Transport):
    """Sends through httpx, with the key as a bearer token, or unchanged in the header `key_header`."""

    def __init__(self, client: Any = None, key_header: str | None = None) -> None:
        super().__init__(client, "httpx2", "httpx")
        self._key_header = key_header

    def _make(self, target: Target) -> tuple[Any, httpx2.AsyncClient]:
        client = http_client.new_http_client(target)
        return client, client

    async def _send(self, client: Any, target: Target, body: bytes | None) -> Any:
        address, content = target.base_url.rstrip("/") + target.path, _in_pieces(body)
        method = "GET" if body is None else "POST"
        headers = _about(body)
        if target.key:
            secret = target.key.get_secret_value()
            headers |= {self._key_header: secret} if self._key_header else {"Authorization": f"Bearer {secret}"}
        headers |= target.headers  # the user's own key takes precedence
        if self._given is None:  # our client has no settings to merge, which would cost CPU
            import httpx2

            headers = {name.lower(): value for name, value in {**OWN_HEADERS, **headers}.items()}
            request = httpx2.Request(method, _parsed(address), headers=headers, content=content)
        else:
            request = client.build_request(method, address, headers=headers, content=content)
        return await client.send(request, stream=True)


class SDKTransport(Transport):
    """Sends through the low-level `post` of a provider's official SDK, which handles authentication, Azure, Bedrock and
    Vertex.
    """

    sends_by = "post"

    def __init__(self, module: str, client_class: str, client: Any = None) -> None:
        super().__init__(client, module)
        self._module = module
        self._client_class = client_class

    def _make(self, target: Target) -> tuple[Any, httpx2.AsyncClient]:
        sdk = importlib.import_module(self._module)
        http = http_client.new_http_client(target)
        client = getattr(sdk, self._client_class)(
            api_key=target.key.get_secret_value() if target.key else "none",  # the login is in the headers instead
            base_url=target.base_url,
            default_headers=dict(target.headers),
            timeout=http.timeout,
            max_retries=0,
            http_client=http,
        )
        return client, http

    async def _send(self, client: Any, target: Target, body: Any) -> Any:
        """See `Transport`. Clients that rewrite bodies (Azure, Bedrock, Vertex) receive a dict, the SDK's own bytes.

        Our own client already has the headers, since the SDK logs the headers of a request.
        """
        about = _about(body)
        content: dict[str, Any] = {}
        if isinstance(body, Mapping):
            about, content = {"Content-Type": "multipart/form-data"}, {"files": body}
        elif type(client).__name__ == self._client_class:
            content = {"content": _in_pieces(body)}
        elif body is not None:
            about, content = _about(None), {"body": json.loads(body)}
        more = {} if self._given is None else target.headers
        headers = {**about, **more, **target.more_headers, **_UNREAD}
        options: dict[str, Any] = {"max_retries": 0, "headers": headers}
        sdk = importlib.import_module(self._module)
        try:
            if body is None:
                reply = await client.get(target.path, cast_to=object, options=options)
            else:
                reply = await client.post(target.path, cast_to=object, options=options, **content)
        except sdk.APIStatusError as exc:
            return exc.response
        response = reply.http_response
        if "amazon.eventstream" in response.headers.get("content-type", ""):
            # Bedrock's events have a binary framing that only its client can read
            response.nbagent_decoder = client._make_sse_decoder()
        return response


@functools.lru_cache(maxsize=16)
def _parsed(address: str) -> httpx2.URL:
    """The address as httpx2's URL. Parsing it takes several percent of a small request's CPU."""
    import httpx2

    return httpx2.URL(address)


def _about(body: bytes | None) -> dict[str, str]:
    """The headers that describe a JSON body."""
    return {"Content-Type": "application/json", **({"Content-Length": str(len(body))} if body else {})}


def _in_pieces(body: bytes | None) -> bytes | AsyncIterator[bytes] | None:
    """A short body as it is, a long one as an iterator."""
    if body is None or len(body) <= LONGEST_PIECE:
        return body

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), LONGEST_PIECE):
            yield body[start : start + LONGEST_PIECE]

    return pieces()

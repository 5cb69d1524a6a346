"""A client over a transport of httpx, for requests that are ready: no cookies, no redirects, no authentication.

`httpx.AsyncClient` looks for all of these at each request, which costs as much as sending it.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import httpx

#: What `httpx.AsyncClient` sends, too. A response decodes these encodings by itself.
_HEADERS = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate", "Connection": "keep-alive", "User-Agent": "nbagent"}
#: An address is taken apart once.
_url = functools.lru_cache(maxsize=64)(httpx.URL)


class Client:
    """What of `httpx.AsyncClient` a transport here uses; `transport` sends, `timeout` holds for each request.

    >>> client = Client(httpx.AsyncHTTPTransport(), httpx.Timeout(60.0))            # doctest: +SKIP
    >>> request = client.build_request("GET", "http://127.0.0.1:8000/v1/models")    # doctest: +SKIP
    >>> response = await client.send(request, stream=True)                          # doctest: +SKIP
    """

    def __init__(self, transport: Any, timeout: httpx.Timeout) -> None:
        self._transport = transport
        self._extensions = {"timeout": timeout.as_dict()}

    def build_request(
        self, method: str, url: str, *, content: bytes | None = None, headers: dict[str, str] | None = None
    ) -> httpx.Request:
        """A request. Raises `httpx.InvalidURL`."""
        headers = {**_HEADERS, **(headers or {})}
        return httpx.Request(method, _url(url), content=content, headers=headers, extensions=self._extensions)

    async def send(self, request: httpx.Request, *, stream: Literal[True]) -> httpx.Response:
        """The response; it is still to be read, and closed. Raises the errors of httpx."""
        response: httpx.Response = await self._transport.handle_async_request(request)
        response.request = request
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

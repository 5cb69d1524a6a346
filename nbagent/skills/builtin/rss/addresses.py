"""Keeps requests for feeds out of this machine and its network, whatever a feed, a redirection or a name server says.

A host name is resolved once. All its addresses must be public, and the connection goes to one that was checked, so that
a second answer of the name server changes nothing.
"""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import httpx2

from nbagent.providers.http.address import proxy_for
from nbagent.providers.http.client import tls_context

#: The extension of a request, and of the redirections that follow, that allows private addresses.
PRIVATE = "nbagent_private"
#: IPv6 addresses whose last 32 bits are an IPv4 address: translated and compatible ones.
_HOLD_IPV4 = [IPv6Network("64:ff9b::/96"), IPv6Network("::/96")]
#: No connection is used again: one that was made for a name must not serve another name at the same address.
_LIMITS = httpx2.Limits(max_keepalive_connections=0)


class RefusedAddressError(Exception):
    """A request would have gone to an address that is not public."""


def is_public(address: str) -> bool:
    """Whether an address belongs to the internet, also if it holds an IPv4 address.

    >>> [is_public(each) for each in ("8.8.8.8", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "64:ff9b::a00:1")]
    [True, False, False, False, False]
    """
    found = ip_address(address.partition("%")[0])
    inner = _ipv4_in(found) if isinstance(found, IPv6Address) else None
    return all(each.is_global and not each.is_multicast for each in (found, inner) if each is not None)


def _ipv4_in(address: IPv6Address) -> IPv4Address | None:
    if any(address in network for network in _HOLD_IPV4):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


async def public_addresses(host: str, port: int) -> list[str]:
    """The addresses of a host. Raises `RefusedAddressError` if one is not public, and httpx2's error without any."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpx2.ConnectError(f"{host}: {getattr(error, 'strerror', None) or error}") from None
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    if private := [address for address in addresses if not is_public(address)]:
        raise RefusedAddressError(f"{host} is {private[0]}, an address of this machine or a private network")
    return addresses


class PublicOnly(httpx2.AsyncBaseTransport):
    """A transport that connects to public addresses only, unless a request allows private ones.

    Behind a proxy, names go to the proxy, which decides where they lead.
    """

    def __init__(self) -> None:
        self._ways: dict[str | None, httpx2.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request to an address that was checked."""
        host, proxy = request.url.host, proxy_for(str(request.url))
        way = self._way(proxy)
        if request.extensions.get(PRIVATE) or (proxy and not _is_address(host)):
            return await way.handle_async_request(request)
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        failed: httpx2.TransportError | None = None
        for address in await public_addresses(host, port):
            try:
                return await way.handle_async_request(_sent_to(request, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:  # such as IPv6 where there is none
                failed = error
        raise failed or httpx2.ConnectError(f"{host} has no address")

    def _way(self, proxy: str | None) -> httpx2.AsyncHTTPTransport:
        if proxy not in self._ways:
            self._ways[proxy] = httpx2.AsyncHTTPTransport(
                verify=tls_context(), trust_env=False, proxy=proxy, limits=_LIMITS
            )
        return self._ways[proxy]

    async def aclose(self) -> None:
        """Close the connections."""
        for way in self._ways.values():
            await way.aclose()


def _sent_to(request: httpx2.Request, address: str) -> httpx2.Request:
    """The same request, for an address: the name stays in the header Host and in TLS."""
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True

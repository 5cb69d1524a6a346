"""Fixtures of the provider tests."""

import asyncio
import ssl
from contextlib import asynccontextmanager

import httpx
import pytest
import trustme
from support.loopback import Loopback, served_by

from nbagent.providers import create_provider
from nbagent.providers.http import network

pytest.register_assert_rewrite("conformance", "conformance_case", "conformance_histories", "conformance_trouble")


@pytest.fixture
async def loopback():
    async with Loopback() as server:
        yield server


@pytest.fixture
async def connect(loopback):
    """Makes providers that talk to the loopback server, and closes them."""
    made = []

    def make(vendor="open_source", **options):
        base_url = loopback.url + (
            "" if vendor in ("claude", "minimax") else "/v1beta" if vendor == "gemini" else "/v1"
        )
        defaults = {"api_key": "test-key", "model": "m1", "base_url": base_url}
        made.append(create_provider(vendor, **{**defaults, **options}))
        return made[-1]

    yield make
    for provider in made:
        await provider.aclose()


@pytest.fixture(scope="session")
def embedded_server():
    """The embedded model's process, loaded once for the whole session."""
    from nbagent.providers.local.download import cached, pull
    from nbagent.providers.local.provider import LocalProvider
    from nbagent.providers.local.server import ServerSettings, available_processors, end_unused, shared_server

    keeper = LocalProvider()
    path = (cached() or pull(progress=False)).resolve()
    server = shared_server(ServerSettings(str(path), keeper.model_name, keeper.n_ctx, available_processors()))
    server.users.add(keeper)
    yield server
    end_unused(all_of_them=True)


@pytest.fixture
async def embedded(embedded_server):
    """A provider of the embedded model, on the session's process."""
    from nbagent.providers.local.provider import LocalProvider

    provider = LocalProvider()
    yield provider
    await provider.aclose()


@pytest.fixture(scope="module")
def contexts():
    """A server's and a client's."""
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    return server, client


@pytest.fixture(params=["plain", "tls"])
def secured(request, contexts):
    """The same, or twice None."""
    return contexts if request.param == "tls" else (None, None)


@pytest.fixture
def meet(secured):
    """Gives `(connection, server's reader, server's writer)` in a block, and closes both ends."""

    @asynccontextmanager
    async def meeting():
        met, over = asyncio.get_running_loop().create_future(), asyncio.Event()

        async def serve(reader, writer):
            met.set_result((reader, writer))
            await over.wait()

        async with served_by(serve, tls=secured[0]) as address:
            host, port = address.split(":")
            connection = await network.connect(httpx, host, int(port), secured[1], timeout=60)
            yield connection, *await met
            connection.close()
            over.set()

    return meeting

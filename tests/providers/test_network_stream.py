"""The bytes under a connection: time limits, pressure in both directions, each way to end; with TLS and without."""

import asyncio
import gc
import socket
import ssl
import struct
import threading

import httpcore
import httpcore2
import httpx
import pytest
import trustme
from loopback import Answer, Loopback, said, served_by, sse

from nbagent.core.messages import LLMMessage
from nbagent.providers import create_provider
from nbagent.providers.connections import Connections
from nbagent.providers.network import MOST_UNREAD, MOST_UNSENT, connect

MANY = 2**26


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
    """Gives `(stream, server's reader, server's writer)` in a block, and closes both ends."""

    class Meeting:
        async def __aenter__(self):
            self.met, self.over = asyncio.get_running_loop().create_future(), asyncio.Event()
            self.server = served_by(self.serve, tls=secured[0])
            host, port = (await self.server.__aenter__()).split(":")
            self.stream = await connect(httpcore, host, int(port), secured[1], timeout=60)
            return self.stream, *await self.met

        async def serve(self, reader, writer):
            self.met.set_result((reader, writer))
            await self.over.wait()

        async def __aexit__(self, *exc):
            await self.stream.aclose()
            self.over.set()
            await self.server.__aexit__(*exc)

    return Meeting


async def read_all(stream, size):
    """So many bytes."""
    read = 0
    while read < size:
        piece = await stream.read(2**16, timeout=60)
        assert 0 < len(piece) <= 2**16
        read += len(piece)
    return read


async def test_what_is_written_goes_out_in_one_piece_when_the_answer_is_awaited(meet):
    async with meet() as (stream, reader, writer):
        for word in (b"head ", b"body ", b""):
            await stream.write(word, timeout=60)
        answer = asyncio.create_task(stream.read(2, timeout=60))
        assert await reader.read(100) == b"head body "
        writer.write(b"abc")
        assert [await answer, await stream.read(2, timeout=60)] == [b"ab", b"c"]


async def test_the_end_is_told_again_and_again(meet):
    async with meet() as (stream, _, writer):
        writer.write(b"all")
        writer.close()
        assert [await stream.read(9, timeout=60) for _ in range(3)] == [b"all", b"", b""]
        assert stream.get_extra_info("is_readable")
        await stream.write(b"x", timeout=60)
        assert await stream.read(9, timeout=60) == b""
        with pytest.raises(httpcore.WriteError):
            await stream.write(bytes(MOST_UNSENT), timeout=60)


async def test_time_limits_are_for_each_read_also_where_they_differ(meet):
    async with meet() as (stream, _, writer):
        loop = asyncio.get_running_loop()
        for limit in (0.05, 60, 0.05, None):
            if limit == 0.05:
                begun = loop.time()
                with pytest.raises(httpcore.ReadTimeout):
                    await stream.read(9, timeout=limit)
                assert loop.time() - begun >= limit
            else:
                loop.call_later(0.1, writer.write, b"late")
                assert await stream.read(9, timeout=limit) == b"late"


async def test_a_timer_that_rings_between_reads_or_early_ends_nothing(meet):
    """One timer outlives many reads: rung by hand here, since waiting for it would prove nothing on a slow machine."""
    async with meet() as (stream, _, writer):
        waiting = asyncio.create_task(stream.read(9, timeout=60))
        await asyncio.sleep(0)
        writer.write(b"a")
        assert await waiting == b"a"
        first = stream._timer
        waiting = asyncio.create_task(stream.read(9, timeout=1000))
        await asyncio.sleep(0)
        assert stream._timer is first
        stream._ring()
        assert stream._timer.when() > first.when()
        writer.write(b"b")
        assert await waiting == b"b"
        stream._ring()
        assert stream._timer is None
        writer.write(b"c")
        assert await stream.read(9, timeout=60) == b"c"


async def test_a_server_that_says_more_than_is_read_has_to_wait(meet):
    async with meet() as (stream, _, writer):
        writer.write(bytes(MANY))
        await asyncio.sleep(0.2)
        assert len(stream._unread) < 4 * MOST_UNREAD
        assert await read_all(stream, MANY) == MANY


async def test_a_server_that_does_not_read(meet):
    async with meet() as (stream, _, _writer):
        with pytest.raises(httpcore.WriteTimeout):
            await stream.write(bytes(MANY), timeout=0.05)


async def test_a_server_that_reads_later(meet):
    async with meet() as (stream, reader, _):
        await stream.write(b"head", timeout=60)
        writing = asyncio.create_task(stream.write(bytes(MANY), timeout=60))
        await asyncio.sleep(0.2)
        assert not writing.done()
        reading = asyncio.create_task(reader.readexactly(len(b"head") + MANY))
        await writing
        assert await reading == b"head" + bytes(MANY)


@pytest.mark.parametrize("library", [httpcore, httpcore2])
async def test_a_connection_that_is_reset(meet, library):
    async with meet() as (stream, _, writer):
        stream._core = library
        waiting = asyncio.create_task(stream.read(9, timeout=60))
        await asyncio.sleep(0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        with pytest.raises(library.ReadError, match="reset"):
            await waiting


async def test_a_stream_closed_by_another_task_has_not_come_to_its_end(meet):
    async with meet() as (stream, _, _writer):
        waiting = asyncio.create_task(stream.read(9, timeout=60))
        await asyncio.sleep(0)
        await stream.aclose()
        with pytest.raises(httpcore.ReadError, match="closed here"):
            await waiting


async def test_a_reader_that_is_cancelled_leaves_the_stream_as_it_was(meet):
    async with meet() as (stream, _, writer):
        waiting = asyncio.create_task(stream.read(9, timeout=60))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        writer.write(b"still here")
        assert await stream.read(99, timeout=60) == b"still here"


async def test_what_it_tells_of_itself(meet, secured):
    async with meet() as (stream, _, writer):
        assert stream.get_extra_info("server_addr") == writer.get_extra_info("sockname")
        assert stream.get_extra_info("client_addr") == writer.get_extra_info("peername")
        assert stream.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert bool(stream.get_extra_info("ssl_object")) == bool(secured[0])
        if not secured[0]:  # a TLS server says something of its own accord
            assert not stream.get_extra_info("is_readable")
        writer.write(b"x")
        assert stream.get_extra_info("is_readable")  # before the event loop has seen it


async def test_connecting_is_given_up(contexts):
    async def silent(reader, _):
        await reader.read()

    async with served_by(silent) as address:
        host, port = address.split(":")
        with pytest.raises(httpcore.ConnectTimeout):
            await connect(httpcore, host, int(port), contexts[1], timeout=0.05)
        connecting = asyncio.create_task(connect(httpcore, host, int(port), contexts[1], timeout=60))
        await asyncio.sleep(0.05)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "no-such-host.invalid", "a" * 64, "a..b"])
async def test_nobody_is_there(host):
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(httpcore.ConnectError, match=r"\w"):
            await connect(httpcore, host, taken.getsockname()[1], timeout=60)


async def test_a_name_whose_first_address_does_not_answer(loopback, monkeypatch):
    """As `localhost` is ::1 too, where most servers don't listen."""
    port = int(loopback.url.rpartition(":")[2])
    found = [(socket.AF_INET6, ("::1", port, 0, 0)), (socket.AF_INET, ("127.0.0.1", port))]

    async def getaddrinfo(*_, **__):
        return [(family, socket.SOCK_STREAM, 6, "", address) for family, address in found]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    stream = await connect(httpcore, "two.test", port, timeout=60)
    assert stream.get_extra_info("server_addr") == ("127.0.0.1", port)
    await stream.aclose()


async def test_a_loop_that_was_just_closed_leaves_no_socket(secured, contexts, monkeypatch):
    """Nothing can be awaited any more, and nothing is left to warn of."""
    monkeypatch.setattr("nbagent.providers.connections.tls_context", lambda: contexts[1])
    async with Loopback(tls=secured[0]) as server:
        server.answers = [Answer(sse(said("Good.")))]

        def elsewhere():
            loop, connections = asyncio.new_event_loop(), Connections(httpx)
            client = connections.client(60)
            assert loop.run_until_complete(client.get(server.url)).status_code == 200
            loop.close()
            connections.abandon()

        thread = threading.Thread(target=elsewhere)
        thread.start()
        while thread.is_alive() or server.open:
            await asyncio.sleep(0.01)
        gc.collect()
    assert server.connections == 1


async def test_addresses_that_are_none():
    for url, error in (("ftp://127.0.0.1", httpx.UnsupportedProtocol), ("http://127.0.0.1:99999", httpx.InvalidURL)):
        client = Connections(httpx).plain_client(httpx.Timeout(60))
        with pytest.raises(error):
            await client.send(client.build_request("GET", url, None, {}), stream=True)


@pytest.mark.parametrize("vendor", ["open_source", "openai"])
def test_uvloop(vendor):
    """Another event loop than asyncio's own."""
    uvloop = pytest.importorskip("uvloop")

    async def main():
        async with Loopback() as server:
            server.answers = [Answer(sse(said("Good.")))]
            provider = create_provider(vendor, api_key="k", model="m1", base_url=f"{server.url}/v1")
            answers = [await provider.chat([LLMMessage("user", "hi")]) for _ in range(3)]
            await provider.aclose()
            return server.connections, [answer.content for answer in answers]

    assert uvloop.run(main()) == (1, ["Good."] * 3)

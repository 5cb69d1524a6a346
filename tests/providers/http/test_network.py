"""One connection: time limits, pressure in both directions, each way to end; with TLS and without."""

import asyncio
import gc
import socket
import struct
import threading
import weakref
from contextlib import aclosing

import httpx
import httpx2
import pytest
from support.connected import GOOD, asked, post, whole
from support.loopback import Answer, Loopback, read_request, said, served_by, sse

from nbagent.core.messages import LLMMessage
from nbagent.providers import create_provider
from nbagent.providers.http.connections import Connections
from nbagent.providers.http.network import MOST_UNREAD, connect

MANY = 2**26


async def size_of(answer):
    return sum([len(piece) async for piece in answer])


async def test_time_limits_are_for_each_piece_also_where_they_differ(meet):
    async with meet() as (connection, _, writer):
        loop = asyncio.get_running_loop()
        async with asked(connection, writer, GOOD[:-4]) as answer:
            for limit in (0.05, 60, 0.05, None):
                answer.timeout = limit
                if limit == 0.05:
                    begun = loop.time()
                    with pytest.raises(httpx.ReadTimeout):
                        await anext(answer)
                    assert loop.time() - begun >= limit
                else:
                    loop.call_later(0.1, writer.write, b"Go")
                    assert await anext(answer) == b"Go"


async def test_a_timer_that_rings_between_reads_or_early_ends_nothing(meet):
    """One timer outlives many reads: rung by hand here, since waiting for it would prove nothing on a slow machine."""
    async with meet() as (connection, _, writer), asked(connection, writer, GOOD[:-4]) as answer:
        waiting = asyncio.create_task(anext(answer))
        await asyncio.sleep(0)
        writer.write(b"a")
        assert await waiting == b"a"
        first = connection._timer
        answer.timeout = 1000
        waiting = asyncio.create_task(anext(answer))
        await asyncio.sleep(0)
        assert connection._timer is first
        connection._ring()
        assert connection._timer.when() > first.when()
        writer.write(b"b")
        assert await waiting == b"b"
        connection._ring()
        assert connection._timer is None
        writer.write(b"c")
        assert await anext(answer) == b"c"


async def test_the_time_limit_of_one_request_is_not_for_the_next(meet):
    async with meet() as (connection, _, writer):
        async with asked(connection, writer, GOOD) as answer:
            assert await whole(answer) == b"Good"
        asking = asyncio.create_task(connection.request(post(read=None, write=None)))
        await asyncio.sleep(0)
        connection._ring()
        assert connection._timer is None
        writer.write(GOOD)
        async with aclosing(await asking) as answer:
            assert await whole(answer) == b"Good"


async def test_a_server_that_says_more_than_is_read_has_to_wait(meet):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % MANY
    async with meet() as (connection, _, writer), asked(connection, writer, head) as answer:
        writer.write(bytes(MANY))
        await asyncio.sleep(0.2)
        assert answer.unread < 4 * MOST_UNREAD
        assert await size_of(answer) == MANY
        assert answer.reusable


@pytest.mark.parametrize("length", [b"", b"Content-Length: 1048576\r\n"])
async def test_a_server_that_closes_behind_a_large_answer(secured, length):
    """On a thread of its own, it is faster than the reader."""
    size, rounds = 2**20, 3

    def serve():
        for _ in range(rounds):
            taken, _ = listening.accept()
            with secured[0].wrap_socket(taken, server_side=True) if secured[0] else taken as sock:
                sock.recv(2**16)
                sock.sendall(b"HTTP/1.1 200 OK\r\n%bConnection: close\r\n\r\n" % length + bytes(size))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        serving = threading.Thread(target=serve)
        serving.start()
        for _ in range(rounds):
            connection = await connect(httpx, *listening.getsockname(), secured[1], timeout=60)
            async with aclosing(await connection.request(post())) as answer:
                assert await size_of(answer) == size
        serving.join()


async def test_a_server_that_does_not_read(meet):
    async with meet() as (connection, _, _writer):
        with pytest.raises(httpx.WriteTimeout):
            await connection.request(post(bytes(MANY), write=0.05))


async def test_a_server_that_reads_later(meet):
    async with meet() as (connection, reader, writer):
        asking = asyncio.create_task(connection.request(post(bytes(MANY))))
        await asyncio.sleep(0.2)
        assert not asking.done()
        assert (await read_request(reader))[1] == bytes(MANY)
        writer.write(GOOD)
        async with aclosing(await asking) as answer:
            assert await whole(answer) == b"Good"


@pytest.mark.parametrize("closes", [True, False])
async def test_a_server_that_refuses_before_it_has_read_all(meet, closes):
    async with meet() as (connection, _, writer):
        asking = asyncio.create_task(connection.request(post(bytes(MANY))))
        await asyncio.sleep(0.2)
        writer.write(b"HTTP/1.1 413 Too large\r\nContent-Length: 10\r\n\r\nToo large.")
        if closes:
            writer.close()
        async with asyncio.timeout(30), aclosing(await asking) as answer:
            assert (answer.status, await whole(answer)) == (413, b"Too large.")
        assert connection.get_extra_info("is_readable"), "what was not sent can't go ahead of another request"


@pytest.mark.parametrize("library", [httpx, httpx2])
async def test_a_connection_that_is_reset(meet, library):
    async with meet() as (connection, _, writer):
        connection._http = library
        asking = asyncio.create_task(connection.request(post()))
        await asyncio.sleep(0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        with pytest.raises(library.ReadError, match="reset"):
            await asking


async def test_an_answer_closed_by_another_task_has_not_come_to_its_end(meet):
    async with meet() as (connection, _, writer), asked(connection, writer, GOOD[:-1]) as answer:
        assert await anext(answer) == b"Goo"
        reading = asyncio.create_task(anext(answer))
        await asyncio.sleep(0)
        connection.close()
        with pytest.raises(httpx.ReadError, match="closed here"):
            await reading


async def test_a_reader_that_is_cancelled_leaves_the_answer_as_it_was(meet):
    async with meet() as (connection, _, writer), asked(connection, writer, GOOD[:-4]) as answer:
        reading = asyncio.create_task(anext(answer))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        writer.write(b"Good")
        assert await whole(answer) == b"Good"


async def test_what_it_tells_of_itself(meet, secured):
    async with meet() as (connection, _, writer):
        assert connection.get_extra_info("server_addr") == writer.get_extra_info("sockname")
        assert connection.get_extra_info("client_addr") == writer.get_extra_info("peername")
        assert connection.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert bool(connection.get_extra_info("ssl_object")) == bool(secured[0])
        if not secured[0]:  # a TLS server says something of its own accord
            assert not connection.get_extra_info("is_readable")
        writer.write(b"x")
        assert connection.get_extra_info("is_readable")  # before the event loop has seen it


async def test_nothing_is_left_of_an_answer_when_it_is_closed(loopback):
    """No cycle waits for the garbage collector."""
    loopback.answers = [Answer(b"Good")]
    host, port = loopback.url.removeprefix("http://").split(":")
    connection = await connect(httpx, host, int(port), timeout=60)
    gc.disable()
    try:
        answer = await connection.request(post())
        assert await whole(answer) == b"Good"
        await answer.aclose()
        left = weakref.ref(answer)
        del answer
        assert left() is None
    finally:
        gc.enable()
        connection.close()


async def test_connecting_is_given_up(contexts):
    async def silent(reader, _):
        await reader.read()

    async with served_by(silent) as address:
        host, port = address.split(":")
        with pytest.raises(httpx.ConnectTimeout):
            await connect(httpx, host, int(port), contexts[1], timeout=0.05)
        connecting = asyncio.create_task(connect(httpx, host, int(port), contexts[1], timeout=60))
        await asyncio.sleep(0.05)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "no-such-host.invalid", "a" * 64, "a..b"])
async def test_nobody_is_there(host):
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(httpx.ConnectError, match=r"\w"):
            await connect(httpx, host, taken.getsockname()[1], timeout=60)


async def test_a_name_whose_first_address_does_not_answer(loopback, monkeypatch):
    """As `localhost` is ::1 too, where most servers don't listen."""
    port = int(loopback.url.rpartition(":")[2])
    found = [(socket.AF_INET6, ("::1", port, 0, 0)), (socket.AF_INET, ("127.0.0.1", port))]

    async def getaddrinfo(*_, **__):
        return [(family, socket.SOCK_STREAM, 6, "", address) for family, address in found]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    connection = await connect(httpx, "two.test", port, timeout=60)
    assert connection.get_extra_info("server_addr") == ("127.0.0.1", port)
    connection.close()


async def test_a_loop_that_was_just_closed_leaves_no_socket(secured, contexts, monkeypatch):
    """Nothing can be awaited any more, and nothing is left to warn of."""
    monkeypatch.setattr("nbagent.providers.http.connections.tls_context", lambda: contexts[1])
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

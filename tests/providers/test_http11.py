"""Our HTTP/1.1 connection, under the clients of httpx and httpx2, against a server that says what it is told."""

import asyncio
import contextlib
import socket
import ssl
import struct

import httpx
import httpx2
import pytest
import trustme

from nbagent.providers import http11
from nbagent.providers.connections import Connections
from nbagent.providers.http11 import Connection
from nbagent.providers.http_client import Client
from nbagent.providers.http_framing import LONGEST_LINE

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n"
CHUNKS = b"3\r\nabc\r\n5;name=value\r\nd\r\nef\r\n00A\r\n0123456789\r\n0\r\nX-Trailer: t\r\n\r\n"


class Told:
    """A server. Each request gets the next answer: its pieces, one write each; `None` hangs up. Or `serve` does it."""

    def __init__(self, *answers, tls=None, serve=None):
        self._serves = serve or self._answers
        self.answers = list(answers)
        self.requests = []
        self.connections = 0
        self._tls = tls

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http{'s' if self._tls else ''}://127.0.0.1:{port}/v1/x?y=z"
        self._tasks = set()
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader, writer):
        self.connections += 1
        self._tasks.add(asyncio.current_task())
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._serves(reader, writer)
        except asyncio.CancelledError:  # at the test's end; asyncio would log it
            pass
        finally:
            writer.close()

    async def _answers(self, reader, writer):
        while await self._answer(reader, writer):
            pass

    async def _answer(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        self.requests.append(head + await reader.readexactly(int(length[0].split(b":")[1]) if length else 0))
        for piece in self.answers.pop(0):
            if piece is None:
                return False
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        return True


@contextlib.asynccontextmanager
async def client_of(http=httpx, timeout=30.0, transport=None):
    client = http.AsyncClient(transport=transport or Connection(http), timeout=timeout, trust_env=False)
    try:
        yield client
    finally:
        await client.aclose()


@pytest.mark.parametrize("http", [httpx, httpx2])
async def test_a_request_and_its_answer(http):
    async with Told([OK]) as server, client_of(http) as client:
        response = await client.post(server.url, content=b"body", headers={"X-Own": "1"})
    assert (response.status_code, response.text, response.reason_phrase) == (200, "ok", "OK")
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/x?y=z HTTP/1.1\r\n")
    assert b"\r\nX-Own: 1" in head
    assert body == b"body"


async def test_chunks_cut_at_any_byte():
    answer = CHUNKED + CHUNKS
    cuts = range(1, len(answer))
    async with Told(*([answer[:cut], answer[cut:]] for cut in cuts)) as server, client_of() as client:
        for cut in cuts:
            assert (await client.get(server.url)).content == b"abcd\r\nef0123456789", cut
    assert server.connections == 1


async def test_every_byte_by_itself():
    async with Told([bytes([byte]) for byte in CHUNKED + CHUNKS]) as server, client_of() as client:
        response = await client.get(server.url)
    assert response.content == b"abcd\r\nef0123456789"
    assert response.headers["x-a"] == "b"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nto the end", "to the end"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok"),
        (b"HTTP/1.1 200\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", "ok"),
    ],
    ids=["no length", "HTTP/1.0", "close"],
)
async def test_a_connection_that_is_not_kept(answer, text):
    async with Told([answer, None], [OK]) as server, client_of() as client:
        assert (await client.get(server.url)).text == text
        assert (await client.get(server.url)).text == "ok"
    assert server.connections == 2


async def test_answers_without_a_body():
    async with (
        Told([b"HTTP/1.1 204 No Content\r\n\r\n"], [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"], [OK]) as server,
        client_of() as client,
    ):
        assert (await client.get(server.url)).content == b""
        assert (await client.head(server.url)).content == b""
        assert (await client.get(server.url)).text == "ok"
    assert server.connections == 1


async def test_interim_answers_are_read_over():
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    async with Told([b"HTTP/1.1 100 Continue\r\n\r\n" + hints, OK]) as server, client_of() as client:
        assert (await client.get(server.url)).text == "ok"


async def test_compressed_bodies_are_unpacked_by_the_client():
    import gzip

    packed = gzip.compress(b"hello")
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    async with Told([head + packed]) as server, client_of() as client:
        assert (await client.get(server.url)).text == "hello"


async def test_a_connection_that_the_server_closed_while_idle_is_made_anew():
    async with Told([OK, None], [OK]) as server:
        async with client_of() as client:
            await client.get(server.url)
            channel = client._transport._channel
            while not channel.ended:
                await asyncio.sleep(0.001)
            assert (await client.get(server.url)).text == "ok"
        assert server.connections == 2


async def test_a_connection_idle_for_long_is_made_anew(monkeypatch):
    monkeypatch.setattr(http11, "KEPT_S", 0.0)
    async with Told([OK], [OK]) as server, client_of() as client:
        await client.get(server.url)
        await client.get(server.url)
    assert server.connections == 2


async def test_an_answer_that_is_closed_early_closes_its_connection():
    async with Told([CHUNKED + b"3\r\nabc\r\n"], [OK]) as server, client_of() as client:
        async with client.stream("GET", server.url) as response:
            assert await anext(response.aiter_bytes()) == b"abc"
        assert (await client.get(server.url)).text == "ok"
    assert server.connections == 2


@pytest.mark.parametrize(
    ("pieces", "error"),
    [
        ([None], "closed the connection"),
        ([b"HTTP/1.1 200 OK\r\nContent-Le", None], "closed the connection"),
        ([b"SSH-2.0-OpenSSH\r\n\r\n"], "no HTTP"),
        ([b"HTTP/1.1 2x0 OK\r\n\r\n"], "no HTTP"),
        ([b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"], "can't be read"),
        ([b"HTTP/1.1 200 OK\r\nspace : x\r\n\r\n"], "can't be read"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"], "no length"),
        ([b"HTTP/1.1 200 OK\r\nX: " + b"x" * http11.LONGEST_HEAD], "headers have more"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", None], "before its answer was whole"),
        ([CHUNKED + b"3\r\nab", None], "before its answer was whole"),
        ([CHUNKED + b"3\r\nabc\r\n", None], "before its answer was whole"),
        ([CHUNKED + b"xyz\r\n"], "no size of a chunk"),
        ([CHUNKED + b"-3\r\nabc\r\n"], "no size of a chunk"),
        ([CHUNKED + b"1" * (LONGEST_LINE + 1)], "has no size"),
    ],
)
async def test_an_answer_that_is_broken(pieces, error):
    async with Told(pieces, [OK]) as server, client_of() as client:
        with pytest.raises(httpx.RemoteProtocolError, match=error):
            await client.get(server.url)
        assert (await client.get(server.url)).text == "ok"


async def test_a_reset_connection():
    async def reset(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        linger = struct.pack("ii", 1, 0)  # closing sends a reset
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    async with Told(serve=reset) as server, client_of() as client:
        with pytest.raises(httpx.ReadError):
            await client.get(server.url)


async def test_a_server_that_says_nothing():
    async with Told([b"HTTP/1.1 200 OK\r\n"]) as server, client_of(timeout=httpx.Timeout(30.0, read=0.05)) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.get(server.url)


async def test_the_timeout_is_for_each_wait():
    """Each piece comes within the timeout, all of them together do not."""

    async def slowly(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED)
        for _ in range(6):
            await asyncio.sleep(0.1)
            writer.write(b"1\r\na\r\n")
        writer.write(b"0\r\n\r\n")

    async with Told(serve=slowly) as server, client_of(timeout=0.5) as client:
        assert (await client.get(server.url)).text == "aaaaaa"


async def test_a_server_that_takes_nothing():
    async def idle(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.Event().wait()

    timeout = httpx.Timeout(30.0, write=0.05)
    async with Told(serve=idle) as server, client_of(timeout=timeout) as client:
        with pytest.raises(httpx.WriteTimeout):
            await client.post(server.url, content=b"x" * 2**25)


async def test_nobody_listens():
    async with client_of() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get("http://127.0.0.1:9")


async def test_no_connection_in_time(monkeypatch):
    async def never(*_, **__):
        await asyncio.sleep(60)

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
    async with client_of(timeout=httpx.Timeout(30.0, connect=0.01)) as client:
        with pytest.raises(httpx.ConnectTimeout):
            await client.get("http://127.0.0.1:9")


async def test_a_long_request_goes_out_whole():
    body = bytes(range(256)) * 2**15
    async with Told([OK]) as server, client_of() as client:
        assert (await client.post(server.url, content=body)).text == "ok"
    assert server.requests[0].endswith(b"\r\n\r\n" + body)


async def test_a_server_that_answers_and_hangs_up_before_the_request_is_whole():
    async def refuse(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await writer.drain()
        await reader.read(2**16)
        writer.write_eof()
        await asyncio.sleep(0.2)
        writer.close()

    async with Told(serve=refuse) as server, client_of() as client:
        response = await client.post(server.url, content=b"x" * 2**24)
        assert (response.status_code, response.text) == (413, "big")


async def test_an_unread_answer_waits_at_the_server():
    size = 64 * 2**20
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size
    async with Told([head, *[b"x" * 2**20] * 64]) as server, client_of() as client:
        async with client.stream("GET", server.url) as response:
            pieces = response.aiter_bytes()
            got = len(await anext(pieces))
            channel = response.extensions["network_stream"]
            for _ in range(50):
                await asyncio.sleep(0.001)
            assert len(channel.buffer) < 2 * http11.MOST_UNREAD
            async for piece in pieces:
                got += len(piece)
        assert got == size


async def test_what_can_not_be_sent_is_not():
    async with Told([OK]) as server, client_of() as client:
        with pytest.raises(httpx.LocalProtocolError, match="X-Own"):
            await client.get(server.url, headers={"X-Own": "a\r\nX-Other: b"})
        with pytest.raises(httpx.UnsupportedProtocol):
            await client.get("ftp://127.0.0.1/")
    assert server.requests == []


async def test_tls_with_its_own_authority_and_without():
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    async with Told([CHUNKED + CHUNKS], [OK], tls=context) as server:
        async with client_of(transport=Connection(httpx, trust)) as client:
            assert (await client.get(server.url)).content == b"abcd\r\nef0123456789"
            assert (await client.get(server.url)).text == "ok"
        assert server.connections == 1
        async with client_of() as client:
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await client.get(server.url)


async def test_a_cancelled_request_leaves_no_connection():
    async with Told([], [OK]) as server, client_of() as client:
        task = asyncio.create_task(client.get(server.url))
        while not server.requests:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert client._transport._channel is None
        assert (await client.get(server.url)).text == "ok"
    assert server.connections == 2


async def test_requests_at_the_same_time_have_a_connection_each():
    connections = Connections(httpx, ssl.create_default_context())
    async with Told(*[[OK]] * 6) as server, client_of(transport=connections) as client:
        answers = await asyncio.gather(*[client.get(server.url) for _ in range(3)])
        answers += await asyncio.gather(*[client.get(server.url) for _ in range(3)])
    assert [answer.text for answer in answers] == ["ok"] * 6
    assert server.connections == 3


async def test_a_ready_request_needs_no_more_than_the_small_client():
    async with Told([CHUNKED + CHUNKS]) as server:
        client = Client(Connections(httpx, ssl.create_default_context()), httpx.Timeout(5.0))
        request = client.build_request("POST", server.url, content=b"{}", headers={"Authorization": "Bearer x"})
        response = await client.send(request, stream=True)
        assert await response.aread() == b"abcd\r\nef0123456789"
        await client.aclose()
    head = server.requests[0].lower()
    for line in (b"host: 127.0.0.1", b"content-length: 2", b"authorization: bearer x", b"accept-encoding: gzip"):
        assert b"\r\n" + line in head

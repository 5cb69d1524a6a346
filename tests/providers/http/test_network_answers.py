"""What goes over a connection: the request as it is sent, every form of answer, and what is none."""

import asyncio
from contextlib import aclosing

import httpx
import pytest
from support.connected import GOOD, asked, post, whole
from support.loopback import read_request, served_by

from nbagent.providers.http.network import LONGEST_HEAD, connect


async def test_what_is_asked_goes_out_at_once_and_what_comes_is_given_at_once(meet):
    async with meet() as (connection, reader, writer):
        asking = asyncio.create_task(connection.request(post(b"hello", headers={"X-A": "1"})))
        head = b"POST /b?c=d HTTP/1.1\r\nHost: a.test\r\nX-A: 1\r\nContent-Length: 5\r\n\r\n"
        assert await reader.read(1000) == head + b"hello"
        writer.write(b"HTTP/1.1 201 Made\r\nX-B: \xfc\r\nTransfer-Encoding: chunked\r\n\r\n")
        answer = await asking
        assert (answer.status, answer.headers) == (201, [(b"X-B", b"\xfc"), (b"Transfer-Encoding", b"chunked")])
        for piece, sent in ((b"one", b"3\r\none\r\n"), (b"twothree", b"3\r\ntwo\r\n5\r\nthree\r\n")):
            writer.write(sent)
            assert await anext(answer) == piece
        writer.write(b"0\r\n\r\n")
        assert await whole(answer) == await whole(answer) == b""


#: The form of an answer -> its bytes, and whether the connection can be used again. The body is "Good".
FORMS = {
    "length": (GOOD, True),
    "chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nG\r\n3;a=b\r\nood\r\n0\r\nX-Late: 1\r\n\r\n",
        True,
    ),
    "notices": (b"HTTP/1.1 100 Continue\r\nX-Early: 1\r\n\r\nHTTP/1.1 103 Hints\r\n\r\n" + GOOD, True),
    "chunks and a length": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nGood\r\n0\r\n\r\n",
        True,
    ),
    "bare line feeds": (GOOD.replace(b"\r\n", b"\n"), True),
    "no reason": (GOOD.replace(b" OK", b""), True),
    "old": (GOOD.replace(b"1.1", b"1.0"), False),
    "last": (GOOD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), False),
    "to the end": (b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\nGood", False),
    "old, to the end": (b"HTTP/1.0 200 OK\r\nServer: x\r\n\r\nGood", False),
}


@pytest.mark.parametrize("form", FORMS)
async def test_every_form_of_an_answer_split_anywhere(form):
    sent, again = FORMS[form]
    splits = iter(range(len(sent) + 1))

    async def serve(reader, writer):
        while True:
            await read_request(reader)
            split = next(splits)
            for part in (sent[:split], sent[split:]):
                writer.write(part)
                for _ in range(3):  # the client looks
                    await asyncio.sleep(0)
            if not again:
                return

    async with served_by(serve) as address:
        host, port = address.split(":")
        connection = None
        for _ in range(len(sent) + 1):
            if connection is None or connection.get_extra_info("is_readable"):
                assert connection is None or not again
                connection = await connect(httpx, host, int(port), timeout=60)
            async with aclosing(await connection.request(post())) as answer:
                assert (answer.status, await whole(answer), answer.reusable) == (200, b"Good", again)
                assert len(answer.headers) == (2 if form in ("last", "chunks and a length") else 1)
        connection.close()
    assert next(splits, None) is None


@pytest.mark.parametrize("status", [204, 304])
async def test_answers_that_have_no_body(meet, status):
    async with (
        meet() as (connection, _, writer),
        asked(connection, writer, b"HTTP/1.1 %d X\r\n\r\n" % status) as answer,
    ):
        assert (answer.status, await whole(answer), answer.reusable) == (status, b"", True)


NO_HTTP = {
    "garbage": b"SSH-2.0-OpenSSH_9.6\r\n",
    "tls": b"\x15\x03\x01\x00\x02\x02\x46",
    "http/2": b"\x00\x00\x12\x04\x00\x00\x00\x00\x00",
    "another protocol": b"HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    "a length that is none": GOOD.replace(b"4", b"four"),
    "lengths that differ": GOOD.replace(b"4\r", b"4\r\nContent-Length: 5\r"),
    "headers without an end": b"HTTP/1.1 200 OK\r\nX: " + bytes(LONGEST_HEAD).replace(b"\0", b"x"),
    "notices without an end": b"HTTP/1.1 100 Continue\r\n\r\n" * (LONGEST_HEAD // 20),
}


@pytest.mark.parametrize("sent", NO_HTTP.values(), ids=NO_HTTP)
async def test_what_is_no_http(meet, sent):
    async with meet() as (connection, _, writer):
        with pytest.raises(httpx.RemoteProtocolError, match="is no HTTP/1.1: .."):
            async with asked(connection, writer, sent):
                pass
        assert connection.get_extra_info("is_readable")


@pytest.mark.parametrize("sent", [b"5\r\nGood", b"4\r\nGood\r\n", b"4\r\nGood\r\nx\r\n"])
@pytest.mark.parametrize("read_before", [True, False], ids=["read", "unread"])
async def test_a_body_that_breaks_off_is_given_as_far_as_it_came(meet, sent, read_before):
    async with meet() as (connection, _, writer):
        async with asked(connection, writer, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") as answer:
            reading = asyncio.create_task(anext(answer)) if read_before else None
            writer.write(sent)
            writer.close()
            if reading is None:
                await writer.wait_closed()
            assert (await reading if reading else await anext(answer)).startswith(b"Good")
            with pytest.raises(httpx.RemoteProtocolError, match=r"in the middle of its answer|is no HTTP"):
                await whole(answer)
        assert not answer.reusable


async def test_a_server_that_hangs_up_without_a_word(meet):
    async with meet() as (connection, _, writer):
        writer.close()
        for _ in range(2):
            with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
                await connection.request(post())
        assert connection.get_extra_info("is_readable")


@pytest.mark.parametrize("said", [GOOD, b"x"], ids=["another answer", "garbage"])
@pytest.mark.parametrize("late", [True, False], ids=["later", "at once"])
async def test_what_nobody_asked_for(meet, said, late):
    """The answer before it is whole, the connection is of no more use."""
    async with meet() as (connection, reader, writer):
        async with asked(connection, writer, GOOD + (b"" if late else said)) as answer:
            assert await whole(answer) == b"Good"
        writer.write(said)
        await reader.read()  # until the client goes
        assert connection.get_extra_info("is_readable")


@pytest.mark.parametrize(
    "header",
    [{"X": b"1\r\nY: 2"}, {"X": b"1\n2"}, {b"X\r\nY": b"1"}, {"X": b"\0"}, {"X Y": "1"}, {"X:": "1"}, {"": "1"}],
)
async def test_headers_that_are_none(meet, header):
    async with meet() as (connection, _, _writer):
        with pytest.raises(httpx.LocalProtocolError, match="characters that no header has"):
            await connection.request(post(headers=header))

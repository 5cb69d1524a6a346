"""A real HTTP server on 127.0.0.1 that answers as told, well or badly, and remembers what it was asked."""

import asyncio
import contextlib
import json
from dataclasses import dataclass, field

from nbagent.core.background import run_sync


@dataclass
class Answer:
    """One HTTP answer, in pieces of `step` bytes where that is given.

    `end`: "close" ends it well, "drop" breaks the connection, "stall" sends nothing more.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    end: str = "close"
    step: int = 0

    @property
    def pieces(self) -> list[bytes]:
        step = self.step or len(self.body) or 1
        return [self.body[at : at + step] for at in range(0, len(self.body), step)]


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: bytes
    method: str = ""

    @property
    def json(self):
        return json.loads(self.body)


def sse(*events, done=True) -> bytes:
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join([*lines, "data: [DONE]\n\n" if done else ""]).encode()


def said(text, finish="stop", **more) -> dict:
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]
    return {"id": "c1", "model": "m1", "choices": choices} | more


def named(*events) -> bytes:
    """Events as a stream in which each is named by its type."""
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def claude_said(text) -> bytes:
    """A whole Messages stream with one text."""
    start = {"id": "msg_1", "role": "assistant", "model": "m1", "content": [], "usage": {"input_tokens": 1}}
    return named(
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    )


def responses_said(text) -> bytes:
    """A whole stream of the Responses API with one text."""
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    whole = {"id": "r1", "status": "completed", "output": [message]}
    return sse({"type": "response.completed", "response": whole}, done=False)


def gemini_said(text) -> bytes:
    """A whole Gemini stream with one text."""
    content = {"parts": [{"text": text}], "role": "model"}
    return sse({"candidates": [{"content": content, "finishReason": "STOP"}]}, done=False)


class Loopback:
    """`answers` are given in order, the last one again and again. With a TLS context, it speaks https."""

    def __init__(self, tls=None):
        self._tls = tls
        self.answers: list[Answer] = []
        self.requests: list[Request] = []
        self.connections = 0
        self.open = 0
        self.url = ""
        #: Set when a client leaves while it is kept waiting.
        self.left = asyncio.Event()
        self._came = asyncio.Event()

    async def __aenter__(self):
        self._served = served_by(self._serve, self._tls)
        self.url = f"http{'s' if self._tls else ''}://{await self._served.__aenter__()}"
        return self

    async def __aexit__(self, *_):
        await self._served.__aexit__(None, None, None)

    async def has_requests(self, count):
        while len(self.requests) < count:
            self._came.clear()
            await self._came.wait()

    def answer_to(self, request: Request) -> Answer:
        return self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)

    async def _serve(self, reader, writer):
        self.connections += 1
        self.open += 1
        try:
            while await self._answer(reader, writer):
                pass
        finally:
            self.open -= 1

    async def _answer(self, reader, writer) -> bool:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = first.split()
        self.requests.append(Request(path, headers, body, method))
        self._came.set()
        answer = self.answer_to(self.requests[-1])
        try:
            return await self._send(answer, reader, writer)
        finally:
            if answer.end == "stall":
                self.left.set()

    async def _send(self, answer, reader, writer) -> bool:
        sent = {"content-type": "text/event-stream", "transfer-encoding": "chunked", **answer.headers}
        lines = [f"HTTP/1.1 {answer.status} X", *(f"{key}: {value}" for key, value in sent.items()), "", ""]
        writer.write("\r\n".join(lines).encode())
        for piece in answer.pieces:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        if answer.end == "close":
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        if answer.end == "stall":
            await reader.read()  # until the client goes
        return answer.end == "close"


@contextlib.asynccontextmanager
async def served_by(handler, tls=None):
    """A server of raw connections, each given to `handler(reader, writer)` and closed after it -> its address."""
    tasks = set()

    async def serve(reader, writer):
        tasks.add(asyncio.current_task())
        with contextlib.suppress(asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            await handler(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def read_request(reader) -> tuple[str, bytes]:
    """The head, in lower case, and the body of a request."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = head.partition("content-length: ")[2].split()
    return head, await reader.readexactly(int(length[0]) if length else 0)


@contextlib.contextmanager
def served(server):
    """A server in the background: for tests that block, and for what kernels and browsers ask meanwhile."""
    run_sync(server.__aenter__())
    try:
        yield server
    finally:
        run_sync(server.__aexit__(None, None, None))

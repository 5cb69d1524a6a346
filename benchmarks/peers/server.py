"""A fast stand-in for providers, in its own process: `python server.py` prints its port and ends with its stdin.

    POST /v1/chat/completions     JSON or SSE, a usage chunk when asked for
    POST /v1/responses            JSON or SSE
    POST /v1/messages             Anthropic; JSON or SSE, thinking blocks

The model's name is the script; a `provider/` before it is ignored:

    text-500                500 text deltas of 4 characters, an HTTP chunk each
    json-20                 the same words as the value of `text` in a JSON object, in one piece
    tools-10                ten rounds that ask for one call add(a, b), then a final text
    par-8                   one round with 8 parallel calls add(a, b), then a final text
    fatools-10, fapar-8     the same, but the end is a call final_answer(answer=…)

with options, in any order, joined by `-`:

    d5      5 ms between streamed events
    l50     50 ms before the first byte
    t20     20 thinking deltas first (`reasoning_content` in chat completions)
    f5      5 % of the requests fail, in turn with 429, without an answer, with half of one, with one that is no JSON

But for that, it keeps no state: the round is the number of tool results in the request (for the fa- scripts of
smolagents, which sends results as plain text, of its own "Calling tools:" turns). Whole responses are built once and
cached: about 5,000 requests/s to one blocking client.
"""

import asyncio
import functools
import itertools
import os
import re
import sys
import threading

from formats import JSON, SSE, dumps, parse, plan

MODEL = re.compile(rb'"model"\s*:\s*"([^"]+)"')
STREAM = re.compile(rb'"stream"\s*:\s*true')
USAGE = re.compile(rb'"include_usage"\s*:\s*true')
LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.I)
RESULTS = {
    "chat": (b'"role":"tool"', b'"role": "tool"'),
    "responses": (b'"type":"function_call_output"', b'"type": "function_call_output"'),
    "messages": (b'"type":"tool_result"', b'"type": "tool_result"'),
}
PATHS = {
    b"/v1/chat/completions": "chat",
    b"/chat/completions": "chat",
    b"/v1/responses": "responses",
    b"/responses": "responses",
    b"/v1/messages": "messages",
    b"/messages": "messages",
}
HEAD_SSE = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\nx-request-id: req_1\r\ntransfer-encoding: chunked\r\n\r\n"
)
END_SSE = b"0\r\n\r\n"
LIMITED = (
    b"HTTP/1.1 429 Too Many Requests\r\nretry-after-ms: 20\r\n"
    b"content-type: application/json\r\ncontent-length: 35\r\n\r\n"
    b'{"error":{"message":"Slow down."}}\n'
)
NO_JSON = HEAD_SSE + b'10\r\ndata: {"id": "\n\n\r\n' + END_SSE
#: Numbers the requests that may fail.
NUMBERS = itertools.count(1)


def http_json(status, value):
    """A whole response with a JSON body."""
    body = dumps(value).encode()
    return (
        f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\nx-request-id: req_1\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    ).encode() + body


@functools.lru_cache(4096)
def answer(api, model, results, stream, usage):
    """`(response, latency, delay)`: the bytes, or a list of chunks when they are paced; both times in seconds."""
    options = parse(model)[2]
    parts = plan(model, results)
    delay, latency = options.get("d", 0) / 1000, options.get("l", 0) / 1000
    if not stream:
        return http_json("200 OK", JSON[api](model, *parts, usage)), latency, 0
    chunks = [b"%x\r\n%s\r\n" % (len(e), e) for e in SSE[api](model, *parts, usage)]
    if delay:
        return chunks, latency, delay
    return HEAD_SSE + b"".join(chunks) + END_SSE, latency, 0


class Connection(asyncio.Protocol):
    """One client; requests are answered in their order."""

    def __init__(self):
        self.buffer = bytearray()
        self.need = 0
        self.writing = None

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        while len(self.buffer) >= self.need:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self.buffer[: end + 2])
            length = LENGTH.search(head)
            self.need = end + 4 + (int(length[1]) if length else 0)
            if len(self.buffer) < self.need:
                return
            body = bytes(self.buffer[end + 4 : self.need])
            del self.buffer[: self.need]
            self.need = 0
            self.serve(head, body)

    def serve(self, head, body):
        path = head.split(b" ", 2)[1].split(b"?")[0]
        api = PATHS.get(path)
        model = MODEL.search(body)
        if not api or not model:
            self.transport.write(http_json("404 Not Found", {"error": {"message": path.decode()}}))
            return
        name = model[1].decode()
        marks = (b"Calling tools:\\n",) if name.startswith("fa") else RESULTS[api]
        results = sum(body.count(mark) for mark in marks)
        try:
            data, latency, delay = answer(api, name, results, bool(STREAM.search(body)), bool(USAGE.search(body)))
        except (ValueError, IndexError) as error:
            self.transport.write(http_json("400 Bad Request", {"error": {"message": str(error)}}))
            return
        if self.fails(parse(name)[2].get("f", 0), data):
            return
        if isinstance(data, bytes) and not latency:
            self.transport.write(data)
        else:
            self.writing = asyncio.ensure_future(self.paced(data, latency, delay))

    def fails(self, percent, data):
        """Whether this request is one of those that fail; then that is done."""
        number, each = next(NUMBERS), round(100 / percent) if percent else 0
        if not each or number % each:
            return False
        kind = number // each % 4
        whole = data if isinstance(data, bytes) else HEAD_SSE + b"".join(data)
        self.transport.write((LIMITED, b"", whole[: len(whole) // 2], NO_JSON)[kind])
        if kind in (1, 2):
            self.transport.close()
        return True

    async def paced(self, data, latency, delay):
        if latency:
            await asyncio.sleep(latency)
        if isinstance(data, bytes):
            self.transport.write(data)
            return
        self.transport.write(HEAD_SSE)
        loop = asyncio.get_running_loop()
        due = loop.time()
        for chunk in data:
            self.transport.write(chunk)
            due += delay
            await asyncio.sleep(max(0, due - loop.time()))
            if self.transport.is_closing():
                return
        self.transport.write(END_SSE)


async def main():
    """Serve until the process ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def end_with_stdin():
    """End the process when whoever started it closes the pipe, or ends."""
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=end_with_stdin, daemon=True).start()
    try:
        import uvloop as runner
    except ImportError:
        runner = asyncio
    runner.run(main())

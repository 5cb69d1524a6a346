"""The physical limit in pure Python: one socket, hand-made HTTP, history bytes kept.

Not a design to copy as it is (no TLS, no proxies, no retries): it shows what is left
when the HTTP library, the models and the re-serialising of the history are gone.
"""

import json
import socket
from concurrent.futures import ThreadPoolExecutor

from .base import CHAT_TOOLS, PROMPT, HandLoop, Stream


class Peer(HandLoop):
    imports = "json, socket, ssl"

    def __init__(self, url):
        super().__init__(url)
        host, port = url.split("//")[1].split(":")
        self.address = host, int(port)
        self.head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: "
        ).encode()
        self.connection = self.connect()

    def close(self):
        for connection in [self.connection, *self.cache.get("pool", ())]:
            connection.close()
        super().close()

    def connect(self):
        connection = socket.create_connection(self.address)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def post(self, body, connection=None):
        connection = connection or self.connection
        connection.sendall(b"%s%d\r\n\r\n%s" % (self.head, len(body), body))
        return connection

    def reply(self, body, connection=None):
        connection = self.post(body, connection)
        data = connection.recv(1 << 16)
        end = data.index(b"\r\n\r\n") + 4
        at = data.lower().index(b"content-length:") + 15
        need = end + int(data[at : data.index(b"\r\n", at)])
        while len(data) < need:
            data += connection.recv(1 << 16)
        return json.loads(data[end:])["choices"][0]["message"]

    def stream_text(self, model):
        got = Stream()
        connection = self.post(
            json.dumps(
                {
                    "model": model,
                    "stream": True,
                    "stream_options": {"include_usage": True},
                    "messages": [{"role": "user", "content": PROMPT}],
                }
            ).encode()
        )
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(1 << 16)
        data = data.partition(b"\r\n\r\n")[2]
        loads, add = json.loads, got.add
        while True:
            at = 0  # whole HTTP chunks in `data`
            while (line := data.find(b"\r\n", at)) >= 0:
                size = int(data[at:line], 16)
                end = line + 2 + size
                if len(data) < end + 2:
                    break
                if not size:
                    return got
                event = data[line + 2 : end]
                at = end + 2
                if event.startswith(b"data: {"):
                    for choice in loads(event[6:])["choices"]:
                        add(choice["delta"].get("content"))
            data = data[at:] + connection.recv(1 << 16)

    def rounds(self, model, execute):
        body = bytearray(json.dumps({"model": model, "tools": CHAT_TOOLS})[:-1].encode())
        body += b', "messages": [' + json.dumps({"role": "user", "content": PROMPT}).encode()
        while True:
            message = self.reply(bytes(body + b"]}"))
            if not message.get("tool_calls"):
                return message["content"]
            for new in [message, *execute(message["tool_calls"])]:
                body += b"," + json.dumps(new).encode()

    def parallel_tools(self, model, sleeper, kind):
        if kind != "sync":
            raise NotImplementedError
        return super().parallel_tools(model, sleeper, kind)

    def batch(self, model, prompts, concurrency):
        free = self.kept("pool", lambda: [self.connect() for _ in range(concurrency)])

        def one(prompt):
            connection = free.pop()
            try:
                return self.reply(
                    json.dumps({"model": model, "messages": [{"role": "user", "content": prompt}]}).encode(), connection
                )["content"]
            finally:
                free.append(connection)

        with ThreadPoolExecutor(concurrency) as pool:
            return list(pool.map(one, prompts))

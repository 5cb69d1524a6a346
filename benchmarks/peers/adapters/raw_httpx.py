"""Hand-written minimal loop: httpx + json, chat completions. The practical limit."""

import importlib
import json

from .base import CHAT_TOOLS, PROMPT, HandLoop, Stream, gather_limited


class Peer(HandLoop):
    imports = "httpx"
    library = "httpx"

    def __init__(self, url):
        super().__init__(url)
        http = importlib.import_module(self.library)
        limits = http.Limits(max_connections=64, max_keepalive_connections=64)
        self.sync = http.Client(timeout=600, limits=limits, trust_env=False)
        self.aio = http.AsyncClient(timeout=600, limits=limits, trust_env=False)
        self.to = self.v1 + "/chat/completions"

    def close(self):
        self.sync.close()
        self.run(self.aio.aclose())
        super().close()

    def stream_text(self, model):
        got = Stream()
        body = {
            "model": model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [{"role": "user", "content": PROMPT}],
        }
        with self.sync.stream("POST", self.to, json=body) as response:
            for line in response.iter_lines():
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                for choice in json.loads(line[6:])["choices"]:
                    got.add(choice["delta"].get("content"))
        return got

    def rounds(self, model, execute):
        messages = [{"role": "user", "content": PROMPT}]
        while True:
            reply = self.sync.post(self.to, json={"model": model, "messages": messages, "tools": CHAT_TOOLS}).json()
            message = reply["choices"][0]["message"]
            messages.append(message)
            if not message.get("tool_calls"):
                return message["content"]
            messages += execute(message["tool_calls"])

    def batch(self, model, prompts, concurrency):
        async def one(prompt):
            reply = await self.aio.post(
                self.to, json={"model": model, "messages": [{"role": "user", "content": prompt}]}
            )
            return reply.json()["choices"][0]["message"]["content"]

        return self.run(gather_limited(one, prompts, concurrency))

"""The openai SDK's low-level `post` with a ready body, its raw stream read by hand: the floor of its transport."""

import json

from openai import OpenAI

from .base import CHAT_TOOLS, PROMPT, HandLoop, Stream

#: By this header the SDK leaves the response's body unread.
RAW = {"headers": {"Content-Type": "application/json", "X-Stainless-Raw-Response": "stream"}}


class Peer(HandLoop):
    """Chat completions."""

    imports = "openai"
    path = "/chat/completions"

    def __init__(self, url):
        super().__init__(url)
        self.sdk = OpenAI(base_url=self.v1, api_key="x")

    def close(self):
        self.sdk.close()
        super().close()

    def post(self, **body):
        """An unread response."""
        content = json.dumps(body).encode()
        return self.sdk.post(self.path, cast_to=object, content=content, options=RAW).http_response

    def post_json(self, **body):
        """The answer in one JSON body."""
        response = self.post(**body)
        answer = json.loads(response.read())
        response.close()
        return answer

    def events(self, **body):
        """The event dicts of a streamed answer."""
        response = self.post(stream=True, **body)
        for line in response.iter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                yield json.loads(line[6:])
        response.close()

    def stream_text(self, model):
        got = Stream()
        messages = [{"role": "user", "content": PROMPT}]
        for event in self.events(model=model, stream_options={"include_usage": True}, messages=messages):
            for choice in event["choices"]:
                got.add(choice["delta"].get("content"))
        return got

    def rounds(self, model, execute):
        messages = [{"role": "user", "content": PROMPT}]
        while True:
            message = self.post_json(model=model, messages=messages, tools=CHAT_TOOLS)["choices"][0]["message"]
            messages.append(message)
            if not message.get("tool_calls"):
                return message["content"]
            messages += execute(message["tool_calls"])

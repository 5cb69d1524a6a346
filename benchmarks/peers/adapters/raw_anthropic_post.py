"""The anthropic SDK's low-level `post` with a ready body, its raw stream read by hand: the floor of its transport."""

from anthropic import Anthropic

from . import raw_openai_post
from .base import PROMPT, Base, Stream
from .raw_anthropic import TOOLS


class Peer(raw_openai_post.Peer):
    """Messages."""

    imports = "anthropic"
    path = "/v1/messages"

    def __init__(self, url):
        Base.__init__(self, url)
        self.sdk = Anthropic(base_url=url, api_key="x")

    def stream_text(self, model):
        got = Stream()
        for event in self.events(model=model, max_tokens=4096, messages=[{"role": "user", "content": PROMPT}]):
            if event["type"] == "content_block_delta" and event["delta"]["type"] == "text_delta":
                got.add(event["delta"]["text"])
        return got

    def arguments(self, call):
        return call["input"]

    def result(self, call, value):
        return {"type": "tool_result", "tool_use_id": call["id"], "content": str(value)}

    def rounds(self, model, execute):
        messages = [{"role": "user", "content": PROMPT}]
        while True:
            reply = self.post_json(model=model, max_tokens=4096, messages=messages, tools=TOOLS)
            messages.append({"role": "assistant", "content": reply["content"]})
            if reply["stop_reason"] != "tool_use":
                return reply["content"][0]["text"]
            calls = [block for block in reply["content"] if block["type"] == "tool_use"]
            messages.append({"role": "user", "content": execute(calls)})

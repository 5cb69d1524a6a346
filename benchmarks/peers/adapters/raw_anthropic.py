"""The anthropic SDK by itself (messages) with a hand-written tool loop."""

from anthropic import Anthropic, AsyncAnthropic

from .base import ADD_SCHEMA, PROMPT, HandLoop, Stream, gather_limited

TOOLS = [{"name": "add", "description": "Add two numbers.", "input_schema": ADD_SCHEMA}]


class Peer(HandLoop):
    imports = "anthropic"

    def __init__(self, url):
        super().__init__(url)
        self.sync = Anthropic(base_url=url, api_key="x", timeout=600)
        self.aio = AsyncAnthropic(base_url=url, api_key="x", timeout=600)

    def close(self):
        self.sync.close()
        self.run(self.aio.close())
        super().close()

    def arguments(self, call):
        return call.input

    def result(self, call, value):
        return {"type": "tool_result", "tool_use_id": call.id, "content": str(value)}

    def stream_text(self, model):
        got = Stream()
        for event in self.sync.messages.create(
            model=model, max_tokens=4096, stream=True, messages=[{"role": "user", "content": PROMPT}]
        ):
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                got.add(event.delta.text)
        return got

    def rounds(self, model, execute):
        messages = [{"role": "user", "content": PROMPT}]
        while True:
            reply = self.sync.messages.create(model=model, max_tokens=4096, messages=messages, tools=TOOLS)
            messages.append({"role": "assistant", "content": reply.content})
            if reply.stop_reason != "tool_use":
                return reply.content[0].text
            calls = [b for b in reply.content if b.type == "tool_use"]
            messages.append({"role": "user", "content": execute(calls)})

    def batch(self, model, prompts, concurrency):
        async def one(prompt):
            reply = await self.aio.messages.create(
                model=model, max_tokens=4096, messages=[{"role": "user", "content": prompt}]
            )
            return reply.content[0].text

        return self.run(gather_limited(one, prompts, concurrency))

"""The openai SDK by itself (chat completions) with a hand-written tool loop."""

import json

from openai import AsyncOpenAI, OpenAI

from .base import CHAT_TOOLS, PROMPT, HandLoop, Stream, gather_limited


class Peer(HandLoop):
    imports = "openai"

    def __init__(self, url):
        super().__init__(url)
        self.sync = OpenAI(base_url=self.v1, api_key="x")
        self.aio = AsyncOpenAI(base_url=self.v1, api_key="x")

    def close(self):
        self.sync.close()
        self.run(self.aio.close())
        super().close()

    def arguments(self, call):
        return json.loads(call.function.arguments)

    def result(self, call, value):
        return {"role": "tool", "tool_call_id": call.id, "content": str(value)}

    def stream_text(self, model):
        got = Stream()
        for chunk in self.sync.chat.completions.create(
            model=model,
            stream=True,
            stream_options={"include_usage": True},
            messages=[{"role": "user", "content": PROMPT}],
        ):
            for choice in chunk.choices:
                got.add(choice.delta.content)
        return got

    def rounds(self, model, execute):
        messages = [{"role": "user", "content": PROMPT}]
        while True:
            message = (
                self.sync.chat.completions.create(model=model, messages=messages, tools=CHAT_TOOLS).choices[0].message
            )
            messages.append(message)
            if not message.tool_calls:
                return message.content
            messages += execute(message.tool_calls)

    def batch(self, model, prompts, concurrency):
        async def one(prompt):
            reply = await self.aio.chat.completions.create(model=model, messages=[{"role": "user", "content": prompt}])
            return reply.choices[0].message.content

        return self.run(gather_limited(one, prompts, concurrency))

"""lisette: Chat / AsyncChat over litellm."""

import os

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # no download at import

from lisette import AsyncChat, Chat

from .base import PROMPT, Base, Stream, Ticks, gather_limited


class Peer(Base):
    imports = "lisette"
    prefix = "openai/"

    def chat(self, model, *tools, kind=Chat):
        return kind(model, tools=list(tools) or None, api_base=self.v1, api_key="x")

    def stream_text(self, model):
        got = Stream()
        for chunk in self.chat(model)(PROMPT, stream=True):
            for choice in getattr(chunk, "choices", ()):
                if getattr(choice, "delta", None):
                    got.add(choice.delta.content)
        return got

    def tool_loop(self, model):
        ticks = Ticks()
        reply = self.chat(model, ticks.tool())(PROMPT, max_steps=100_000)
        ticks.final = reply.choices[0].message.content
        return ticks

    def parallel_tools(self, model, sleeper, kind):
        tool = sleeper.tool(kind)
        if kind == "sync":
            return self.chat(model, tool)(PROMPT).choices[0].message.content
        chat = self.chat(model, tool, kind=AsyncChat)
        return self.run(chat(PROMPT)).choices[0].message.content

    def batch(self, model, prompts, concurrency):
        async def one(prompt):
            reply = await self.chat(model, kind=AsyncChat)(prompt)
            return reply.choices[0].message.content

        return self.run(gather_limited(one, prompts, concurrency))

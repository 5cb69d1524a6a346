"""pydantic-ai: Agent over OpenAIChatModel."""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

from .base import PROMPT, Base, Stream, Ticks, gather_limited

FREE = UsageLimits(request_limit=None)


class Peer(Base):
    imports = "pydantic_ai, pydantic_ai.models.openai"

    def __init__(self, url):
        super().__init__(url)
        self.provider = OpenAIProvider(base_url=self.v1, api_key="x")

    def agent(self, model, *tools):
        return Agent(OpenAIChatModel(model, provider=self.provider), tools=tools)

    def stream_text(self, model):
        agent = self.kept(model, lambda: self.agent(model))

        async def main():
            got = Stream()
            async with agent.run_stream(PROMPT) as reply:
                async for text in reply.stream_text(delta=True, debounce_by=None):
                    got.add(text)
            return got

        return self.run(main())

    def tool_loop(self, model):
        ticks = Ticks()
        agent = self.agent(model, ticks.tool())
        ticks.final = self.run(agent.run(PROMPT, usage_limits=FREE)).output
        return ticks

    def parallel_tools(self, model, sleeper, kind):
        agent = self.agent(model, sleeper.tool(kind))
        return self.run(agent.run(PROMPT, usage_limits=FREE)).output

    def batch(self, model, prompts, concurrency):
        agent = self.kept(model, lambda: self.agent(model))

        async def one(prompt):
            return (await agent.run(prompt)).output

        return self.run(gather_limited(one, prompts, concurrency))

    # rows: begin
    def rows(self, model, prompts, concurrency):
        agent = self.kept(model, lambda: self.agent(model))
        gate = asyncio.Semaphore(concurrency)

        async def one(prompt):
            async with gate:
                return (await agent.run(prompt)).output

        async def every():
            return await asyncio.gather(*map(one, prompts), return_exceptions=True)

        return self.run(every())

    # rows: end

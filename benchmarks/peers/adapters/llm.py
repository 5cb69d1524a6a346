"""llm (Simon Willison): its OpenAI Chat model with api_base; chain() runs the tools."""

import os
import tempfile

os.environ.setdefault("LLM_USER_PATH", tempfile.mkdtemp())

from llm.default_plugins.openai_models import AsyncChat, Chat

from .base import PROMPT, Base, Stream, Ticks, gather_limited


class Peer(Base):
    imports = "llm"

    def model(self, name, kind=Chat):
        return kind(name, model_name=name, key="x", api_base=self.v1, supports_tools=True)

    def stream_text(self, model):
        got = Stream()
        for text in self.kept(model, lambda: self.model(model)).prompt(PROMPT, key="x"):
            got.add(text)
        return got

    def tool_loop(self, model):
        ticks = Ticks()
        chain = self.model(model).chain(PROMPT, tools=[ticks.tool()], stream=False, key="x")
        chain.chain_limit = None  # Model.chain() takes no chain_limit; the default is 10
        ticks.final = chain.text()
        return ticks

    def parallel_tools(self, model, sleeper, kind):
        tool = sleeper.tool(kind)
        if kind == "sync":
            return self.model(model).chain(PROMPT, tools=[tool], stream=False, key="x").text()

        async def main():
            chain = self.model(model, AsyncChat).chain(PROMPT, tools=[tool], stream=False, key="x")
            return await chain.text()

        return self.run(main())

    def batch(self, model, prompts, concurrency):
        chat = self.kept((model, "async"), lambda: self.model(model, AsyncChat))

        async def one(prompt):
            return await chat.prompt(prompt, stream=False, key="x").text()

        return self.run(gather_limited(one, prompts, concurrency))

"""claudette: Chat and toolloop over the Anthropic messages API."""

from anthropic import Anthropic, AsyncAnthropic
from claudette import AsyncChat, Chat, Client, contents
from claudette.asink import AsyncClient

from .base import PROMPT, Base, Stream, Ticks, gather_limited


class Peer(Base):
    imports = "claudette"

    def __init__(self, url):
        super().__init__(url)
        self.sdk = Anthropic(base_url=url, api_key="x", timeout=600)
        self.asdk = AsyncAnthropic(base_url=url, api_key="x", timeout=600)

    def chat(self, model, *tools):
        return Chat(cli=Client(model, self.sdk), tools=list(tools) or None)

    def stream_text(self, model):
        got = Stream()
        for text in self.chat(model)(PROMPT, stream=True):
            got.add(text)
        return got

    def tool_loop(self, model):
        ticks = Ticks()
        *_, last = self.chat(model, ticks.tool()).toolloop(PROMPT, max_steps=1_000_000)
        ticks.final = contents(last)
        return ticks

    def parallel_tools(self, model, sleeper, kind):
        tool = sleeper.tool(kind)
        if kind == "sync":
            *_, last = self.chat(model, tool).toolloop(PROMPT)
            return contents(last)

        async def main():
            chat = AsyncChat(cli=AsyncClient(model, self.asdk), tools=[tool])
            return contents([m async for m in chat.toolloop(PROMPT)][-1])

        return self.run(main())

    def batch(self, model, prompts, concurrency):
        async def one(prompt):
            chat = AsyncChat(cli=AsyncClient(model, self.asdk))
            return contents(await chat(prompt))

        return self.run(gather_limited(one, prompts, concurrency))

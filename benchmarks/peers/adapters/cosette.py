"""cosette: Chat and toolloop over the OpenAI responses API (sync only)."""

from cosette import Chat, Client
from openai import OpenAI

from .base import PROMPT, Base, Stream, Ticks, threads


class Peer(Base):
    imports = "cosette"

    def __init__(self, url):
        super().__init__(url)
        self.sdk = OpenAI(base_url=self.v1, api_key="x")

    def chat(self, model, *tools):
        return Chat(cli=Client(model, self.sdk), tools=list(tools) or None)

    def stream_text(self, model):
        got = Stream()
        for event in self.chat(model)(PROMPT, stream=True):
            if getattr(event, "type", "") == "response.output_text.delta":
                got.add(event.delta)
            elif isinstance(event, str):
                got.add(event)
        return got

    def tool_loop(self, model):
        ticks = Ticks()
        *_, last = self.chat(model, ticks.tool()).toolloop(PROMPT, max_steps=1_000_000)
        ticks.final = last.output_text
        return ticks

    def parallel_tools(self, model, sleeper, kind):
        if kind == "async":
            raise NotImplementedError
        *_, last = self.chat(model, sleeper.tool(kind)).toolloop(PROMPT)
        return last.output_text

    def batch(self, model, prompts, concurrency):
        return threads(lambda p: self.chat(model)(p).output_text, prompts, concurrency)

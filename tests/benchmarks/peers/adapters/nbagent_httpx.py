"""nbagent's agent over httpx (`open_source`), its trace on as always."""

from nbagent import Agent, create_provider

from .base import PROMPT, Base, Stream, Ticks


class Peer(Base):
    """A new agent for each conversation; the providers, and so the connections, are kept."""

    imports = "nbagent.agent"

    def provider(self, streaming):
        return create_provider("open_source", model="bench", base_url=self.v1, streaming=streaming)

    def agent(self, *tools, streaming=True):
        return Agent(self.kept(streaming, lambda: self.provider(streaming)), tools=list(tools))

    def close(self):
        for provider in self.cache.values():
            self.run(provider.aclose())
        super().close()

    def stream_text(self, model):
        async def main():
            got = Stream()
            async for event in self.agent().chat_stream(PROMPT, model=model):  # the script's name, as a body field
                if event.type == "text":
                    got.add(event.content)
            return got

        return self.run(main())

    def tool_loop(self, model):
        ticks = Ticks()
        agent = self.agent(ticks.tool(), streaming=False)
        ticks.final = self.run(agent.chat(PROMPT, max_iterations=1_000_000, model=model)).content
        return ticks

    def parallel_tools(self, model, sleeper, kind):
        agent = self.agent(sleeper.tool(kind), streaming=False)
        return self.run(agent.chat(PROMPT, model=model)).content

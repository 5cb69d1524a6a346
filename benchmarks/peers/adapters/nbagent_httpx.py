"""nbagent's agent over httpx (`open_source`), its trace on as always."""

from nbagent import Agent, Limits, create_provider

from .base import PROMPT, Base, Stream, Ticks


class Peer(Base):
    """A new agent for each conversation; the providers, one for each script, and so the connections are kept."""

    imports = "nbagent.agent.agent"

    def provider(self, model, streaming):
        return create_provider("open_source", model=model, base_url=self.v1, streaming=streaming)

    def agent(self, model, *tools, streaming=True):
        provider = self.kept((model, streaming), lambda: self.provider(model, streaming))
        limits = Limits(max_iterations=1_000_000, max_requests=1_000_000)
        return Agent(provider, tools=list(tools), limits=limits)

    def close(self):
        for provider in self.cache.values():
            self.run(provider.aclose())
        super().close()

    def stream_text(self, model):
        async def main():
            got = Stream()
            async for event in self.agent(model).chat_stream(PROMPT):
                if event.type == "text":
                    got.add(event.content)
            return got

        return self.run(main())

    def tool_loop(self, model, kind="sync"):
        ticks = Ticks()
        agent = self.agent(model, ticks.tool(kind), streaming=False)
        ticks.final = self.run(agent.chat(PROMPT)).content
        return ticks

    def parallel_tools(self, model, sleeper, kind):
        agent = self.agent(model, sleeper.tool(kind), streaming=False)
        return self.run(agent.chat(PROMPT)).content

    # rows: begin
    def rows(self, model, prompts, concurrency):
        import pandas as pd  # 100 MB, which a conversation does without

        agent = self.agent(model)
        return list(self.run(agent.map(pd.Series(prompts), concurrency=concurrency, progress=False))["answer"])

    # rows: end

    def batch(self, model, prompts, concurrency):
        return self.rows(model, prompts, concurrency)

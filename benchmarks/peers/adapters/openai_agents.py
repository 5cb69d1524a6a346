"""openai-agents: Runner over OpenAIChatCompletionsModel, tracing off."""

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from .base import PROMPT, Base, Stream, Ticks, gather_limited


class Peer(Base):
    imports = "agents"

    def __init__(self, url):
        super().__init__(url)
        set_tracing_disabled(True)
        self.client = AsyncOpenAI(base_url=self.v1, api_key="x")

    def agent(self, model, *tools):
        return Agent(
            name="bench", tools=[function_tool(t) for t in tools], model=OpenAIChatCompletionsModel(model, self.client)
        )

    def stream_text(self, model):
        agent = self.kept(model, lambda: self.agent(model))

        async def main():
            got = Stream()
            async for event in Runner.run_streamed(agent, PROMPT).stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    got.add(event.data.delta)
            return got

        return self.run(main())

    def tool_loop(self, model):
        ticks = Ticks()
        agent = self.agent(model, ticks.tool())
        ticks.final = self.run(Runner.run(agent, PROMPT, max_turns=1_000_000)).final_output
        return ticks

    def parallel_tools(self, model, sleeper, kind):
        agent = self.agent(model, sleeper.tool(kind))
        return self.run(Runner.run(agent, PROMPT)).final_output

    def batch(self, model, prompts, concurrency):
        agent = self.kept(model, lambda: self.agent(model))

        async def one(prompt):
            return (await Runner.run(agent, prompt)).final_output

        return self.run(gather_limited(one, prompts, concurrency))

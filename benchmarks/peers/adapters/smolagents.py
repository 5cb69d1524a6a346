"""smolagents: ToolCallingAgent over OpenAIModel (it ends on a final_answer call)."""

from smolagents import LogLevel, OpenAIModel, ToolCallingAgent, tool
from smolagents.models import ChatMessage, MessageRole

from .base import PROMPT, Base, Stream, Ticks, threads


def ask(prompt):
    return [ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": prompt}])]


class Peer(Base):
    imports = "smolagents"
    final_tool = True

    def model(self, name):
        return OpenAIModel(name, api_base=self.v1, api_key="x")

    def agent(self, model, function):
        return ToolCallingAgent(
            tools=[tool(function)], model=self.model(model), verbosity_level=LogLevel.OFF, max_steps=1_000_000
        )

    def stream_text(self, model):
        got = Stream()
        for delta in self.kept(model, lambda: self.model(model)).generate_stream(ask(PROMPT)):
            got.add(delta.content)
        return got

    def tool_loop(self, model):
        ticks = Ticks()
        ticks.final = self.agent(model, ticks.tool()).run(PROMPT)
        return ticks

    def parallel_tools(self, model, sleeper, kind):
        if kind == "async":
            raise NotImplementedError
        return self.agent(model, sleeper.tool(kind)).run(PROMPT)

    def batch(self, model, prompts, concurrency):
        chat = self.kept(model, lambda: self.model(model))
        return threads(lambda p: chat.generate(ask(p)).content, prompts, concurrency)

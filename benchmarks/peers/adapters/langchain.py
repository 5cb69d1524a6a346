"""langchain: create_agent (langgraph) over ChatOpenAI."""

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

from .base import PROMPT, Base, Stream, Ticks

START = {"messages": [{"role": "user", "content": PROMPT}]}


class Peer(Base):
    imports = "langchain.agents, langchain_openai"

    def model(self, name):
        return ChatOpenAI(model=name, base_url=self.v1, api_key="x", stream_usage=True)

    def agent(self, model, *tools):
        return create_agent(self.model(model), tools=list(tools))

    def stream_text(self, model):
        got = Stream()
        agent = self.kept(model, lambda: self.agent(model))
        for message, _ in agent.stream(START, stream_mode="messages"):
            got.add(message.text)
        return got

    def tool_loop(self, model):
        ticks = Ticks()
        agent = self.agent(model, ticks.tool())
        state = agent.invoke(START, config={"recursion_limit": 1_000_000})
        ticks.final = state["messages"][-1].text
        return ticks

    def parallel_tools(self, model, sleeper, kind):
        agent = self.agent(model, sleeper.tool(kind))
        state = agent.invoke(START) if kind == "sync" else self.run(agent.ainvoke(START))
        return state["messages"][-1].text

    def batch(self, model, prompts, concurrency):
        agent = self.kept(model, lambda: self.agent(model))
        states = self.run(
            agent.abatch(
                [{"messages": [{"role": "user", "content": p}]} for p in prompts],
                config={"max_concurrency": concurrency},
            )
        )
        return [s["messages"][-1].text for s in states]

"""What type checkers must refuse: each line that ends in `# wrong`, and no other. Nothing is run."""

from pydantic import BaseModel

import nbagent
from nbagent import (
    Agent,
    AgentConfig,
    FunctionCall,
    Limits,
    LLMMessage,
    RequestOptions,
    compare_sync,
    create_provider,
    tool,
)

agent = Agent("local")


class Sight(BaseModel):
    species: str
    count: int


def misspelt_names() -> None:
    agent.chat_sync("Hi", temprature=0.2)  # wrong
    agent.chat_stream("Hi", max_token=7)  # wrong
    create_provider("openai", api_ky="k")  # wrong
    Limits(max_costs=1)  # wrong
    AgentConfig(modle="qwen")  # wrong
    Agent.load("talk.json", "local", tool=[print])  # wrong
    compare_sync({"one": agent}, ["Hi"], temprature=0)  # wrong
    agent.map_sync(agent.trace.calls, concurency=3)  # wrong
    nbagent.Agnet("local")  # wrong
    options: RequestOptions = {"temperatur": 0}  # wrong
    print(options)


def options_of_something_else() -> None:
    agent.chat_sync("Hi", max_cost=0.01)  # wrong
    agent.chat_stream("Hi", api_key="k")  # wrong
    compare_sync({"one": agent}, ["Hi"], origin={"source": "me"})  # wrong


def values_of_another_type() -> None:
    agent.chat_sync("Hi", thinking="lots")  # wrong
    agent.chat_sync("Hi", temperature="low")  # wrong
    agent.chat_sync("Hi", limits={"max_cost": 1})  # wrong
    agent.chat_sync("Hi", handler=print)  # wrong
    agent.chat_sync(5)  # wrong
    agent.chat_stream(None)  # wrong
    LLMMessage("usr", "Hi")  # wrong
    Agent("local", tools=[7])  # wrong
    Agent.load("talk.json", system_prompt=3)  # wrong


async def results() -> None:
    print(agent.chat("Hi").content)  # wrong
    print((await agent.extract("Two Adelies", Sight)).size)  # wrong
    print((await agent.extract("Two Adelies", list[Sight])).species)  # wrong
    agent.chat_sync("Hi").status = "done"  # wrong


def unknown_status() -> bool:
    return agent.chat_sync("Hi").status == "finished"  # wrong


def events() -> None:
    for event in agent.chat_stream("Hi"):
        print(event.result)  # wrong
    for event in agent.chat_stream("Hi"):
        if event.type == "text":
            print(event.result)  # wrong
    for event in agent.chat_stream("Hi"):
        if event.type == "finished":  # wrong
            print(event)


@tool
def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


def tools() -> None:
    double("four")  # wrong

    @tool(aprove=True)  # wrong
    def area(width: float) -> float:
        return width * width

    def approve(call: FunctionCall) -> bool:
        return bool(call)

    Agent("local", approve=approve)  # wrong

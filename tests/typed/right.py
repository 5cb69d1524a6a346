"""Programs that type checkers must accept. They are never run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, assert_never, assert_type

import pandas as pd
from pydantic import BaseModel

from nbagent import (
    Agent,
    AgentConfig,
    AgentResult,
    FunctionCall,
    FunctionDefinition,
    Limits,
    LLMMessage,
    RequestOptions,
    ScriptedProvider,
    StreamingHandler,
    compare_sync,
    create_provider,
    live,
    tool,
)
from nbagent.batch.preview import MapPreview
from nbagent.core.events import AnyEvent

agent = Agent("local")


class Sight(BaseModel):
    species: str
    count: int


def area(width: float) -> float:
    """Area of a square."""
    return width * width


class Printer(StreamingHandler):
    def on_token(self, token: str) -> None:
        print(token)


async def ask() -> str:
    result = await agent.chat("Hi", max_iterations=3, temperature=0.2, handler=Printer())
    assert_type(result, AgentResult)
    if result.status == "limit":
        print(result.limit_reason, result.finish_reason)
    return result.content


async def extract() -> tuple[str, int, str, pd.DataFrame]:
    sight = await agent.extract("Two Adelies", Sight)
    assert_type(sight, Sight)
    sights = await agent.extract("Two Adelies", list[Sight])
    first: Sight = sights[0]
    number = await agent.extract("two", int, limits=Limits(max_cost=0.01), max_iterations=2)
    return first.species, number, await agent.extract("good!", Literal["good", "bad"]), sights.to_frame()


async def read_a_stream() -> AgentResult | None:
    async for event in agent.chat_stream("Hi"):
        if event.type == "text":
            print(event.content)
        if event.type == "done":
            assert_type(event.result, AgentResult)
            return event.result
    return None


def match_events(events: Iterator[AnyEvent]) -> float | None:
    for event in events:
        match event.type:
            case "done":
                return event.result.cost
            case "tool_result":
                print(event.tool_name, event.message)
    return None


def read_a_stream_in_a_loop() -> BaseException | None:
    with agent.chat_stream("Hi", use_tools=False) as stream:
        for event in stream:
            print(event["type"], event.get("content"))
            if event.type == "error":
                return event.exception
    print(stream.result()["content"], stream.result().usage.total_tokens)
    return None


def options(level: Literal["low", "high"]) -> None:
    agent.chat_sync("Hi", thinking="low", tool_choice="auto", max_tokens=9, top_p=0.5, stop=["a"], seed=1)
    agent.chat_sync("Hi", extra_body={"min_p": 0.1}, limits=Limits(max_seconds=3))
    options: RequestOptions = {"temperature": 0, "thinking": level}
    agent.chat_stream("Hi", tools=["area"], approve_all=True, instructions="Be brief.", **options)


def messages() -> None:
    agent.chat_sync(["What is this?", Path("cat.png")])
    agent.chat_sync([LLMMessage("user", "Hi"), LLMMessage("assistant", "Hello"), LLMMessage("user", "Bye")])
    agent.chat_sync([{"role": "user", "content": "Hi"}])
    agent.chat_sync(b"\x89PNG")


def providers() -> None:
    provider = create_provider("openai:gpt-5.6-terra", api_key="k", base_url="https://x/v1", timeout=3, thinking=False)
    agent.provider = provider
    agent.provider = "claude"
    Agent(create_provider("local", model=Path("a.gguf"), n_ctx=8192))
    Agent(AgentConfig(model="qwen", base_url="http://localhost/v1"))


def tools() -> AgentResult:
    for each in ([area], area, live, (FunctionDefinition("area", "", None, area), print)):
        Agent("local", tools=each)
    scripted = ScriptedProvider([FunctionCall("area", {"width": 2}), "4"])
    return Agent(scripted, tools=[area], approve=approve).chat_sync("2?")


@tool
def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


@tool(approve=True, timeout=60)
async def remove(path: str) -> str:
    """Remove a file."""
    assert_type(double(4), int)
    return path


def load(path: Path) -> Agent:
    return Agent.load(path, "claude", tools=[area], limits=Limits(max_cost=1), trace=False, approve=approve)


def compare_agents() -> pd.DataFrame:
    agents = {"one": agent, "other": agent.fork()}
    options: RequestOptions = {"thinking": False, "extra_body": {"min_p": 0.1}}
    compared = compare_sync(agents, ["Hi", b"PNG"], limits=Limits(max_iterations=3), tags=["exam"], **options)
    frame: pd.DataFrame = agent.trace.tool_calls
    assert_type(agent.map_sync(frame, concurrency=3), pd.DataFrame)
    assert_type(agent.map_sync(frame, preview=True), MapPreview)
    return frame if frame.size else compared.frame


def every_status(result: AgentResult) -> str:
    match result.status:
        case "ok":
            return result.content
        case "blocked" | "truncated" | "empty" | "limit" | "denied" | "interrupted" | "error":
            return result.status_reason or ""
    assert_never(result.status)


def approve(call: FunctionCall, definition: FunctionDefinition) -> bool:
    return call.name == definition.name

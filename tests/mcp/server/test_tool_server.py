"""An agent's tools as an MCP client sees them, in one process."""

import dataclasses
from functools import partial

import pandas as pd
import polars as pl
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation
from support.mcp_sessions import MODES, text_of

from nbagent import Agent, FunctionCall, FunctionRegistry, Limits, RunContext, ScriptedProvider
from nbagent.core.current import changed
from nbagent.functions.live import LiveRegistry
from nbagent.functions.toolset import Toolset
from nbagent.mcp.server import tool_server
from nbagent.mcp.server.tool_server import ToolServer


@pytest.fixture(autouse=True)
def _no_live_tools(monkeypatch):
    """Removes live tools that other tests left behind."""
    monkeypatch.setattr(tool_server, "live", LiveRegistry())


@dataclasses.dataclass
class Point:
    x: int
    y: float


def area(width: float, height: float = 2.0) -> float:
    """Area of a rectangle."""
    return width * height


def returning(*values):
    """An agent with the tools `tool_0`, `tool_1`, … that return these values."""
    agent = Agent(ScriptedProvider([]))
    for number, value in enumerate(values):
        agent.register_function(
            f"tool_{number}", "Returns a value.", partial([value].__getitem__, 0), {"type": "object"}
        )
    return agent


def connected(agent, mode="auto", **options):
    return Client(
        ToolServer(agent, **options).server, mode=mode, client_info=Implementation(name="editor", version="1")
    )


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
async def test_a_call_is_a_run_of_the_agent(mode):
    agent = Agent(ScriptedProvider([]), tools=[area])
    async with connected(agent, mode, agent_name="analyst") as client:
        (tool,) = (await client.list_tools()).tools
        assert (tool.name, tool.description) == ("area", "Area of a rectangle.")
        assert tool.input_schema["required"] == ["width"]
        assert text_of(await client.call_tool("area", {"width": 3})) == "6.0"
        wrong = await client.call_tool("area", {"width": "wide"})
        assert wrong.is_error
        assert "width: must be a valid number" in text_of(wrong)
        with pytest.raises(MCPError, match="no such tool"):
            await client.call_tool("volume", {})
    runs, calls = agent.trace.runs, agent.trace.tool_calls
    assert runs[["source", "agent"]].drop_duplicates().to_numpy().tolist() == [["mcp-client:editor", "analyst"]]
    assert list(runs["status"]) == ["ok", "error", "error"]
    assert runs["prompt"].iloc[0] == "area(width=3)"
    assert list(calls["run_id"]) == list(runs["run_id"])
    assert list(calls["args_valid"]) == [True, False, False]
    assert agent.trace.calls.empty  # no model was called


async def test_data_is_sent_as_text_and_structured():
    when = pd.Timestamp("2026-01-02T03:04:05.123456789")
    city = pd.Series(["Bonn \ud83d", None], dtype=object)
    frame = pd.DataFrame({"city": city, "t": [1.5e-12, float("nan")], "when": [when, None]})
    polar = pl.DataFrame({"t": [0.1 + 0.2]})
    loop = {}
    loop["loop"] = loop
    large = pd.DataFrame([range(500)] * 1000)
    values = [
        frame,
        {"a": float("inf")},
        Point(1, 2.0),
        large,
        {"long": "x" * 200_000},
        "text",
        None,
        [1, 2],
        loop,
        polar,
        {"a": "\ud83d"},
    ]
    agent = returning(*values)
    async with connected(agent) as client:
        results = [await client.call_tool(f"tool_{number}") for number in range(len(values))]
    assert "DataFrame: 2 rows" in text_of(results[0])
    assert results[0].structured_content == {
        "shape": [2, 3],
        "dtypes": {name: str(dtype) for name, dtype in frame.dtypes.items()},
        "columns": ["city", "t", "when"],
        "index": [0, 1],
        "data": [["Bonn \ufffd", 1.5e-12, when.isoformat()], [None, None, None]],
    }
    assert [result.structured_content for result in results[1:3]] == [{"a": None}, {"x": 1, "y": 2.0}]
    assert text_of(results[1]) == '{"a": null}'
    assert results[3].structured_content["shape"] == [1000, 500]
    assert [len(row) for row in results[3].structured_content["data"]] == [100] * 100
    assert len(text_of(results[4])) < 50_000
    assert [result.structured_content for result in results[4:9]] == [None] * 5
    data = {"shape": [1, 1], "dtypes": {"t": "Float64"}, "columns": ["t"], "data": [[0.1 + 0.2]]}
    assert [result.structured_content for result in results[9:]] == [data, {"a": "\ufffd"}]
    assert [text_of(result) for result in results[5:8]] == ["text", "Done (no return value).", "[1, 2]"]
    assert not any(result.is_error for result in results)


async def test_progress_and_waiting_are_reported():
    said = []

    async def on_progress(progress, total, message):
        said.append((progress, message))

    def read(context: RunContext) -> str:
        context.report(0.4)
        return "read"

    agent = Agent(ScriptedProvider([]), approve=lambda call, definition: True)
    agent.function_registry.register("read", "", read, approve=True)
    async with connected(agent) as client:
        assert text_of(await client.call_tool("read", {}, progress_callback=on_progress)) == "read"
    assert said == [(1, "waiting for a person to approve this call"), (2, "40 %")]


async def test_calls_of_an_agent_inside_a_tool_need_approval_too():
    child = Agent(ScriptedProvider([FunctionCall("area", {"width": 1}), "Two."]))
    child.function_registry.register("area", "", area, approve=True)
    agent = Agent(ScriptedProvider([]), tools=[child.as_tool("ask", "")])
    with changed(approver=lambda call, definition: True):  # as in a notebook
        async with connected(agent) as client:
            assert text_of(await client.call_tool("ask", {"question": "How large?"})) == "Two."
    assert child.trace.tool_calls["approval"].tolist() == ["approved"]


async def test_toolsets_are_prepared_and_disabled_tools_are_not_offered():
    class Clock(Toolset):
        def __init__(self):
            self.tools = FunctionRegistry()

        async def prepare(self):
            self.tools.register("now", "The time.", lambda: "12:00")

    class Broken(Toolset):
        tools = FunctionRegistry()

        async def prepare(self):
            raise OSError("no server")

    agent = Agent(ScriptedProvider([]), tools=[area]).use(Clock(), Broken())
    agent.tools_off.add("area")
    async with connected(agent) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["now"]
        assert text_of(await client.call_tool("now")) == "12:00"
        with pytest.raises(MCPError, match="no such tool"):
            await client.call_tool("area", {"width": 1})


async def test_the_agents_limits_and_deps_apply_to_clients_calls():
    def whose(context: RunContext) -> str:
        return context.deps

    child = Agent(ScriptedProvider([FunctionCall("area", {"width": 1}), "Two."]), tools=[area])
    agent = Agent(ScriptedProvider([]), tools=[whose, child.as_tool("ask", "")], limits=Limits(max_requests=1))
    agent.deps = "Ada's"
    async with connected(agent) as client:
        assert text_of(await client.call_tool("whose")) == "Ada's"
        assert "Two." not in text_of(await client.call_tool("ask", {"question": "How large?"}))
    assert child.trace.runs["status"].tolist() == ["limit"]

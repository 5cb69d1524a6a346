"""The notebook's tools as an MCP server in a real kernel, called by the official client."""

import asyncio
import json
import os
import socket

import httpx2
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation
from support.kernels import Kernel
from support.mcp_sessions import MODES, configured, session, text_of

pytestmark = pytest.mark.kernel

TOOLS = """
%matplotlib inline
import threading, pandas as pd, nbagent
agent = Agent(ScriptedProvider([]), tools=nbagent.live)
state = 41
@tool
def answer() -> int:
    "The answer."
    print("printed by a tool")
    return state
@tool
def table() -> pd.DataFrame:
    "Cities."
    return pd.DataFrame({"city": ["Bonn"], "t": [1.5]})
@tool
def plot() -> None:
    "Draw."
    import matplotlib.pyplot as plt
    plt.plot([1, 2])
@tool(main_thread=True)
def where() -> str:
    "Which thread?"
    return threading.current_thread().name
@tool(approve=True)
def wipe(table: str) -> str: "Delete."
"""
EDITOR = {"client_info": Implementation(name="editor", version="1")}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    with Kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        kernel.ok(TOOLS)
        yield kernel


@pytest.fixture(scope="module")
def cell(kernel):
    return kernel.ok("%agent serve --mcp")


@pytest.fixture(scope="module")
def server(cell):
    return configured(cell.text)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
async def test_tools_see_the_real_variables(kernel, server, mode):
    kernel.ok("state = 41")
    async with session(server, mode, **EDITOR) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["answer", "table", "plot", "where", "wipe"]
        assert text_of(await client.call_tool("answer")) == "41"
        kernel.ok("state = 42")
        assert text_of(await client.call_tool("answer")) == "42"
        table = await client.call_tool("table")
        assert "DataFrame: 1 rows" in text_of(table)
        assert table.structured_content["data"] == [["Bonn", 1.5]]
        plot = await client.call_tool("plot")
        assert [block.type for block in plot.content] == ["text", "image"]
        assert text_of(await client.call_tool("where")) == "MainThread"


def test_calls_are_traced_and_print_into_no_cell(kernel, cell):
    found = kernel.value("agent.trace.runs[['source', 'agent', 'status']].iloc[0].tolist()")
    assert found == ["mcp-client:editor", "agent", "ok"]
    assert "printed by a tool" in kernel.value("agent.trace.tool_calls['outputs'].iloc[0]")
    assert not any("printed by a tool" in json.dumps(message["content"]) for message in cell.messages)


async def test_a_redefinition_is_reported(kernel, server):
    async with session(server) as client:
        first = (await client.list_tools()).tools[0]
        async with client.listen(tools_list_changed=True) as changes:
            kernel.ok('def answer(style: str = "new") -> int:\n    "In another style."\n    return state + 1')
            await anext(aiter(changes))
        changed = (await client.list_tools(cache_mode="bypass")).tools[0]
        assert (changed.name, changed.description) == (first.name, "In another style.")
        assert "style" in changed.input_schema["properties"]
        assert text_of(await client.call_tool("answer")) == "43"


async def test_while_a_cell_computes(kernel, server, tmp_path):
    """Calls that need the main thread wait and report it; others run."""
    gate, began = tmp_path / "gate", tmp_path / "began"
    said = asyncio.Queue()

    async def on_progress(progress, total, message):
        said.put_nowait((progress, message))

    busy = kernel.send(f"open({str(began)!r}, 'w')\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)")
    async with session(server) as client:
        while not began.exists():
            await asyncio.sleep(0.01)
        assert text_of(await client.call_tool("answer")) == "43"
        waiting = asyncio.create_task(client.call_tool("where", progress_callback=on_progress))
        assert await said.get() == (1, "waiting for the running cell to end")
        assert not waiting.done()
        gate.touch()
        assert text_of(await waiting) == "MainThread"
    kernel.ok(busy)


async def test_requests_without_the_token_or_from_elsewhere_are_refused(server):
    async def status(**headers):
        async with httpx2.AsyncClient() as http:
            body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            accept = {"accept": "application/json, text/event-stream"}
            return (await http.post(server["url"], json=body, headers=accept | headers)).status_code

    token = server["headers"]
    assert await status() == 401
    assert await status(authorization="Bearer wrong") == 401
    assert await status(**token, host="evil.example") == 421
    assert await status(**token, origin="https://evil.example") == 403
    assert await status(**token, origin="null") == 403
    address = server["url"].split("/")[2]
    assert await status(**token, origin=f"http://{address}") not in (401, 403, 421)


def test_the_token_is_shown_once(kernel, cell, server):
    token = server["headers"]["Authorization"].split()[1]
    assert token in cell.text
    again = _complaint(kernel.run("%agent serve --mcp"))
    assert "a server is already running at http://127.0.0.1:" in again
    others = [message for message in kernel.messages() if message not in cell.messages]
    assert not any(token in json.dumps(message["content"]) for message in others)
    tables = "[getattr(agent.trace, name).to_json() for name in ('runs', 'tool_calls', 'events', 'messages', 'http')]"
    assert kernel.value(f"{token!r} in str({tables})") is False


FOREVER = """
import asyncio
running = []
@tool
async def forever() -> None:
    "Wait."
    running.append(1)
    try:
        await asyncio.Event().wait()
    finally:
        running.clear()
"""


async def test_stop_ends_everything(kernel, server, cell):
    """A running call is stopped, and its client is notified."""
    kernel.ok(FOREVER)
    for stop, said in (("%agent stop", "1 run stopped."), ("%agent serve --stop", "The MCP server has ended.")):
        async with session(server, "legacy") as client:
            calling = asyncio.create_task(client.call_tool("forever"))
            while not kernel.value("running"):
                await asyncio.sleep(0.01)
            stopped = kernel.ok(stop)
            assert said in stopped.stdout
            with pytest.raises(MCPError, match="stopped by the user"):
                await calling
        assert kernel.value("agent.trace.runs['status'].iloc[-1]") == "interrupted"
    (update,) = stopped.of("update_display_data")
    (shown,) = [m["content"] for m in cell.messages if m["content"].get("transient") == update["transient"]]
    assert shown["data"]["text/plain"] != update["data"]["text/plain"] == "The MCP server has ended."
    assert kernel.value("[t.name for t in threading.enumerate() if 'serve' in t.name]") == []
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", int(server["url"].split(":")[2].split("/")[0])))
    assert "No server is running." in kernel.ok("%agent serve --stop").stdout


def test_wrong_options(kernel):
    assert "requires --mcp" in _complaint(kernel.run("%agent serve --tools one"))
    assert "no tool 'nothing'" in _complaint(kernel.run("%agent serve --mcp --tools nothing"))


def _complaint(cell):
    return cell.stderr + cell.traceback


async def test_the_server_ends_with_the_kernel(tmp_path):
    with Kernel(tmp_path) as other:
        other.ok("@tool\ndef one() -> int:\n    'One.'\n    return 1\n@tool(approve=True)\ndef two() -> None: 'Two.'")
        server = configured(other.ok("%agent serve --mcp --tools one,two", allow_stdin=False).text)
        async with session(server) as client:
            assert text_of(await client.call_tool("one")) == "1"
            assert "nobody sees the form" in text_of(await client.call_tool("two"))  # headless: at once
        pid = other.value("os.getpid()")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)

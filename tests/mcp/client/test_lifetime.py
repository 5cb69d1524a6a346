"""When a server begins, dies, is started again, and ends: no process is left behind."""

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from conftest import PLAYGROUND, TOKEN, on_stdio

from nbagent import Agent, FunctionCall, MCPServer, ScriptedProvider
from nbagent.errors import ConfigurationError, MCPServerError


def agent_with(server, *names):
    return Agent(ScriptedProvider([*([FunctionCall(f"play_{name}", {})] for name in names), "done"])).use(server)


def lives(pid):
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return (
        Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z" if Path("/proc").exists() else True
    )


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert condition()


async def test_a_server_that_dies_is_started_again_once_and_says_so():
    server = on_stdio()
    agent = agent_with(server, "process", "die", "process", "die", "process")
    result = await agent.chat("Go.")
    first, died, second, again, gone = (call["result"] for call in result.function_calls)
    assert first != second
    assert "was connected, and then it ended" in died
    assert "out of memory" in died
    assert "was started again" in died
    assert TOKEN not in died
    assert "started again" not in again
    assert "out of memory" in gone
    assert server.connection.state == "failed"
    result = await agent_with(server, "process").chat("Again.")  # another run starts it anew
    assert server.connection.state == "connected"
    pid = result.function_calls[0]["result"].split()[0]
    await agent.aclose()
    assert server.connection.state == "closed"
    assert not lives(pid)


async def test_it_ends_when_its_agent_is_collected():
    agent = agent_with(on_stdio(), "process")
    pid, *variables = (await agent.chat("Go.")).function_calls[0]["result"].split()
    assert "PLAYGROUND_TOKEN" in variables
    assert not {"OPENAI_API_KEY", "NBAGENT_MODEL", "JUPYTER_PATH"} & set(variables)  # it gets few of ours
    del agent
    await asyncio.sleep(0)
    gc.collect()
    await asyncio.to_thread(wait_until, lambda: not lives(pid))


def test_it_ends_with_the_interpreter():
    code = f"""
        import sys
        from nbagent import Agent, FunctionCall, MCPServer, ScriptedProvider
        agent = Agent(ScriptedProvider([[FunctionCall("play_process", {{}})], "done"]))
        agent.use(MCPServer(sys.executable, {PLAYGROUND!r}, name="play"))
        print(agent.chat_sync("Go.").function_calls[0]["result"].split()[0])
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert not lives(ran.stdout.strip())
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["no-such-program", "--token", "abcd1234"], "there is no program 'no-such-program'"),
        (
            [sys.executable, "-c", "import os, sys; sys.exit(f'no licence for {os.environ[\"KEY\"]}')"],
            "no licence for ***",
        ),
    ],
)
async def test_a_server_that_can_not_start_gives_one_clear_error(command, said):
    server = MCPServer(*command, env={"KEY": "qwertzuiop"}, name="broken")
    with pytest.raises(MCPServerError) as caught:
        await Agent(ScriptedProvider(["hi"])).use(server).chat("Go.")
    text = str(caught.value)
    assert text.startswith("The MCP server 'broken' (")
    assert command[0] in text
    assert said in text
    assert "qwertzuiop" not in text + repr(server)
    assert "abcd1234" not in text + repr(server)


def test_two_servers_of_one_name_are_told_apart():
    agent = Agent(ScriptedProvider([]))
    with pytest.raises(ConfigurationError, match="there is a toolset 'a' already"):
        agent.use(MCPServer("true", name="a"), MCPServer("true", name="a"))

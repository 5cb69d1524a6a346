"""When a server begins, dies, is started again, and ends: no process is left behind."""

import asyncio
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support.mcp_servers import PLAYGROUND, TOKEN, on_stdio

from nbagent import Agent, FunctionCall, MCPServer, ScriptedProvider
from nbagent.errors import ConfigurationError, MCPServerError
from nbagent.mcp.client.transport import Ended


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


async def test_what_a_server_writes_last_is_waited_for():
    ended = Ended()
    stderr = ended.stderr()
    said = asyncio.create_task(ended.said())
    await asyncio.sleep(0.7)
    assert not said.done()
    print("out of memory", file=stderr, flush=True)
    stderr.close()
    assert await said == "It wrote:\n  out of memory"


def ran(code):
    """What a script prints, which has an agent with a server; nothing else runs in its process."""
    begin = f"""
        import gc, os, sys, time
        from nbagent import Agent, FunctionCall, MCPServer, ScriptedProvider
        agent = Agent(ScriptedProvider([[FunctionCall("play_process", {{}})], "done"]))
        agent.use(MCPServer(sys.executable, {PLAYGROUND!r}, name="play"))
        pid, *variables = agent.chat_sync("Go.").function_calls[0]["result"].split()
        print(pid, *variables)
    """
    command = [sys.executable, "-c", textwrap.dedent(begin) + textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr == ""
    return done.stdout.split()


def test_it_ends_when_its_agent_is_collected():
    code = """
        del agent
        deadline = time.monotonic() + 20
        while os.path.exists(f"/proc/{pid}/fd") and time.monotonic() < deadline:
            gc.collect()
            time.sleep(0.05)
        print("ended" if time.monotonic() < deadline else "lives")
    """
    *variables, last = ran(code)
    assert last == "ended"
    assert not {"OPENAI_API_KEY", "NBAGENT_MODEL", "JUPYTER_PATH"} & set(variables)  # it gets few of ours


def test_it_ends_with_the_interpreter():
    assert not lives(ran("")[0])


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

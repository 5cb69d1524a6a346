"""Servers start, die, are restarted and end, and leave no process behind."""

import subprocess
import sys
from pathlib import Path

import pytest
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer as Served
from pydantic import AnyHttpUrl
from support.mcp_servers import PLAYGROUND, TOKEN, on_stdio, serving

from nbagent import Agent, FunctionCall, MCPServer, ScriptedProvider
from nbagent.errors import MCPServerError


def agent_with(server, *names):
    return Agent(ScriptedProvider([*([FunctionCall(f"play_{name}", {})] for name in names), "done"])).use(server)


def lives(pid):
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


async def test_a_dead_server_is_restarted_once():
    server = on_stdio()
    agent = agent_with(server, "process", "die", "process", "die", "process")
    result = await agent.chat("Go.")
    first, died, second, _, gone = (call["result"] for call in result.function_calls)
    assert first != second
    assert "was connected, and then it ended" in died
    assert "out of memory" in died
    assert "was restarted" in died
    assert TOKEN not in died
    assert "out of memory" in gone
    assert server.connection.state == "failed"
    result = await agent_with(server, "process").chat("Again.")  # another run restarts it
    assert server.connection.state == "connected"
    pid = result.function_calls[0]["result"].split()[0]
    await agent.aclose()
    assert server.connection.state == "closed"
    assert not lives(pid)


#: The server ends with its agent, and the one after it with the interpreter.
SCRIPT = f"""
import gc, os, sys, warnings
from nbagent import Agent, FunctionCall, MCPServer, ScriptedProvider
from nbagent.mcp.client import connection
def asked():
    agent = Agent(ScriptedProvider([[FunctionCall("play_process", {{}})], "done"]))
    agent.use(MCPServer(sys.executable, {PLAYGROUND!r}, name="play"))
    print(agent.chat_sync("Go.").function_calls[0]["result"], flush=True)
    return agent
asked()
agent = asked()
if hasattr(os, "fork"):
    warnings.simplefilter("ignore")  # about the threads, which a forked process lacks
    if not os.fork():
        connection.EXIT_S = 600  # would be exceeded if it waited
        sys.exit()  # the server belongs to the parent
    os.wait()
"""


def test_a_server_ends_with_its_agent_and_with_the_interpreter():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr == ""
    for said in done.stdout.splitlines():
        pid, *variables = said.split()
        assert not lives(pid)
        assert not {"OPENAI_API_KEY", "NBAGENT_MODEL", "JUPYTER_PATH"} & set(variables)  # it gets only a few of ours


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["no-such-program", "--token", "abcd1234"], "there is no program 'no-such-program'"),
        (
            [sys.executable, "-c", "import os; raise SystemExit('no licence: ' + os.environ['KEY'])"],
            "no licence: $SECRET",
        ),
    ],
)
async def test_a_server_that_cannot_start_is_one_clear_error(command, said):
    server = MCPServer(*command, env={"KEY": "qwertz-4711"}, name="broken")
    with pytest.raises(MCPServerError) as caught:
        await Agent(ScriptedProvider(["hi"])).use(server).chat("Go.")
    text = str(caught.value)
    assert text.startswith("The MCP server 'broken' (")
    assert said in text
    assert "qwertz-4711" not in text + repr(server)
    assert "abcd1234" not in text + repr(server)


class OneToken:
    async def verify_token(self, token):
        return AccessToken(token=token, client_id="c", scopes=[]) if token == "right-4711" else None


async def test_the_error_of_a_server_that_needs_a_login():
    here = AnyHttpUrl("http://127.0.0.1")
    wanted = AuthSettings(issuer_url=here, resource_server_url=here, validate_token_resource=False)
    with serving(Served("closed", token_verifier=OneToken(), auth=wanted).streamable_http_app()) as url:
        with pytest.raises(MCPServerError, match=r"401.*headers=.*auth=OAuthClientProvider\(…\) from mcp.client.auth"):
            await MCPServer(f"{url}/mcp").prepare()
        server = MCPServer(f"{url}/mcp", headers={"Authorization": "Bearer right-4711"})
        await server.prepare()
        await server.aclose()


async def test_the_error_of_a_slow_call_names_the_servers_timeout(tmp_path):
    server = on_stdio(timeout=0.5)
    call = FunctionCall("play_slow", {"marker": str(tmp_path / "marker")})
    agent = Agent(ScriptedProvider([[call], "done"])).use(server)
    result = await agent.chat("Go.")
    assert "within 0.5 s. MCPServer(timeout=60) gives it more time." in result.function_calls[0]["result"]
    await agent.aclose()


#: In a new interpreter, where a server that is told to end at once is still importing what it needs.
STOPPED_EARLY = f"""
import asyncio, sys
from nbagent import MCPServer
server = MCPServer(sys.executable, {PLAYGROUND!r})
async def main():
    server.begin()
    await server.aclose()
    print(server.connection.state)
asyncio.run(asyncio.wait_for(main(), 60))
"""


def test_a_server_can_be_stopped_while_it_starts():
    done = subprocess.run([sys.executable, "-c", STOPPED_EARLY], capture_output=True, text=True, check=True)
    assert done.stdout == "closed\n"

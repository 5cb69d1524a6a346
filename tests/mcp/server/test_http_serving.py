"""The server over HTTP, in one process: its token."""

import logging

import httpx2
import pytest
from support.mcp_sessions import MODES, configured, session, text_of

from nbagent import Agent, ScriptedProvider
from nbagent.mcp.server.http import HTTPServing
from nbagent.mcp.server.tool_server import ToolServer


@pytest.fixture
def serving():
    agent = Agent(ScriptedProvider([]))
    agent.register_function("one", "One.", lambda: 1, {"type": "object"})
    serving = HTTPServing(ToolServer(agent, only=["one"])).start()
    yield serving
    serving.stop()


async def test_the_token_is_in_no_log_or_repr(serving, caplog):
    caplog.set_level(logging.DEBUG)
    server = configured(serving.client_configuration())
    token = server["headers"]["Authorization"].split()[1]
    for mode in MODES.values():
        async with session(server, mode) as client:
            assert text_of(await client.call_tool("one")) == "1"
    own = [record.getMessage() for record in caplog.records if record.threadName == "nbagent-serve"]
    assert own  # the server logs something
    assert token not in " ".join(own)
    assert token not in repr(vars(serving))
    async with httpx2.AsyncClient() as http:
        refused = await http.post(serving.url, headers={"authorization": f"Bearer {token}x"})
    assert refused.status_code == 401
    assert token not in refused.text

"""`%agent mcp` in a real kernel: servers, their state and tools, and completion."""

import json
import sys

import pytest
from support.mcp_servers import PLAYGROUND
from test_completion import complete

pytestmark = pytest.mark.kernel


def test_servers_are_used_listed_completed_and_closed(shared, tmp_path):
    path = tmp_path / "mcp.json"
    servers = {
        "play": {"command": sys.executable, "args": [PLAYGROUND], "env": {"TOKEN": "very-secret"}},
        "broken": {"command": "no-such-program"},
    }
    path.write_text(json.dumps({"mcpServers": servers}))
    shared.ok("agent = Agent(nbagent.ScriptedProvider(['hi']), tools=[])")
    assert "No MCP servers" in shared.ok("%agent mcp").result
    assert "play: connecting" in shared.ok(f"%agent mcp use {path} play").stdout
    assert "broken: connecting" in shared.ok(f"%agent mcp use {path} broken").stdout
    shared.ok("await asyncio.gather(*(each.prepare() for each in agent.toolsets), return_exceptions=True);")
    shown = shared.ok("servers = %agent mcp\nprint(servers)\nprint(servers._repr_html_())").stdout
    assert "play: connected 2026-07-28 playground 1.0" in shown
    assert "play_add play_die" in shown
    assert "broken: failed" in shown
    assert "there is no program &#x27;no-such-program&#x27;" in shown
    assert "very-secret" not in shown
    assert "very-secret" not in shared.ok("list(agent.toolsets)").result
    assert "can't be used" in shared.run("%agent mcp resources").traceback
    shared.ok("agent = Agent(ScriptedProvider(lambda messages, tools: f'Got: {messages[-1].text}'))")
    shared.ok(f"%agent mcp use {path} play")
    shown = shared.ok("found = %agent mcp resources\nprint(found.to_string())").stdout
    assert "notes://{day}/plan" in shown
    assert "name style?" in shared.ok("found = %agent mcp prompts\nprint(found.to_string())").stdout
    answer = shared.ok("%agent mcp prompt play:greet name='Ann B'").text
    assert "Got: Write a kind greeting for Ann B." in answer
    for line, said in [("play:greet", "name=… [style=…]"), ("play:gret name=x", "greet"), ("shop:x", "no server shop")]:
        assert said in shared.run(f"%agent mcp prompt {line}").stderr
    for typed, expected in [
        ("%agent mcp ", "close"),
        ("%agent mcp close p", "play"),
        (f"%agent mcp use {path.parent}/m", str(path)),
    ]:
        assert expected in complete(shared, f"{typed}|")[0]
    assert "play: closed" in shared.ok("%agent mcp close play").stdout
    assert "play: closed" in shared.ok("servers = %agent mcp\nprint(servers)").stdout

"""`MCPServer(…)` and `mcp.json`: what is accepted, what is expanded, and what is never shown."""

import json

import pytest

from nbagent import MCPServer
from nbagent.errors import ConfigurationError
from nbagent.mcp.client.names import MAX_CHARS, offered_names


def written(tmp_path, servers):
    path = tmp_path / "mcp.json"
    path.write_text(servers if isinstance(servers, str) else json.dumps({"mcpServers": servers}))
    return path


def test_a_config_file(tmp_path, monkeypatch):
    monkeypatch.setenv("TICKETS_TOKEN", "very-secret-token-1")
    monkeypatch.delenv("FOLDER", raising=False)
    headers = {"Authorization": "Bearer ${TICKETS_TOKEN}"}
    servers = {
        "files": {"command": "npx", "args": ["files", "${FOLDER:-/data}"], "env": {"A": "${TICKETS_TOKEN}"}},
        "ticket desk": {"type": "http", "url": "https://t.example/mcp", "headers": headers},
        "off": {"command": "x", "disabled": True},
        "old": {"type": "sse", "url": "https://old.example/sse"},
    }
    path = written(tmp_path, servers)
    files, tickets = MCPServer.from_config(path, "files", "ticket desk")
    assert (files.address.command, files.address.env) == (("npx", "files", "/data"), {"A": "very-secret-token-1"})
    assert tickets.address.headers == {"Authorization": "Bearer very-secret-token-1"}
    assert repr(files) == "<MCPServer files: npx files /data, env A, not connected, 0 tools>"
    assert repr(tickets).startswith("<MCPServer ticket_desk: https://t.example/mcp, headers Authorization, not")
    assert "secret" not in repr([files.address, tickets.address])
    assert tickets.address.masked("HTTP 401 for very-secret-token-1") == "HTTP 401 for $TICKETS_TOKEN"
    with pytest.raises(ConfigurationError, match="from_config"):
        MCPServer.from_config(path, "off")


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        ({"a": {"command": "x", "env": {"K": "${NO_SUCH_VARIABLE}"}}}, "NO_SUCH_VARIABLE is not set"),
        ({"a": {"args": []}}, "either a command or a url"),
        ({"a": {"type": "sse", "url": "https://a.example/sse"}}, "a.type: Input should be 'stdio', 'http'"),
        ({"a": {"command": "x", "env": {"K": 5}}}, "a.env.K: Input should be a valid string."),
        ("{", "Invalid JSON"),
        ("{}", "mcpServers: Field required"),
    ],
)
def test_what_is_wrong_with_a_config_file(tmp_path, monkeypatch, servers, said):
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    with pytest.raises(ConfigurationError) as caught:
        MCPServer.from_config(written(tmp_path, servers))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("words", "options", "said"),
    [
        ((), {}, "the words of a command, or a URL"),
        (("https://a.example", "more"), {}, "one URL, or the words of a command"),
        (("npx",), {"headers": {"A": "b"}}, "headers does not go with a command"),
        (("https://a.example",), {"env": {"A": "b"}}, "env does not go with a URL"),
        (("npx",), {"timeout": 0}, "timeout: expected a number above 0"),
    ],
)
def test_wrong_arguments(words, options, said):
    with pytest.raises(ConfigurationError) as caught:
        MCPServer(*words, **options)
    assert said in str(caught.value)


def test_names_fit_and_stay_apart():
    tools = ["x" * 70, "x" * 70 + "y", "größe", "a b", "a.b", "a_b"]
    names = offered_names("s", tools)
    assert sorted(names.values()) == sorted(tools)
    assert all(len(name) <= MAX_CHARS for name in names)
    assert names["s_a_b"] == "a_b"
    assert offered_names("s", reversed(tools)) == names
    assert offered_names("店", ["查询天气", "删除订单"]) == {"店_查询天气": "查询天气", "店_删除订单": "删除订单"}

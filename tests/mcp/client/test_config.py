"""`MCPServer(…)` and `mcp.json`: arguments, variables, and secrets that are never shown."""

import json
import re
from pathlib import Path

import pytest

from nbagent import MCPServer
from nbagent.errors import ConfigurationError
from nbagent.mcp.client.names import fitting_names


def written(tmp_path, servers, name="mcp.json", **more):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(servers if isinstance(servers, str) else json.dumps({"mcpServers": servers} | more), "utf-8")
    return path


def test_a_config_file(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("TICKETS_TOKEN", "very-secret-token-1")
    monkeypatch.delenv("FOLDER", raising=False)
    headers = {"Authorization": "Bearer ${TICKETS_TOKEN}"}
    servers = {
        "files": {"command": "npx", "args": ["files", "${FOLDER:-/data}"], "env": {"A": "${TICKETS_TOKEN}", "B": 5}},
        "ticket desk": {"type": "http", "url": "https://t.example/mcp", "headers": headers},
        "ticket.desk": {"serverUrl": "https://u.example/mcp"},
        "off": {"command": "x", "disabled": True},
        "old": {"type": "sse", "url": "https://old.example/sse"},
        "odd": "npx",
        "天气": {"command": "y", "args": None},
    }
    path = written(tmp_path, servers)
    files, tickets, others, weather = MCPServer.from_config(path)
    assert (files.address.command, files.address.env["A"]) == (("npx", "files", "/data"), "very-secret-token-1")
    assert tickets.address.headers == {"Authorization": "Bearer very-secret-token-1"}
    assert repr(files) == "<MCPServer files: npx files /data, env A B, not connected, 0 tools>"
    assert repr(tickets).startswith("<MCPServer ticket_desk: https://t.example/mcp, headers Authorization, not")
    assert "secret" not in repr([files.address, tickets.address])
    assert tickets.address.masked("HTTP 401 for very-secret-token-1") == "HTTP 401 for $TICKETS_TOKEN"
    assert re.fullmatch("ticket_desk_[0-9a-f]{6}", others.name)
    assert weather.name == "天气"
    left_out = [record.getMessage() for record in caplog.records]
    assert [text.split(": ")[1] for text in left_out] == ["old", "odd"]
    (again,) = MCPServer.from_config(path, "files")  # errors of other servers don't matter
    assert again.address == files.address
    for name in ("off", "old"):
        with pytest.raises(ConfigurationError, match=r"from_config|old: type"):
            MCPServer.from_config(path, "files", name)


#: As an editor writes it, in its folder.
OF_AN_EDITOR = """\ufeff{
  // the project's servers
  "servers": {
    "files": {
      "command": "${userHome}/bin/files", "args": ["${workspaceFolder}${/}data", "--//=/*"], /* paths */
      "envFile": "${workspaceFolder}/.env.files", "env": {"LEVEL": "${input:level}"},
    },
    "tickets": {"url": "https://t.example/mcp", "headers": {"A": "Bearer ${input:key}", "X": "${input:key}"}},
    "theme": {"command": "${config:theme}"},
  },
  "inputs": [
    {"type": "promptString", "id": "key", "description": "The key", "password": true},
    {"type": "pickString", "id": "level", "description": "How much", "options": ["low", "high"], "default": "low"},
  ],
}
"""


def test_files_of_editors(tmp_path, monkeypatch, caplog):
    path = written(tmp_path, OF_AN_EDITOR, ".vscode/mcp.json")
    (tmp_path / ".env.files").write_text("TOKEN='s3cret value'\nLEVEL=debug  # from the file\n")
    asked = []
    monkeypatch.setattr("builtins.input", lambda prompt: asked.append(prompt) or "")
    monkeypatch.setattr("nbagent.mcp.client.config.getpass", lambda prompt: asked.append(prompt) or "k-4711")
    files, tickets = MCPServer.from_config(path)
    assert files.address.command == (str(Path.home() / "bin/files"), str(tmp_path / "data"), "--//=/*")
    assert files.address.env == {"TOKEN": "s3cret value", "LEVEL": "low"}
    assert tickets.address.headers == {"A": "Bearer k-4711", "X": "k-4711"}
    assert asked == ["How much (low, high) [low]: ", "The key: "]
    assert "theme: command: only the editor knows ${config:theme}" in caplog.text

    def nobody(prompt):
        raise EOFError

    monkeypatch.setattr("nbagent.mcp.client.config.getpass", nobody)
    with pytest.raises(ConfigurationError, match=r"inputs=\{\"key\": \"…\"\}"):
        MCPServer.from_config(path, "tickets")
    (tickets,) = MCPServer.from_config(path, "tickets", inputs={"key": "k-1"})
    assert tickets.address.headers["X"] == "k-1"


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        ({"a": {"command": "x", "env": {"K": "${NO_SUCH_VARIABLE}"}}}, "NO_SUCH_VARIABLE is not set"),
        ({"a": {"command": "x", "args": ["${input:key}"]}}, "a: args.0: ${input:key} is not among the file's inputs"),
        ({"a": {"command": "x", "envFile": "none.env"}}, "none.env"),
        ({"a": {"args": []}}, "either a command or a url"),
        ({"a": {"url": "t.example/mcp"}}, "starts with https://"),
        ({"a": {"type": "sse", "url": "https://a.example/sse"}}, "a: type: Input should be 'stdio', 'http'"),
        ({"a": {"command": "x", "env": {"K": []}}}, "a: env.K: Input should be a valid string."),
        ("{", "is not JSON: "),
        ("{}", "mcpServers: Field required"),
    ],
)
def test_errors_in_a_config_file(tmp_path, monkeypatch, servers, said):
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    with pytest.raises(ConfigurationError) as caught:
        MCPServer.from_config(written(tmp_path, servers))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("words", "options", "said"),
    [
        ((), {}, "a URL, or a command as separate words"),
        (("https://a.example", "more"), {}, "either a single URL or the words of a command"),
        (("npx",), {"headers": {"A": "b"}}, "headers can't be used with a command"),
        (("https://a.example",), {"env": {"A": "b"}}, "env can't be used with a URL"),
        (("npx",), {"timeout": 0}, "timeout: expected a number above 0"),
    ],
)
def test_wrong_arguments(words, options, said):
    with pytest.raises(ConfigurationError) as caught:
        MCPServer(*words, **options)
    assert said in str(caught.value)


def test_names_are_accepted_and_unique():
    tools = ["s_" + name for name in ("x" * 70, "x" * 70 + "y", "größe", "a b", "a.b", "a_b", "मौसम", "查询天气")]
    names = fitting_names(tools, 64)
    assert sorted(names.values()) == sorted(tools)
    assert all(len(name) <= 64 for name in names)
    assert [names[name] for name in ("s_a_b", "s_größe", "s_मौसम", "s_查询天气")] == [
        "s_a_b",
        "s_größe",
        "s_मौसम",
        "s_查询天气",
    ]
    assert fitting_names(reversed(tools), 64) == names

"""`nbagent mcp FILE`: the tools of a file, over stdio, and over HTTP until Ctrl-C."""

import re
import signal
import subprocess
import sys

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from support.mcp_sessions import configured, session, text_of

from nbagent import cli
from nbagent.mcp.server.script import stdio_configuration

FILE = """
import threading
import nbagent
print("printed by the file")
count = 0
@nbagent.tool
def add(a: int, b: int = 1) -> int:
    "Add."
    global count
    count += 1
    print("printed by a tool")
    return a + b
@nbagent.tool(main_thread=True)
def where() -> str:
    "Which thread?"
    return f"{threading.current_thread().name} {count}"
@nbagent.tool(approve=True)
def wipe() -> None:
    "Delete."
if __name__ == "__main__":
    raise SystemExit("this does not run")
"""
COMMAND = [sys.executable, "-m", "nbagent.cli", "mcp"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "sums.py"
    path.write_text(FILE)
    return path


async def test_stdio(file, tmp_path):
    server = configured(stdio_configuration(str(file)))
    parameters = StdioServerParameters(command=server["command"], args=server["args"])
    with (tmp_path / "stderr").open("w+") as stderr:
        async with Client(stdio_client(parameters, errlog=stderr)) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["add", "where", "wipe"]
            assert text_of(await client.call_tool("add", {"a": 1})) == "2"
            assert text_of(await client.call_tool("where")) == "MainThread 1"
            denied = await client.call_tool("wipe")
            assert denied.is_error
            assert "nobody can be asked" in text_of(denied)
        stderr.seek(0)
        assert stderr.read() == "printed by the file\nprinted by a tool\n"


@pytest.fixture
def served(file):
    """`nbagent mcp FILE --http` as a process, which ends with the test."""
    command = [*COMMAND, file, "--http", "--tools", "add,where"]
    # a test run in the background of a shell ignores Ctrl-C, and so would what it starts
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    ) as process:
        yield process
        process.kill()


async def test_http_until_ctrl_c(served):
    assert served.stdout.readline() == "printed by the file\n"
    line = served.stdout.readline()
    assert re.match(r'{"mcpServers": {"sums": {"type": "http", "url": "http://127.0.0.1:\d+/mcp", "headers"', line)
    async with session(configured(line)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["add", "where"]
        assert text_of(await client.call_tool("where")) == "MainThread 0"
    served.send_signal(signal.SIGINT)
    assert served.wait(60) == 130


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["none.py"], "There is no file 'none.py'. Correct the path."),
        (["sums.py", "--http", "--tools", "nothing"], "no tool 'nothing'"),
        (["sums.py", "--port", "1"], "--port requires --http"),
    ],
)
def test_wrong_arguments(file, words, problem, capsys, monkeypatch):
    monkeypatch.chdir(file.parent)
    assert cli.main(["mcp", *words]) == 1
    assert problem in capsys.readouterr().err

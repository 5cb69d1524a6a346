"""No traceback that shows variables (`%xmode Verbose`) holds a key, however a request ends before its answer.

A real kernel asks a server in the same kernel, which waits before or in the middle of its answers.
"""

import os
import re

import pytest
from nbclient import NotebookClient
from nbformat import v4
from support.kernels import TIMEOUT, write_spec
from support.secret_forms import ARGUMENT, HEADER, address, assert_clean

pytestmark = pytest.mark.kernel

FIRST = r"""%xmode Verbose
import asyncio, json, os
from nbagent import Agent, AgentConfig, create_provider
from nbagent.providers import ClaudeProvider, GeminiProvider, OpenAIProvider, OpenSourceProvider

heads = []  # the head of each request, in this kernel

async def serve(reader, writer):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    heads.append(head)
    told = json.dumps(f"I saw {head}")
    status = "401 Unauthorized" if answers == "refuse" else "200 OK"
    if answers != "nothing":
        writer.write(f"HTTP/1.1 {status}\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".encode())
    if answers == "refuse":
        writer.write(f'{{"error": {{"message": {told}}}}}'.encode())
    elif answers == "half":
        writer.write(f'data: {{"said": {told}}}\n\ndata: {{"said": {told[:-1]}'.encode())
    await writer.drain()
    asked.set()
    if answers != "refuse":
        await reader.read()  # until the client goes
    writer.close()

server = await asyncio.start_server(serve, "127.0.0.1", 0)
host = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
secrets = {name: os.environ.pop(name) for name in ("OWN", "HEADER")}

def agent_for(vendor, path, url=None, **more):
    global asked
    asked = asyncio.Event()
    given = {"model": "m", "max_retries": 0, "base_url": (url or host) + path, **more}
    return Agent(create_provider(vendor, api_key=key(), headers={"X-Corp-Token": key("HEADER")}, **given))

def key(name="OWN"):
    return secrets[name]

async def soon(do):
    await asked.wait()
    await asyncio.sleep(0)
    do()
"""
#: How a request ends, and what the traceback says.
ENDS = {
    "cancelled": (
        """answers = {answers!r}; task = asyncio.create_task(agent_for({vendor!r}, {path!r}).chat("hi"))
await soon(task.cancel)
await task""",
        "CancelledError",
    ),
    "timed out": (
        """answers = {answers!r}; agent = agent_for({vendor!r}, {path!r})
async with asyncio.timeout(None) as limit:
    expiry = asyncio.create_task(soon(lambda: limit.reschedule(0)))
    await agent.chat("hi")""",
        "TimeoutError",
    ),
    "silence": (
        """answers = {answers!r}; agent = agent_for({vendor!r}, {path!r}, timeout=0.3)
await agent.chat("hi")""",
        "ProviderTimeoutError",
    ),
}
OTHERS = {
    "refused connection": (
        """agent = agent_for({vendor!r}, {path!r}, url="http://127.0.0.1:1")
await agent.chat("hi")""",
        "ProviderConnectionError",
    ),
    "401": (
        """answers = "refuse"; agent = agent_for({vendor!r}, {path!r})
await agent.chat("hi")""",
        "AuthenticationError",
    ),
    "wrong option": ("agent_for({vendor!r}, {path!r}, timeout='soon')", "ConfigurationError"),
    "wrong address": ("agent_for({vendor!r}, {path!r}, url='ftp://')", "ConfigurationError"),
    "wrong class": ("{cls}(key(), 'm', 'ftp://x', headers={{'X-Corp-Token': key('HEADER')}})", "ConfigurationError"),
    "wrong configuration": (
        "Agent(AgentConfig(api_key=key(), provider={vendor!r}, base_url='ftp://x')).provider",
        "ConfigurationError",
    ),
}


CLASSES = {
    "open_source": "OpenSourceProvider",
    "openai": "OpenAIProvider",
    "claude": "ClaudeProvider",
    "gemini": "GeminiProvider",
}


#: Every way with one vendor, and two of them with all.
WITH_ALL = ("cancelled", "401")


def cells_of(vendor):
    names = {"cls": CLASSES[vendor], "vendor": vendor, "path": address(vendor, "")}
    with_all = () if vendor == "openai" else WITH_ALL
    ways = [
        (code.format(answers=answers, **names), name)
        for end, (code, name) in ENDS.items()
        for answers in ("nothing", "half")
        if not with_all or end in with_all
    ]
    others = [(code.format(**names), name) for end, (code, name) in OTHERS.items() if not with_all or end in with_all]
    return ways + others


async def test_no_traceback_with_variables_holds_a_key(tmp_path, monkeypatch):
    write_spec(tmp_path)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    ends = [cell for vendor in CLASSES for cell in cells_of(vendor)]
    cells = [v4.new_code_cell(code, metadata={"tags": ["raises-exception"]}) for code, _ in ends]
    last = v4.new_code_cell("print(len(heads), sum(key() in head and key('HEADER') in head for head in heads))")
    notebook = v4.new_notebook(cells=[v4.new_code_cell(FIRST), *cells, last])
    own = {"OWN": ARGUMENT, "HEADER": HEADER, "IPYTHONDIR": str(tmp_path / "ipython")}
    client = NotebookClient(notebook, kernel_name="tested", timeout=TIMEOUT)
    await client.async_execute(env={**os.environ, **own})
    asked = 2 * len(ENDS) + 1 + 3 * (len(CLASSES) - 1)
    assert last.outputs[0].text == f"{asked} {asked}\n"
    tracebacks = []
    for cell, (code, name) in zip(cells, ends, strict=True):
        (error,) = [output for output in cell.outputs if output.output_type == "error"]
        assert error.ename == name, code
        tracebacks.append("\n".join(error.traceback))
    text = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(tracebacks))  # colours stand in the middle of words
    assert "handler=None" in text  # the tracebacks show variables
    for key in (ARGUMENT, HEADER):
        assert_clean(text, key)

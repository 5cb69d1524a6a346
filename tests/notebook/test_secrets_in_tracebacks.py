"""No traceback that shows variables (`%xmode Verbose`) holds a key, however a request ends before its answer.

A real kernel asks a server in the same kernel, which waits before or in the middle of its answers.
`test_secrets_in_notebooks.py` asks each vendor.
"""

import os
import re

import pytest
from nbclient import NotebookClient
from nbformat import v4
from support.kernels import TIMEOUT, write_spec
from support.secret_forms import ARGUMENT, HEADER, assert_clean

pytestmark = pytest.mark.kernel

FIRST = r"""%xmode Verbose
import asyncio, json, os
from nbagent import Agent, AgentConfig, create_provider
from nbagent.providers import OpenAIProvider

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

def agent_for(**more):
    global asked
    asked = asyncio.Event()
    given = {"model": "m", "max_retries": 0, "base_url": host, **more}
    return Agent(create_provider("openai", api_key=key(), headers={"X-Corp-Token": key("HEADER")}, **given))

def key(name="OWN"):
    return secrets[name]

async def soon(do):
    await asked.wait()
    await asyncio.sleep(0)
    do()
"""
CANCEL = 'task = asyncio.create_task(agent_for().chat("hi")); await soon(task.cancel); await task'
#: How a request ends: the code, what the server answers, and what the traceback says.
SENT = [
    (CANCEL, "nothing", "CancelledError"),
    (CANCEL, "half", "CancelledError"),
    ('await agent_for(timeout=0.3).chat("hi")', "nothing", "ProviderTimeoutError"),
    ('await agent_for(timeout=0.3).chat("hi")', "half", "ProviderTimeoutError"),
    ('await agent_for().chat("hi")', "refuse", "AuthenticationError"),
]
NOT_SENT = [
    ('await agent_for(base_url="http://127.0.0.1:1").chat("hi")', "", "ProviderConnectionError"),
    ("agent_for(timeout='soon')", "", "ConfigurationError"),
    ("agent_for(base_url='ftp://')", "", "ConfigurationError"),
    ("OpenAIProvider(key(), 'm', 'ftp://x', headers={'X-Corp-Token': key('HEADER')})", "", "ConfigurationError"),
    ("Agent(AgentConfig(api_key=key(), provider='openai', base_url='ftp://x')).provider", "", "ConfigurationError"),
]


async def test_no_traceback_with_variables_holds_a_key(tmp_path, monkeypatch):
    write_spec(tmp_path)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    ends = [*SENT, *NOT_SENT]
    cells = [
        v4.new_code_cell(f"answers = {answers!r}\n{code}", metadata={"tags": ["raises-exception"]})
        for code, answers, _ in ends
    ]
    last = v4.new_code_cell("print(len(heads), sum(key() in head and key('HEADER') in head for head in heads))")
    notebook = v4.new_notebook(cells=[v4.new_code_cell(FIRST), *cells, last])
    own = {"OWN": ARGUMENT, "HEADER": HEADER, "IPYTHONDIR": str(tmp_path / "ipython")}
    client = NotebookClient(notebook, kernel_name="tested", timeout=TIMEOUT)
    await client.async_execute(env={**os.environ, **own})
    assert last.outputs[0].text == f"{len(SENT)} {len(SENT)}\n"
    errors = [output for cell in cells for output in cell.outputs if output.output_type == "error"]
    assert [error.ename for error in errors] == [name for *_, name in ends]
    text = "\n".join(line for error in errors for line in error.traceback)
    text = re.sub(r"\x1b\[[\d;]*m", "", text)  # colours stand in the middle of words
    assert "handler=None" in text  # the tracebacks show variables
    for key in (ARGUMENT, HEADER):
        assert_clean(text, key)

"""MCP's own conformance suite: the requirements of each revision for servers, with the server in a real kernel."""

import asyncio
import re

import pytest
from support.kernels import Kernel
from support.mcp_environment import conformance
from support.mcp_everything import ASKING, NOT_OURS, OTHERS, TOOLS
from support.mcp_sessions import MODES, configured

pytestmark = [pytest.mark.kernel, pytest.mark.full]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    with Kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        kernel.ok("import nbagent\nagent = Agent(ScriptedProvider([]), tools=nbagent.live)" + TOOLS + ASKING)
        yield kernel


@pytest.fixture(scope="module")
def server(kernel):
    cell = kernel.ok("%agent serve --mcp")
    kernel.ok(OTHERS)
    return configured(cell.text)


@pytest.mark.parametrize("revision", MODES)
async def test_the_requirements_of_a_revision(kernel, server, revision, tmp_path):
    async with await with_token(server) as relay:
        port = relay.sockets[0].getsockname()[1]
        words = ["server", "--url", f"http://127.0.0.1:{port}/mcp", "--requirements", revision]
        command = [*conformance(*words), "--output-dir", str(tmp_path)]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
        said = (await process.communicate())[0].decode()
    assert all(map(NOT_OURS.match, re.findall(r"✗ ([\w-]+): ", said))), said
    passed = re.findall(r"✓ ([\w-]+): [1-9]\d* passed, 0 failed", said)
    assert {"tools-list", "dns-rebinding-protection", "server-sse-multiple-streams"} < set(passed)
    assert len(passed) >= 18, said
    assert kernel.value("agent.trace.runs['source'].str.startswith('mcp-client').all().item()") is True


async def with_token(server):
    """A server that relays connections, and adds the token to each request: the suite sends none.

    Where a request names the relay's own address, such as in Host, it names nbagent's instead.
    """
    address = server["url"].split("/")[2].split(":")
    line = f"authorization: {server['headers']['Authorization']}\r\n".encode()

    async def relay(reader, writer):
        there_reader, there = await asyncio.open_connection(*address)
        here, target = b"127.0.0.1:%d" % writer.get_extra_info("sockname")[1], ":".join(address).encode()
        answers = asyncio.create_task(_copy(there_reader, writer))
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                there.write(head[:-2].replace(here, target) + line + b"\r\n")
                length = re.search(rb"content-length: *(\d+)", head, re.I)
                there.write(await reader.readexactly(int(length[1])) if length else b"")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            there.close()
            await answers

    return await asyncio.start_server(relay, "127.0.0.1", 0)


async def _copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
    except ConnectionError:
        pass
    finally:
        writer.close()

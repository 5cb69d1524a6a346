"""Arize Phoenix, a real backend, reads usage, sessions, messages and tools from the spans.

`make test-phoenix` installs it into an environment of its own, .venv-phoenix.
"""

import asyncio
import os
import signal
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Usage

PHOENIX = Path(__file__).parents[3] / ".venv-phoenix" / "bin" / "phoenix"
pytestmark = pytest.mark.phoenix


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory):
    port, grpc_port = free_ports(2)
    settings = {
        "PHOENIX_WORKING_DIR": str(tmp_path_factory.mktemp("phoenix")),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(grpc_port),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    command = [str(PHOENIX), "serve"]
    with subprocess.Popen(
        command, env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        said = []
        for line in server.stdout:
            said.append(line)
            if "Uvicorn running" in line:
                break
        else:
            pytest.fail("Phoenix did not start:\n" + "".join(said))
        yield f"http://127.0.0.1:{port}"
        server.send_signal(signal.SIGINT)
        server.communicate()


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


def agent():
    facts = {"usage": Usage(1000, 100, 200), "model": "claude-sonnet-5"}
    turns = [LLMResponse("", [FunctionCall("double", {"x": 4})], "tool_calls", facts)]
    provider = ScriptedProvider([*turns, LLMResponse("eight", None, "stop", facts)], model="claude-sonnet-5")
    provider.provider_name = "claude"
    return Agent(provider, tools=[double], system_prompt="Be brief.")


async def sent(phoenix, asking):
    """Send a prompt. Return the conversation's session in Phoenix, and its spans by name."""
    telemetry = asking.trace.to_otel(phoenix, capture_content=True)
    result = await asking.chat("Twice 4?")
    await asyncio.to_thread(telemetry.stop)
    async with asyncio.timeout(60), httpx.AsyncClient(base_url=f"{phoenix}/v1/projects/default") as client:
        while True:  # Phoenix inserts received spans a moment later
            sessions = (await client.get("/sessions")).json()["data"]
            spans = (await client.get("/spans", params={"limit": 100})).json()["data"]
            own = [
                span for span in spans if span["attributes"].get("session.id") == asking.context.here.conversation_id
            ]
            traces = {span["context"]["trace_id"] for span in own}
            spans = [span for span in spans if span["context"]["trace_id"] in traces]
            session = [each for each in sessions if each["session_id"] == asking.context.here.conversation_id]
            if session and len(spans) == 4:
                return result, session[0], spans


@pytest.fixture(autouse=True)
def no_metrics(monkeypatch):
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")


async def test_phoenix_reads_the_usage(phoenix):
    result, session, spans = await sent(phoenix, agent())
    used = result.usage
    assert (session["token_count_prompt"], session["token_count_completion"]) == (used.input_tokens, used.output_tokens)
    assert sorted((span["span_kind"], span["name"]) for span in spans) == [
        ("AGENT", "invoke_agent"),
        ("LLM", "chat claude-sonnet-5"),
        ("LLM", "chat claude-sonnet-5"),
        ("TOOL", "execute_tool double"),
    ]
    first, last = sorted((s for s in spans if s["span_kind"] == "LLM"), key=lambda span: span["start_time"])
    read = first["attributes"]
    assert read["llm.token_count.prompt"] == 1000
    call = "llm.output_messages.0.message.tool_calls.0.tool_call"
    assert read[f"{call}.function.name"] == "double"
    answered = last["attributes"]
    roles = [answered[f"llm.input_messages.{n}.message.role"] for n in range(4)]
    assert roles == ["system", "user", "assistant", "tool"]
    assert answered["llm.input_messages.3.message.tool_call_id"] == read[f"{call}.id"]
    assert answered["llm.output_messages.0.message.content"] == "eight"
    (tool,) = (span["attributes"] for span in spans if span["span_kind"] == "TOOL")
    assert (tool["tool.name"], tool["tool.description"], tool["output.value"]) == ("double", "Twice x.", "8")

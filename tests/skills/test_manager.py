"""`ToolManager`: the skills of a host, or of a server over HTTP, as functions that a model can call."""

import asyncio
import json

import pytest
from support.loopback import Answer, Loopback, served
from support.skill_folders import write_executable, write_skill

from nbagent import Agent, FunctionCall, ScriptedProvider, SkillHost, SkillManifest, ToolManager
from nbagent.errors import ConfigurationError, ToolError

NUMBERS = {"type": "array", "items": {"type": "number"}, "minItems": 1, "description": "The numbers"}
SCHEMA = {
    "name": "average",
    "description": "The mean of numbers.",
    "parameters": {"type": "object", "properties": {"numbers": NUMBERS}, "required": ["numbers"]},
}


@pytest.fixture
def host(tmp_path):
    write_executable(tmp_path / "skills")
    write_skill(tmp_path / "skills", "tea")
    return SkillHost(tmp_path / "skills", discover=False)


@pytest.fixture
def manager(host):
    return ToolManager(host)


def as_json(data):
    return Answer(json.dumps(data).encode())


def test_methods_for_a_host(manager, host):
    assert manager.get_available_tools() == [SCHEMA]
    assert manager.get_all_tools_for_openai() == [{"type": "function", "function": SCHEMA}]
    assert manager.skill_to_function_schema(host.skills["average"]) == SCHEMA
    assert manager.describe() == ("# Tools\n\n## average\n\nThe mean of numbers.\n\n- `numbers` (array): The numbers\n")
    result = manager.invoke_tool("average", {"numbers": [1, 2, 3, 4, 5]})
    assert (result.success, result.data, result.error) == (True, {"mean": 3.0}, None)
    assert result.trace_id.startswith("run_")


def test_a_skill_that_is_not_a_tool(manager):
    with pytest.raises(ToolError, match="Tool: tea"):
        manager.skill_to_function_schema(SkillManifest("tea", "Tea.", None))


async def test_an_agent_uses_the_skills_of_a_server():
    listed = {"id": "average", "description": SCHEMA["description"], "parameters": SCHEMA["parameters"]}
    result = {"success": True, "data": {"mean": 2.0}, "error": None, "trace_id": "run_1", "duration_ms": 1.0}
    async with Loopback() as server:
        server.answers = [as_json({"skills": [listed]}), as_json({"skills": [listed]}), as_json(result)]
        turns = [[FunctionCall("average", {"numbers": [1, 3]})], "It is 2."] * 2
        agent = Agent(ScriptedProvider(turns)).use(ToolManager(server.url, token="t0ken-0123456789"))
        asked = await agent.chat("?")
        agent.tool_executor.approver = lambda *_: True
        result = await agent.chat("?")
    assert "needs approval" in asked.function_calls[0]["result"]
    assert result.function_calls[0]["result"] == '{"success": true, "data": {"mean": 2.0}}'
    assert list(agent.trace.tool_calls["source"]) == [f"skills:{server.url}"] * 2
    assert [request.path for request in server.requests] == ["/skills", "/skills", "/skills/average/invoke"]
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer t0ken-0123456789"}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(b"{}", 500), "status 500"),
        (Answer(b"<html>"), "Invalid JSON"),
        (as_json({"skills": [{}]}), "skills.0.id: Field required"),
        (as_json({"skills": [{"id": "average", "parameters": {"type": "string"}}]}), "expected a JSON Schema"),
        (as_json({"skills": [{"id": "average", "parameters": {"properties": 5}}]}), "not a JSON Schema"),
    ],
)
def test_invalid_responses(answer, why):
    with served(Loopback()) as server:
        server.answers = [answer]
        manager = ToolManager(server.url)
        with pytest.raises(ToolError, match=why):
            manager.get_available_tools()
        assert why in manager.invoke_tool("average", {"numbers": [1]}).error


class Endless(Loopback):
    async def _send(self, answer, reader, writer):
        writer.write(b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"1\r\n \r\n")
            await writer.drain()
            await asyncio.sleep(0.05)


def test_an_endless_response():
    with served(Endless()) as server:
        server.answers = [Answer()]
        assert "did not end within 0.3 s" in ToolManager(server.url, timeout=0.3).invoke_tool("average").error


def test_unusual_skills_of_another_server():
    parameters = {"properties": {"day": True, "part": {"$ref": "#/$defs/part"}}, "$defs": {"part": {"type": "integer"}}}
    parameters["properties"]["\a"] = {}
    with served(Loopback()) as server:
        listed = as_json({"skills": [{"id": "5", "parameters": parameters}]})
        server.answers = [listed, listed, as_json({"success": False, "error": "\x1b[2J"}), as_json({"success": "?"})]
        manager = ToolManager(server.url)
        assert "- `day` (any, optional)\n- `part` (integer, optional)\n- `␇`" in manager.describe()
        result = ToolManager(server.url).invoke_tool("5")
        assert [request.path for request in server.requests] == ["/skills", "/skills", "/skills/5/invoke"]
        assert "success: Input should be a valid boolean" in manager.invoke_tool("5").error
    assert (result.trace_id, result.duration_ms, "\x1b" in result.error) == ("", 0.0, False)


def test_unreachable_and_invalid_addresses():
    manager = ToolManager("http://127.0.0.1:9", timeout=5)
    with pytest.raises(ToolError, match="did not respond"):
        manager.get_available_tools()
    assert "did not respond" in manager.invoke_tool("average").error
    for url in ("ftp://x", "skills", "http://user:pw@x"):
        with pytest.raises(ConfigurationError):
            ToolManager(url)

"""`ToolManager`: the skills of a host, and of a server over HTTP, as functions that a model can call."""

import asyncio
import json
from contextlib import contextmanager

import pytest
from support.loopback import read_request, served_by
from support.skill_folders import write_executable, write_skill

from nbagent import Agent, FunctionCall, ScriptedProvider, SkillHost, SkillManifest, ToolManager
from nbagent.core.background import run_sync
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
    return SkillHost(tmp_path / "skills", discover=False, in_process=True)


class Served:
    """A server of skills; `answers` has what it answers, by `(method, path)`: JSON, raw bytes or a status."""

    def __init__(self, host):
        self.requests = []
        tools = ToolManager(host).get_available_tools()
        listed = [{"id": tool.pop("name"), **tool} for tool in tools]
        self.answers = {
            ("GET", "/skills"): lambda body: listed,
            ("GET", "/healthz"): lambda body: {"status": "ok"},
            ("POST", "/skills/average/invoke"): lambda body: host.invoke_sync("average", body["arguments"]).to_dict(),
        }

    async def handle(self, reader, writer):
        head, body = await read_request(reader)
        method, path, *_ = head.split()
        asked = (method.upper(), path)
        self.requests.append((*asked, "authorization: bearer t0ken-0123456789" in head))
        answer = await asyncio.to_thread(self.answers[asked], json.loads(body) if body else None)
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        status = answer if isinstance(answer, int) else 200
        writer.write(b"HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (status, len(data)) + data)
        await writer.drain()


@contextmanager
def serving(served):
    server = served_by(served.handle)
    address = run_sync(server.__aenter__())
    try:
        yield f"http://{address}"
    finally:
        run_sync(server.__aexit__(None, None, None))


@pytest.fixture
def served(host):
    return Served(host)


@pytest.fixture(params=["host", "url"])
def manager(request, host, served):
    if request.param == "host":
        yield ToolManager(host, cache_ttl=60)
    else:
        with serving(served) as url:
            yield ToolManager(url + "/", cache_ttl=60)


def test_its_methods(manager, host):
    assert manager.get_available_tools() == [SCHEMA]
    assert manager.get_all_tools_for_openai() == [{"type": "function", "function": SCHEMA}]
    assert manager.skill_to_function_schema(host.skills["average"]) == SCHEMA
    assert manager.health() == {"status": "ok", "tools": 1}
    assert manager.describe() == ("# Tools\n\n## average\n\nThe mean of numbers.\n\n- `numbers` (array): The numbers\n")
    result = manager.invoke_tool("average", {"numbers": [1, 2, 3, 4, 5]})
    assert (result.success, result.data, result.error) == (True, {"mean": 3.0}, None)
    assert result.trace_id.startswith("run_")
    assert manager.invoke_tool("average", {"numbers": [1, 2, 3, 4, 5]}) is result  # kept
    assert manager.execute_tool("average", {"numbers": [2]}) == {"mean": 2.0}


def test_what_fails_is_a_result(manager):
    result = manager.invoke_tool("average", {"numbers": []})
    assert (result.success, result.data) == (False, None)
    assert "at least 1 item" in result.error
    assert manager.invoke_tool("average", {"numbers": []}) is not result
    assert "did you mean average?" in manager.invoke_tool("avrage").error
    with pytest.raises(ToolError, match="at least 1 item"):
        manager.execute_tool("average", {"numbers": []})
    with pytest.raises(ToolError, match="'tea' is not a tool"):
        manager.skill_to_function_schema(SkillManifest("tea", "Tea.", None))


async def test_an_agent_uses_the_skills_of_a_server(served):
    with serving(served) as url:
        manager = ToolManager(url, token="t0ken-0123456789")
        turns = [[FunctionCall("average", {"numbers": [1, 3]})], "It is 2."]
        agent = Agent(ScriptedProvider(turns)).use(manager)
        result = await agent.chat("?")
        assert result.function_calls[0]["result"] == '{"success": true, "data": {"mean": 2.0}}'
        assert list(agent.trace.tool_calls["source"]) == ["skill:average"]
        assert served.requests == [("GET", "/skills", True), ("POST", "/skills/average/invoke", True)]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (500, "status 500"),
        (b"<html>", "expected JSON"),
        ({"skills": [{}]}, "expected a list of skills with ids"),
    ],
)
def test_a_server_that_answers_badly(served, answer, why):
    served.answers["GET", "/skills"] = lambda body: answer
    with serving(served) as url:
        manager = ToolManager(url)
        with pytest.raises(ToolError, match=why):
            manager.get_available_tools()
        assert manager.health()["status"] == "unavailable"
        assert why in manager.invoke_tool("average", {"numbers": [1]}).error


def test_addresses_where_nobody_answers_and_that_are_none():
    manager = ToolManager("http://127.0.0.1:9", timeout=5)
    assert manager.health()["status"] == "unavailable"
    assert "did not answer" in manager.invoke_tool("average").error
    for url in ("ftp://x", "skills", "http://user:pw@x"):
        with pytest.raises(ConfigurationError):
            ToolManager(url)

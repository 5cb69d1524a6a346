"""Third-party servers from npm and PyPI, which `make test-all` installs into .venv-mcp."""

import json
import subprocess

import pytest
from support.loopback import Answer, Loopback
from support.mcp_environment import installed, with_node

from nbagent import Agent, FunctionCall, MCPServer, ScriptedProvider
from nbagent.core.content.images import images_in

pytestmark = pytest.mark.full


async def called(server, *calls, approve=None):
    """Returns the results of calls, and the agent."""
    agent = Agent(ScriptedProvider([*([FunctionCall(*call)] for call in calls), "done"]), approve=approve).use(server)
    result = await agent.chat("Go.")
    return [call["result"] for call in result.function_calls], agent


async def test_the_reference_server():
    asked = []

    def approve(question, definition):
        asked.append(question)
        return True

    server = MCPServer(*installed("mcp-server-everything"), name="all", env=with_node())
    calls = [
        ("all_get-sum", {"a": 2, "b": 3}),
        ("all_get-tiny-image", {}),
        ("all_get-structured-content", {"location": "Chicago"}),
        ("all_trigger-long-running-operation", {"duration": 1, "steps": 2}),
        ("all_trigger-elicitation-request", {}),
    ]
    results, agent = await called(server, *calls, approve=approve)
    assert "5" in results[0]
    assert [image.media_type for message in agent.conversation_history for image in images_in(message.content)] == [
        "image/png"
    ]
    assert json.loads(results[2]).keys() >= {"temperature", "conditions"}
    assert "completed" in results[3]
    assert [each.name for each in asked if hasattr(each, "problem")] == ["all"]
    await agent.aclose()


async def test_servers_from_pypi(tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@example.com"]
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "the first"]):
        subprocess.run([*git, *command], check=True)
    page = Answer(b"<html><body><h1>Title</h1><p>Some text.</p></body></html>", headers={"content-type": "text/html"})
    async with Loopback() as site:
        site.answers.append(page)
        when = {"source_timezone": "Europe/Berlin", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        for words, call, arguments, said in [
            (["time"], "x_convert_time", when, "Asia/Tokyo"),
            (["git", "--repository", str(tmp_path)], "x_git_log", {"repo_path": str(tmp_path)}, "the first"),
            (["fetch", "--ignore-robots-txt", "--allow-private-ips"], "x_fetch", {"url": site.url}, "Some text."),
        ]:
            server = MCPServer(*installed(f"mcp-server-{words[0]}"), *words[1:], name="x")
            results, agent = await called(server, (call, arguments), approve=lambda call, tool: True)
            assert said in results[0]
            await agent.aclose()

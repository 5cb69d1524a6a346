"""The tools of an MCP server in runs of an agent: over stdio and HTTP, with a handshake and without."""

import asyncio
import json

import pytest

from nbagent import Agent, Allow, FunctionCall, ScriptedProvider
from nbagent.core import events
from nbagent.errors import MCPServerError

REVISIONS = {"modern": "2026-07-28", "legacy": "2025-11-25"}


def agent_with(server, *turns, **options):
    return Agent(ScriptedProvider([*turns, "done"]), **options).use(server)


async def results_of(server, *calls, **options):
    agent = agent_with(server, [FunctionCall(f"play_{name}", arguments) for name, arguments in calls], **options)
    result = await agent.chat("Go.")
    return agent, [call["result"] for call in result.function_calls]


async def test_results_errors_names_and_sources(server):
    server, era = server
    calls = [("add", {"a": 1, "b": 2}), ("weather", {"city": "Köln"}), ("picture", {}), ("fails", {"city": "Bonn"})]
    agent, (three, weather, _, error, text) = await results_of(server, *calls, ("text", {}))
    assert server.connection.revision == REVISIONS[era]
    assert (three, text) == ("3", "once")
    assert json.loads(weather) == {"city": "Köln", "celsius": 21.5}
    assert "there is no city Bonn" in error
    assert "hunter2" not in error
    image = agent.conversation_history[4].content
    assert [part["type"] for part in image] == ["image"]
    assert image[0]["media_type"] == "image/gif"
    assert set(agent.trace.tool_calls["source"]) == {"mcp:play"}
    offered = {each["name"]: each for each in agent.provider.requests[0][1]}
    assert offered["play_add"]["parameters"]["required"] == ["a", "b"]
    assert "play_notes_delete_all" in offered
    assert "Add before you multiply." in agent.provider.requests[0][0][0].text


async def test_tools_that_are_not_read_only_need_approval_once_a_session(server):
    server, _ = server
    asked = []

    def approve(call, definition):
        asked.append((call.name, call.arguments))
        return Allow.TOOL

    call = ("notes_delete_all", {"note": "x"})
    _, results = await results_of(server, call)
    assert "needs approval" in results[0]
    agent, results = await results_of(server, call, ("add", {"a": 1, "b": 1}), approve=approve)
    assert results == ["deleted x", "2"]
    agent.provider = ScriptedProvider([[FunctionCall("play_notes_delete_all", {"note": "y"})], "done"])
    await agent.chat("Again.")
    assert asked == [("play_notes_delete_all", {"note": "x"})]
    assert list(agent.trace.tool_calls["approval"]) == ["approved", "auto", "allowed"]


async def test_a_server_asks_the_user(server):
    server, _ = server
    answers = {"2 of size L": {"size": "L", "count": 2}, "1 of size M": True, "decline": False}
    for expected, answer in answers.items():
        asked = []

        def approve(question, definition, asked=asked, answer=answer):
            asked.append((question.name, question.text, question.arguments))
            return answer

        assert (await results_of(server, ("order", {}), approve=approve))[1] == [expected]
        assert asked == [("play", "Which size?", {"size": "M", "count": 1})]
    for options in ({"approve": lambda *_: {"size": 5}}, {}):  # an invalid answer, and nobody to ask
        assert (await results_of(server, ("order", {}), **options))[1] == ["decline"]


async def test_progress_is_shown_and_stopping_reaches_the_server(server, tmp_path):
    server, _ = server
    marker, printed, shown = tmp_path / "marker", asyncio.Event(), []

    def observe(event):
        if isinstance(event, events.ToolProgress):
            shown.append(event.content)
            printed.set()

    agent = agent_with(server, [FunctionCall("play_slow", {"marker": str(marker)})])
    agent.observers.append(observe)
    reading = asyncio.create_task(agent.chat("Go."))
    await asyncio.wait_for(printed.wait(), 20)
    assert shown[0] == "1/4 begun"
    agent.stop()
    with pytest.raises(asyncio.CancelledError):
        await reading
    while not marker.exists() or marker.read_text() != "cancelled":
        await asyncio.sleep(0.05)


async def test_new_tools_are_offered_and_names_are_not_reused(server):
    server, _ = server
    await server.prepare()
    first, second = sorted(name for name in server.tools.names() if "北京_天气" in name)
    assert first == "play_北京_天气"
    await results_of(server, ("learn", {}))
    while "play_taught" not in server.tools:
        await asyncio.sleep(0.05)
    assert first not in server.tools
    calls = [("taught", {}), (second.removeprefix("play_"), {})]
    assert (await results_of(server, *calls))[1] == ["learned", "北京/天气"]


async def test_resources_and_prompts(server):
    server, _ = server
    found = {each.uri: each for each in await server.resources()}
    assert (found["notes://today"].name, found["notes://today"].description) == ("today's notes", "What is planned.")
    assert found.keys() == {"notes://today", "notes://{day}/plan", "pixels://dot"}
    assert await server.read("notes://monday/plan") == "The plan of monday."
    (image,) = await server.read("pixels://dot")
    assert (image["type"], image["media_type"]) == ("image", "image/gif")
    with pytest.raises(MCPServerError, match=r"'play'.*nowhere"):
        await server.read("nowhere://x")
    assert {each.name: each.arguments for each in await server.prompts()} == {
        "greet": {"name": True, "style": False},
        "riddle": {},
    }
    assert await server.prompt("greet", name="Ann") == "Write a kind greeting for Ann."
    assert await server.prompt("riddle") == "user: What has keys?\n\nassistant: A piano.\n\nuser: And locks?"

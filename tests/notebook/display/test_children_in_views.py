"""Subagents' runs in cells and panels: folded below the call that started them."""

import asyncio
import re

from support.hostile import PAYLOADS
from support.small_agent import call

from nbagent import Agent, LLMResponse, ScriptedProvider, Usage
from nbagent.chat.transcript import MAX_RUNS, Transcript


def search(query: str) -> str:
    """Search."""
    return f"3 pages about {query}"


def answering(*turns, **options):
    return Agent(ScriptedProvider(turns), **options)


def asking(child, *turns):
    """An agent that runs the child or calls the tool, and a transcript of all events that its observers see."""
    tools = [child.as_tool("research", "Finds facts.") if isinstance(child, Agent) else child]
    agent = answering(*(turns or (call("research", question="Heaviest?"),)), "The end.", tools=tools)
    transcript = Transcript()
    agent.observers.append(transcript.feed)
    return agent, transcript


async def test_subagents_costs_count_in_the_footer():
    spent = {"usage": Usage(90, 10)}
    child = answering(LLMResponse("Deep.", metadata=spent))
    agent, transcript = asking(child, LLMResponse("", [call("research", question="So?")], metadata=spent))
    result = await agent.chat("Go")
    assert f"{result.usage.input_tokens:,} in" in transcript.plain()
    assert result.usage.input_tokens >= 180
    assert "scripted · 90 in · 10 out" in transcript.html()


async def test_a_tool_that_runs_many_subagents():
    async def research(question: str) -> str:
        """Run many."""
        await asyncio.gather(*(answering("x").chat(f"Number {n}") for n in range(MAX_RUNS + 3)))
        return "asked"

    agent, transcript = asking(research)
    await agent.chat("Go")
    page = transcript.html()
    assert page.count("nbagent-child") - page.count(".nbagent-child") == MAX_RUNS
    assert "agent Number 0" in re.sub("<[^>]*>", "", page)
    assert "and 3 more: see agent.trace.tree()" in page
    assert "and 3 more" in transcript.plain()


async def test_a_subagent_s_text_is_never_raw_html():
    for text in (payload.text for payload in PAYLOADS[::7]):
        agent, transcript = asking(answering(call(text, query=text), text, tools=[search]))
        await agent.chat("Go")
        page = transcript.html().replace("<style>", "", 1)
        assert not re.search("<(script|img|iframe|svg|style>@import)", page), text

"""What agents do that a tool asks, as cells and panels show it: folded below its call."""

import asyncio
import html
import re

from support.displays import Displays
from support.hostile import PAYLOADS
from support.small_agent import call

from nbagent import Agent, LLMResponse, ScriptedProvider, Usage, tool
from nbagent.errors import RateLimitError
from nbagent.notebook.display.children import MAX_RUNS
from nbagent.notebook.display.transcript import FOR_YOU, Transcript
from nbagent.notebook.display.view import CellView, TerminalView


def search(query: str) -> str:
    """Search."""
    return f"3 pages about {query}"


def answering(*turns, **options):
    return Agent(ScriptedProvider(turns), **options)


def asking(child, *turns):
    """An agent that asks the child, or calls the tool, and a transcript of all that its observers see."""
    tools = [child.as_tool("research", "Finds facts.") if isinstance(child, Agent) else child]
    agent = answering(*(turns or (call("research", question="Heaviest?"),)), "The end.", tools=tools)
    transcript = Transcript()
    agent.observers.append(transcript.feed)
    return agent, transcript


def summaries(page):
    heads = re.findall(r"<summary>(.*?)</summary>", page)
    return [" ".join(html.unescape(re.sub(r"<[^>]*>", "", head.replace("<span", " <span"))).split()) for head in heads]


async def test_its_steps_are_folded_below_its_call():
    child = answering([call("search", query="mass")], "The **emperor**.", tools=[search])
    agent, transcript = asking(child)
    await agent.chat("Go")
    page = transcript.html()
    assert [re.sub(r" +(✓|scripted).*", "", each) for each in summaries(page)] == [
        'research(question="Heaviest?")', "research", 'search(query="mass")',
    ]  # fmt: skip
    below = page.index('<div class="nbagent-child">')
    assert page.index("research(") < below < page.index("search(query") < page.index("<strong>emperor</strong>")
    assert " open>" not in page
    assert transcript.plain().splitlines()[:5] == [
        '▸ research(question="Heaviest?")',
        '  ▸ search(query="mass")',
        "    3 pages about mass",
        "  The **emperor**.",
        "The end.",
    ]


async def test_it_is_unfolded_as_long_as_it_works():
    said, go = asyncio.Event(), asyncio.Event()

    async def turn(messages, functions):
        said.set()
        await go.wait()
        return "Done."

    agent, transcript = asking(Agent(ScriptedProvider(turn)))
    task = asyncio.create_task(agent.chat("Go"))
    await said.wait()
    page = transcript.html()
    assert page.count(" open>") == 1
    assert summaries(page)[1] == "research working…"
    assert "waiting for scripted" in page
    go.set()
    await task
    assert " open>" not in transcript.html()


async def test_what_children_spend_counts_in_the_footer():
    spent = {"usage": Usage(90, 10)}
    inner = answering(LLMResponse("Deep.", metadata=spent))
    middle = answering(
        LLMResponse("", [call("ask", question="So?")], metadata=spent),
        LLMResponse("Yes.", metadata=spent),
        tools=[inner.as_tool("ask", "Asks.")],
    )
    agent, transcript = asking(middle)
    result = await agent.chat("Go")
    assert f"{result.usage.input_tokens:,} in" in transcript.plain()
    assert "scripted · 180 in · 20 out" not in transcript.html()  # with what is below it
    assert "scripted · 270 in · 30 out" in transcript.html()


async def test_a_call_of_a_child_waits_for_approval_and_is_edited():
    @tool(approve=True)
    def wipe(table: str) -> str:
        """Delete."""
        return f"{table} is gone"

    pages, child = [], answering(call("wipe", "w9", table="a"), "Gone.", tools=[wipe])
    agent, transcript = asking(child)

    def approve(asked, definition):
        with transcript.call_waits(asked.id, FOR_YOU):
            pages.append(transcript.html())
        transcript.show_edited(asked.id, {"table": "b"})
        return {"table": "b"}

    agent.tool_executor.approver = approve
    await agent.chat("Go")
    assert f'wipe(table="a") {FOR_YOU}' in summaries(pages[0])
    assert "edited" in transcript.html()
    assert "b is gone" in transcript.html()


async def test_a_child_that_fails():
    agent, transcript = asking(answering(RateLimitError("too many")))
    await agent.chat("Go")
    assert [each.partition("✗")[1:] for each in summaries(transcript.html())][1] == ("✗", " error")


async def test_a_child_that_is_interrupted():
    begun = asyncio.Event()

    async def turn(messages, functions):
        begun.set()
        await asyncio.Event().wait()

    agent, transcript = asking(Agent(ScriptedProvider(turn)))
    task = asyncio.create_task(agent.chat("Go"))
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    transcript.mark_interrupted()
    assert " open>" not in transcript.html()
    assert summaries(transcript.html())[1] == "research Interrupted."


async def test_a_tool_of_ones_own_that_asks_many_agents():
    async def research(question: str) -> str:
        """Ask many."""
        await asyncio.gather(*(answering("x").chat(f"Number {n}") for n in range(MAX_RUNS + 3)))
        return "asked"

    agent, transcript = asking(research)
    await agent.chat("Go")
    page = transcript.html()
    assert page.count("nbagent-child") - page.count(".nbagent-child") == MAX_RUNS
    assert "agent Number 0" in re.sub("<[^>]*>", "", page)
    assert "and 3 more: see agent.trace.tree()" in page
    assert "and 3 more" in transcript.plain()


async def test_what_a_child_says_is_never_raw_html():
    for text in (payload.text for payload in PAYLOADS[::7]):
        agent, transcript = asking(answering(call(text, query=text), text, tools=[search]))
        await agent.chat("Go")
        page = transcript.html().replace("<style>", "", 1)
        assert not re.search("<(script|img|iframe|svg|style>@import)", page), text


async def test_a_cell_updates_it_in_the_display_of_the_call():
    displays, child = Displays(), answering(call("search", query="mass"), "The emperor.", tools=[search])
    agent, _ = asking(child)
    view = CellView(Transcript(), displays)
    agent.observers.append(view.feed)
    await agent.chat("Go")
    view.close()
    assert len(displays.shown) == 2  # the call with its child, and the answer with the footer
    assert "search(query" in displays.shown[0]["text/html"]


async def test_a_terminal_lists_its_calls(capsys):
    inner = answering(call("search", query="deep"), "Deep.", tools=[search])
    middle = answering(call("ask", question="So?"), "Yes.", tools=[inner.as_tool("ask", "Asks.")])
    agent, _ = asking(middle)
    agent.observers.append(TerminalView(Transcript()).feed)
    await agent.chat("Go")
    assert capsys.readouterr().out.splitlines()[:3] == [
        '▸ research(question="Heaviest?")', '  ▸ ask(question="So?")', '    ▸ search(query="deep")',
    ]  # fmt: skip

"""Agents that call agents: `trace.tree()`, and the timeline."""

import re

import pytest
from support.hostile import PAYLOADS
from support.small_agent import call

from nbagent import Agent, LLMResponse, ScriptedProvider, Trace, Usage
from nbagent.errors import ConfigurationError

pytest.importorskip("matplotlib").use("agg")

USAGE = {"usage": Usage(90, 10)}


def search(query: str) -> str:
    """Search."""
    if query == "none":
        raise LookupError("nothing")
    return "3 pages"


def scripted(*turns):
    return ScriptedProvider([answer(turn) for turn in turns], price={"input": 100, "output": 100})


def answer(turn):
    return LLMResponse(turn, metadata=USAGE) if isinstance(turn, str) else LLMResponse("", turn, metadata=USAGE)


@pytest.fixture
async def agent():
    expert = Agent(scripted([call("search", query="none")], "30 kg"), tools=[search])
    calls = [call("search", "s1", query="mass"), call("ask_expert", "s2", question="How heavy?")]
    researcher = Agent(scripted(calls, "The emperor."), tools=[search, expert.as_tool("ask_expert", "Knows.")])
    agent = Agent(
        scripted([call("research", question="Heaviest?")], "The emperor is.", "Bye."),
        tools=[researcher.as_tool("research", "Finds facts.")],
    )
    await agent.chat("Which one?")
    await agent.chat("Thanks")
    return agent


def without_times(text):
    return re.sub(r" · [\d.]+ [mµ]?s$", "", str(text), flags=re.MULTILINE).splitlines()


async def test_a_tree_as_text_even_from_a_saved_trace(agent, tmp_path):
    lines = without_times(agent.trace.tree())
    assert [" ".join(line.split()) for line in lines] == [
        "Which one? ok · 6 requests · 600 tokens · $0.0600",
        '└─ research(question="Heaviest?") ✓ · 4 requests · 400 tokens · $0.0400',
        '├─ search(query="mass") ✓',
        '└─ ask_expert(question="How heavy?") ✓ · 2 requests · 200 tokens · $0.0200',
        '└─ search(query="none") LookupError',
        "Thanks ok · 1 request · 100 tokens · $0.0100",
    ]
    assert [len(line) - len(line.lstrip(" │")) for line in lines] == [0, 0, 3, 3, 6, 0]
    agent.trace.with_children().save(tmp_path / "t.sqlite")
    assert str(Trace.load(tmp_path / "t.sqlite").tree()) == str(agent.trace.tree())


async def test_one_run_and_the_runs_below_it(agent):
    first, second = agent.trace.runs["run_id"]
    assert len(without_times(agent.trace.tree(first))) == 5
    assert str(agent.trace.tree(second)).startswith("Thanks")
    with pytest.raises(ConfigurationError, match="run_id"):
        agent.trace.tree("run_x")


async def test_the_plot_of_a_tree(agent):
    ax = agent.trace.tree().plot()
    shown = [text.get_text() for text in ax.texts]
    assert shown[::2][:2] == ["Which one?", 'research(question="Heaviest?")']
    assert shown[1].startswith("ok · 6 requests")
    assert len(ax.lines) == 6 + 4  # dots, and lines to their parents
    assert Trace().tree().plot().texts[0].get_text() == "Nothing yet."


async def test_a_prompt_is_shown_as_text():
    agent = Agent(ScriptedProvider(lambda *_: "x"))
    for payload in PAYLOADS:
        await agent.chat(payload.text)
    assert set(re.findall(r"<(\w+)", agent.trace.tree()._repr_html_())) == {"div", "pre", "style"}


async def test_the_timeline_has_a_childs_steps_below_its_call(agent):
    names = [label.get_text() for label in agent.trace.timeline().get_yticklabels()]
    assert names[2:4] == ["› Heaviest?", '› search(query="mass")']
    assert names[5] == "› › How heavy?"

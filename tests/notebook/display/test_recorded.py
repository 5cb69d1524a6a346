"""Past turns in the panel, from the messages and the agent's trace."""

import html
import json
import re

import pytest
from support.small_tools import FakeCompleter

from nbagent import Agent, ContextManager, FunctionCall, LLMResponse, ScriptedProvider, Usage
from nbagent.chat.cell_link import cell_link
from nbagent.chat.entry import past_turn
from nbagent.chat.recorded import Recorded, kept_rows, rows_in, rows_to_keep
from nbagent.chat.transcript import Transcript
from nbagent.core.history.history import split_turns
from nbagent.errors import ServerError


def add(a: int) -> int:
    return a


def wipe() -> str:
    return "gone"


@pytest.fixture
async def agent():
    calls = [FunctionCall("add", {"a": "x"}, "c1"), FunctionCall("add", {"a": 2}, "c2"), FunctionCall("wipe", {}, "c3")]
    first = LLMResponse("", calls, "tool_calls", {"thinking": "Two.", "usage": Usage(1000, 20, 900)})
    agent = Agent(ScriptedProvider([first, "done", "fine"], model="m"), tools=[add])
    agent.function_registry.register("wipe", "Wipe.", wipe, approve=True)
    await agent.chat("first")
    await agent.chat("second")
    return agent


def as_kept(trace):
    return kept_rows([json.loads(json.dumps(rows_to_keep(trace)))])


@pytest.mark.parametrize("rows_of", [rows_in, as_kept])
async def test_thinking_outcomes_and_costs_come_from_what_was_recorded(agent, rows_of):
    turns, recorded = split_turns(agent.conversation_history), Recorded(rows_of(agent.trace))
    text = re.sub("<[^>]*>", " ", "\n".join(past_turn(turn, recorded).html() for turn in turns))
    assert text.index("Thought") < text.index("Two.") < text.index("add(a=2)")
    assert text.count("arguments invalid, sent back") == 1
    assert text.count("denied") >= 1
    assert re.search(r"✓\s+\d+ .s", text)
    assert "✗ error" not in text
    assert re.search(r"1,0\d\d in \(900 cached\)", text)


NO_TOOL = "no tool was used: this small model&#x27;s own knowledge is unreliable "
NO_TOOL += "(use the tool&#x27;s words, or a larger model)"


@pytest.mark.parametrize(("question", "origin"), [("Add 2.", "quoted from the tool"), ("Which is heaviest?", NO_TOOL)])
async def test_the_footer_says_where_a_small_model_s_answer_comes_from(question, origin):
    agent, live = Agent(FakeCompleter('{"a": 2}'), tools=[add]), Transcript(timings=False)
    agent.observers.append(live.feed)
    result = await agent.chat(question)
    views = live, past_turn(agent.conversation_history, Recorded(agent.trace)).transcript, agent.trace.transcript()
    for page in (*(view.html() for view in views), result._repr_mimebundle_()["text/html"]):
        assert page.count(f"<span>{origin}</span>") == 1
    for text in (*(view.plain() for view in views[:2]), str(views[2]), str(result)):
        assert text.endswith(f"{html.unescape(origin)}]")
    assert repr(result).endswith(f"{html.unescape(origin)}>")
    assert "[" not in result.content
    assert agent.trace.calls[["quoted", "no_tool"]].iloc[-1].tolist() == [origin != NO_TOOL, origin == NO_TOOL]


async def test_turns_are_shown_without_a_trace(agent):
    (first, _) = split_turns(agent.conversation_history)
    plain = past_turn(first, Recorded(kept_rows([]))).transcript.plain()
    assert plain.index("add(a=2)") < plain.index("done")
    assert "Two." not in plain


def test_a_prompt_s_cell_is_named_and_a_panel_is_not():
    run = {"source": "cell", "execution_count": 5, "cell_id": '"><script>alert(1)</script>'}
    asked_in = "&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"
    assert cell_link(run) == f'<small data-nbagent-asked-in="{asked_in}">cell [5]</small>'
    assert cell_link({"source": "panel", "execution_count": None, "cell_id": None}) == ""


async def test_subagents_steps_are_below_their_call_as_they_were_live():
    def asking(name, *turns, **options):
        return Agent(ScriptedProvider(turns, model="m"), **options).as_tool(name, "Ask.")

    ask = [FunctionCall("deep", {"question": "Why?"}, "d"), FunctionCall("fails", {"question": "How?"}, "f")]
    deep = asking("deep", FunctionCall("add", {"a": 2}, "c"), "Since **2**.", tools=[add])
    middle = asking("middle", ask, "Enough.", tools=[deep, asking("fails", RuntimeError("broken"))])
    agent = Agent(
        ScriptedProvider([FunctionCall("middle", {"question": "Go?"}, "m"), "Done."], model="m"), tools=[middle]
    )
    live = Transcript(timings=False)
    agent.observers.append(live.feed)
    await agent.chat("Go")
    (turn,) = split_turns(agent.conversation_history)
    past = past_turn(turn, Recorded(agent.trace, timings=False)).transcript
    assert past.plain() == live.plain()
    assert past.html() == live.html()
    assert past.html().count('<div class="nbagent-child">') == 3
    assert "<strong>2</strong>" in past.html()


async def test_a_run_s_notes_stay():
    def has_a_number(answer):
        if not any(map(str.isdigit, answer)):
            raise ValueError("Name <b>a number</b>.")

    turns = [FunctionCall("add", {"a": 2}, "c"), ServerError("It is down."), "One.", "Two.", "No.", "3."]
    providers = [ScriptedProvider(turns[:2], model="a"), ScriptedProvider(turns[2:], model="b")]
    context = ContextManager(max_messages=6)
    agent = Agent(providers, tools=[add], context=context, validators=[lambda answer: answer != "One."])
    live = []
    agent.observers.append(lambda event: live[-1].feed(event))
    live.append(Transcript(timings=False))
    await agent.chat("First")
    agent.validators = [has_a_number]
    live.append(Transcript(timings=False))
    await agent.chat("Second")
    turns = split_turns(agent.conversation_history)
    past = [past_turn(turn, Recorded(agent.trace, timings=False)).transcript for turn in turns]
    assert [each.plain() for each in past] == [each.plain() for each in live][-len(past) :]
    first, second = (each.plain().splitlines() for each in live)
    assert first[:-1] == [
        "▸ add(a=2)", "  2", "scripted:a: It is down. Continuing with scripted:b.", "One.",
        "Sent back: a check fails", "Two.",
    ]  # fmt: skip
    assert second[:-1] == ["trimmed 6 old messages", "No.", "Sent back: Name <b>a number</b>.", "3."]
    assert "&lt;b&gt;a number" in live[1].html()

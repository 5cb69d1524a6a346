"""The conversation of a trace as sanitised HTML and as plain text."""

import html
import re

import pytest

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Trace, Usage
from nbagent.errors import ConfigurationError

HOSTILE = [
    "<script>alert(1)</script>",
    "[x](javascript:alert(1))",
    "</pre></div><svg onload=alert(1)>",
    '"><iframe src=x>',
]


def mean(column: str) -> float:
    """A mean."""
    return {"mass": 4.2}[column]


def claude(*turns):
    provider = ScriptedProvider(turns, model="claude-sonnet-5")
    provider.provider_name = "claude"
    return provider


def seen(page: str) -> str:
    """The text that a reader sees."""
    return html.unescape(re.sub(r"<[^>]*>", " ", re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)))


@pytest.fixture
async def trace():
    facts = {"thinking": "Look it up.", "usage": Usage(1200, 86, 980)}
    calls = [FunctionCall("mean", {"column": "mass"}, "1"), FunctionCall("mean", {"column": "x"}, "2")]
    calls.append(FunctionCall("mean", {}, "3"))
    answer = LLMResponse("It is **4.2** kg.", None, "stop", {"usage": Usage(1300, 12)})
    agent = Agent(claude(LLMResponse("Let me see.", calls, None, facts), answer, ValueError("broken")), tools=[mean])
    agent.system_prompt = "Be brief."
    await agent.chat("How heavy?")
    with pytest.raises(ValueError, match="broken"):
        await agent.chat("And now?")
    return agent.trace


async def test_messages_are_in_order_and_results_follow_their_calls(trace):
    lines = str(trace.transcript()).splitlines()
    heads = [line for line in lines if not line.startswith(" ")]
    wanted = [
        "system: Be brief.", "user: How heavy?", "assistant (thinking): Look it up.", "assistant: Let me see.",
        '▸ mean(column="mass")  ✓', '▸ mean(column="x")  ✗ error', "▸ mean()  arguments invalid, sent back",
        "[claude-sonnet-5 · 1,200 in · 86 out · $", "assistant: It is **4.2** kg.",
        "[claude-sonnet-5 · 1,300 in · 12 out", "user: And now?", "Ended: error: ValueError: broken",
    ]  # fmt: skip
    assert len(heads) == len(wanted)
    assert [line for line, start in zip(heads, wanted, strict=True) if not line.startswith(start)] == []
    assert lines[lines.index(next(line for line in lines if "mass" in line)) + 1] == "  4.2"
    assert repr(trace.transcript()) == str(trace.transcript())


async def test_html_has_the_same_content(trace):
    page = trace.transcript()._repr_html_()
    text = seen(page)
    told = ["Be brief.", "How heavy?", "Look it up.", 'mean(column="mass")', "4.2", "error", "And now?", "broken"]
    places = [text.index(part) for part in told]
    assert places == sorted(places)
    assert "<strong>4.2</strong>" in page
    assert "1,200 in" in text


async def test_one_run_of_several(trace):
    first, second = trace.runs["run_id"]
    assert "And now?" not in str(trace.transcript(first))
    assert str(trace.transcript(second)).startswith("system: Be brief.\nuser: And now?")
    with pytest.raises(ConfigurationError, match="'x'"):
        trace.transcript("x")


async def test_labels_and_scores_appear_in_their_places(tmp_path):
    turns = [LLMResponse("", [FunctionCall("mean", {"column": "mass"}, "1")]), "4.2 kg.", "Hello."]
    agent = Agent(ScriptedProvider(turns, model="m"), tools=[mean])
    await agent.chat("How heavy?", tags=["exam", "<b>hard</b>"], user="u1", session="s1", metadata={"variant": 2})
    await agent.chat("Hi")
    trace = agent.trace
    run, call, tool = trace.runs["run_id"][0], trace.calls["call_id"][1], trace.tool_calls["tool_call_id"][0]
    trace.score(run, "good", 1, "Short & right.")
    trace.score(run, "exact", 0.5, by="exam.py")
    trace.score(call, "polite", 0.25)
    trace.score(tool, "needed", True)
    lines = str(trace.transcript()).splitlines()
    assert lines[0] == "[tags: exam, <b>hard</b> · user: u1 · session: s1 · metadata: variant=2]"
    assert lines[2].endswith(" · needed 1")
    assert [line.endswith(" · polite 0.25]") for line in lines if line.startswith("[m ·")] == [False, True, False]
    assert lines.index("Scores: good 1 (Short & right.), exact 0.5 by exam.py") == lines.index("user: Hi") - 1
    page = seen(trace.transcript().html())
    for part in (lines[0][1:-1], "good 1 (Short & right.)", "needed 1", "polite 0.25"):
        assert part in page
    trace.save(tmp_path / "t.sqlite")
    assert str(Trace.load(tmp_path / "t.sqlite").transcript()) == str(trace.transcript())


async def test_no_text_becomes_raw_html():
    text = "\n\n".join(HOSTILE)

    def echo(text: str) -> str:
        """Say it again."""
        return text

    calls = [FunctionCall(each, {"text": each, each: each}, f"u{i}") for i, each in enumerate(HOSTILE)]
    calls += [FunctionCall("echo", {"text": each}, f"e{i}") for i, each in enumerate(HOSTILE)]
    turns = [LLMResponse(text, calls, None, {"thinking": text}), text, RuntimeError(text)]
    agent = Agent(ScriptedProvider(turns, model=HOSTILE[1]), tools=[echo], system_prompt=text)
    await agent.chat(text)
    with pytest.raises(RuntimeError):
        await agent.chat(text)
    page = agent.trace.transcript()._repr_html_()
    own = page[: page.index("</style>")]
    rest = page[len(own) + len("</style>") :]
    tags = {tag.lower() for tag in re.findall(r"<\s*([a-zA-Z]+)", rest)}
    assert tags <= {"div", "span", "p", "a", "details", "summary", "code", "pre", "small"}
    assert not re.search(r"<[^>]*\b(on\w+|src|srcdoc)\s*=", rest)
    assert not re.search(r"href=.?(?!https?:)", rest.replace('href="http', ""))
    assert "alert(1)" in seen(page)  # it is shown as text


def test_an_empty_transcript_has_a_note():
    assert str(Trace().transcript()) == "Nothing was said yet."
    assert "Nothing was said yet." in Trace().transcript()._repr_html_()

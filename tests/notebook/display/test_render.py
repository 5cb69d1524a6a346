"""Nothing that a model or a tool writes becomes live HTML, and the cell shows what happened."""

import asyncio
import itertools
import random
import re

import pytest
from support.displays import Displays
from support.hostile import PAYLOADS
from support.shown import check_page, check_visible

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Usage
from nbagent.chat.transcript import MAX_DISPLAYS, Transcript
from nbagent.core import events
from nbagent.core.render.markdown import STYLE, format_call, markdown_to_html, shortened_with_note
from nbagent.notebook.display.view import CellView, TerminalView


def shown(provider, *tools, live=True, **options):
    """Run an agent once. Returns the transcript and the displays."""
    agent, displays = Agent(provider, tools=list(tools), **options), Displays()

    async def run():
        view = CellView(Transcript(timings=live), displays, live=live)
        async for event in agent.chat_stream("question"):
            view.feed(event)
        view.close()
        return view.transcript

    return asyncio.run(run()), displays


@pytest.mark.parametrize("place", range(4))
def test_hostile_text_is_harmless_everywhere(place):
    def echo(x: str) -> str:
        return x

    for text in (payload.text for payload in PAYLOADS[place::4]):
        thinking = {"thinking": text, "usage": Usage()}
        turns = [
            LLMResponse(text, [FunctionCall("echo", {"x": text}, "c")], None, thinking),
            LLMResponse("", [FunctionCall(text, {text: text}, "c2")], None, {}),
            text,
        ]
        _, displays = shown(ScriptedProvider(turns), echo)
        result = Agent(ScriptedProvider(turns), tools=[echo]).chat_sync("x")
        check_page(result._repr_mimebundle_()["text/html"], style=True)
        for _, bundle in displays.sent:
            check_page(re.sub(r' data-nbagent-run="\w+"', "", bundle["text/html"]), style=True)
            check_visible(bundle["text/plain"])
        assert displays.html.count("<style>") == 1


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("see https://example.org/a?b=1. (http://a.org/b_c*d)", ["https://example.org/a?b=1", "http://a.org/b_c*d"]),
        ("| a |\n|---|\n| https://example.org |", ["https://example.org"]),
        ("`https://example.org`", []),
        ("ftp://x.org //y.org www.x.org x.com a@b.org mailto:a@b.org javascript:alert(1)", []),
        ("[a](https://a.org) [b](/logout) [c](data.csv) <mailto:me@a.org>", ["https://a.org", "mailto:me@a.org"]),
    ],
)
def test_web_and_mail_addresses_are_links_and_nothing_else(text, addresses):
    found = re.findall(r'<a href="(.*?)" target="_blank" rel="noopener .*?">', markdown_to_html(text))
    assert found == addresses


def test_a_long_table_is_cut_with_a_note_and_the_rest_of_the_answer_stays():
    table = "|".join("abcdefghij") + "\n" + "-|" * 10 + "\n" + "**1**|" * 10
    answer = f"**All**:\n\n{table}" + "\n1|2" * 1_100 + f"\n\n{table}\n\n```python\nx = 1\n```"
    _, displays = shown(ScriptedProvider([answer]))
    assert "<strong>All</strong>" in displays.html
    assert '<span class="nbagent-number">1</span>' in displays.html
    assert displays.html.count("<tr>") == 1 + 200 + 2
    assert "… 901 more rows. The answer's text has all of them" in displays.html


def test_formulas_are_left_to_the_host():
    assert markdown_to_html(r"$\frac{1}{\alpha}$") == "<p>$\\frac{1}{\\alpha}$</p>\n"
    transcript = Transcript()
    transcript.feed(events.Text("no formula, 5 %"))
    assert '<div class="nbagent tex2jax_ignore mathjax_ignore">' in transcript.html()
    transcript.feed(events.Text("but $x^2$"))
    assert '<div class="nbagent">' in transcript.html()


def test_a_link_may_be_defined_after_it_is_used():
    transcript, _ = grown("See [there][1].\n\n" + "A paragraph.\n\n" * 200 + "[1]: https://example.org", [2_000])
    assert 'href="https://example.org"' in transcript.html()


def test_long_results_are_shortened_with_a_note():
    assert shortened_with_note("x" * 10) == "x" * 10
    assert "1,000 more characters" in shortened_with_note("x" * 3_000)
    assert len(format_call("f", {"b": "x" * 100})) < 80


def test_a_saved_answer_is_small():
    def table(part: int) -> dict:
        return {f"row {n}": {"mean": n / 7, "count": n, "names": "abcdefgh"} for n in range(40)}

    calls = [FunctionCall("table", {"part": n}, f"c{n}") for n in range(5)]
    turns = [LLMResponse("", calls, "tool_calls", {"thinking": "First all of the tables. " * 40}), LONG_ANSWER[:12_000]]
    _, displays = shown(ScriptedProvider(turns), table)
    assert displays.html.count("<details ") == 1 + 1 + 5, "thinking, and a group of five calls"
    assert sum(len(text.encode()) for bundle in displays.shown for text in bundle.values()) < 80_000
    assert not re.search("https?:|<script|<link|@import|url", displays.html)


def test_updates_are_few_and_the_last_one_is_complete():
    words = " ".join(f"word{n}" for n in range(2_000))
    _, displays = shown(ScriptedProvider([words]))
    assert len(displays.sent) < 200
    assert "word1999" in displays.text


def test_many_calls_share_the_last_display():
    transcript, displays = Transcript(), Displays()
    view = CellView(transcript, displays, live=True)
    for n in range(60):
        transcript.feed(events.TurnStarted())
        transcript.feed(events.ToolCall("", "count", {"n": n}, {"tool_call_id": f"c{n}"}))
    transcript.feed(events.Text("done"))
    transcript.feed(events.Done())
    view.close()
    assert len(displays.shown) == MAX_DISPLAYS
    assert displays.html.count("<details ") == 60
    assert displays.text == transcript.plain()


def test_thinking_streams_and_then_folds():
    transcript = Transcript()
    transcript.feed(events.Thinking("First all of it. " * 200 + "Then the end."))
    streaming = transcript.html()
    assert " open><summary>" in streaming
    assert "Then the end.</div></div></div></details>" in streaming
    assert len(streaming) < 2_000 + len(STYLE), "the end of it alone is sent with each piece"
    transcript.feed(events.ToolCallDelta())
    assert ">Thought<" in transcript.html(), "the model writes a call now"
    assert "writing a tool call…" in transcript.plain()
    transcript.feed(events.Text("So."))
    assert " open><summary>" not in transcript.html()
    assert transcript.html().count("First all of it.") == 200


def test_control_characters_do_not_reach_a_terminal(capsys):
    text = "\x1b]0;title\x07\x1b[2Jsafe\rrm -rf \x1b[8mhidden\x1b[0m\x08 \u202eabc"
    calls = [FunctionCall("no\x1b[2Jtool", {"a\x1b[1A": "b\x9b2J"}, "c")]

    async def run():
        view = TerminalView(Transcript(timings=False))
        async for event in Agent(ScriptedProvider([LLMResponse(text, calls), text])).chat_stream("question"):
            view.feed(event)
        view.close()

    asyncio.run(run())
    out = capsys.readouterr().out
    check_visible(out)
    assert "safe\nrm -rf hidden␈ ⟨U+202E⟩abc" in out


def test_the_cell_shows_that_the_conversation_is_being_summarised():
    transcript = Transcript()
    transcript.feed(events.Context("summarising 4 old messages", metadata={"begins": True}))
    assert transcript.plain() == "summarising 4 old messages…"
    transcript.feed(events.Context("summarised 4 old messages"))
    transcript.feed(events.TurnStarted(metadata={"model": "m"}))
    transcript.feed(events.Text("Three."))
    assert transcript.plain() == "summarised 4 old messages\nThree."


LONG_ANSWER = "".join(
    f"## Part {n}\n\nA **paragraph** of the answer, with `code` in it, which goes on for a while.\n\n"
    f"1. one\n\n2. two\n   - three\n\n| a | b |\n|---|--:|\n| {n} | $x_{n}$ |\n\n"
    f"```python\nx = {n}\n\ny = x\n```\n\n---\n\n$$\nx = a\n+ {n}\n$$\n\n"
    for n in range(100)
)


def grown(text, cuts):
    """The transcript of a text that arrived in pieces, and everything that was shown meanwhile."""
    transcript, shown = Transcript(timings=False), []
    for start, end in itertools.pairwise((0, *cuts, len(text))):
        transcript.feed(events.Text(text[start:end]))
        shown.append(transcript.bundles())
    transcript.feed(events.Done())
    return transcript, shown


def test_the_final_display_does_not_depend_on_how_the_answer_arrived():
    at_once, _ = grown(LONG_ANSWER, [])
    in_pieces, shown = grown(LONG_ANSWER, sorted(random.Random(0).sample(range(1, len(LONG_ANSWER)), 300)))
    assert in_pieces.bundles() == at_once.bundles()
    assert len(at_once.bundles()) > 15
    for before, after in itertools.pairwise(shown):
        assert after[: len(before) - 1] == before[:-1], "only the last display changes"

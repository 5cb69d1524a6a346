"""Nothing that a model or a tool writes becomes live HTML, and the cell shows what happened."""

import asyncio
import itertools
import random
import re
import time
from html.parser import HTMLParser

import pytest
from support.displays import Displays
from support.hostile import LONG, MATH, PAYLOADS

from nbagent import Agent, FunctionCall, Limits, LLMResponse, ScriptedProvider, Usage
from nbagent.core import events
from nbagent.core.render.markdown import MAX_ADDRESSES, format_call, markdown_to_html, shortened_with_note
from nbagent.notebook.display.transcript import MAX_DISPLAYS, Transcript
from nbagent.notebook.display.view import CHARS_PER_SECOND, OVERHEAD_CHARS, PLAIN_CHARS, CellView, TerminalView

LIVE = {
    "script", "style", "button", "input", "dialog", "video", "audio", "img", "svg", "iframe", "object", "embed", "link",
    "meta", "form", "base",
}  # fmt: skip


class Audit(HTMLParser):
    """Collects everything that could run code or load something."""

    def __init__(self):
        super().__init__()
        self.bad = []

    def handle_starttag(self, tag, attrs):
        links = dict(attrs) if tag == "a" else {}
        if links and (links["target"] != "_blank" or "noopener" not in links["rel"]):
            self.bad.append("opener")
        if tag in LIVE:
            self.bad.append(tag)
        for name, value in attrs:
            wrong_link = name in ("href", "src") and not re.match(r"(https?|mailto):", value or "")
            wrong_style = name == "style" and not re.fullmatch("text-align: ?[a-z]+", value)
            if name.startswith("on") or wrong_link or wrong_style:
                self.bad.append((name, value))


def audit(html):
    audit = Audit()
    audit.feed(html)
    return audit.bad


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


CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_hostile_text_is_harmless_everywhere():
    for payload in PAYLOADS:
        check_everywhere(payload.text)


def check_everywhere(text):
    def echo(x: str) -> str:
        return x

    response = LLMResponse(text, [FunctionCall("echo", {"x": text}, "c")], None, {"thinking": text, "usage": Usage()})
    nameless = LLMResponse("", [FunctionCall(text, {text: text}, "c2")], None, {})
    transcript, displays = shown(ScriptedProvider([response, nameless, text]), echo)
    result = Agent(ScriptedProvider([response, nameless, text]), tools=[echo]).chat_sync("x")
    page = result._repr_mimebundle_()["text/html"]
    assert audit(page.replace("<style>", "", 1)) == []
    assert not CONTROL.search(page)
    assert audit(markdown_to_html(text)) == []
    for _, bundle in displays.sent:
        assert audit(bundle["text/html"].replace("<style>", "", 1)) == []
        assert not CONTROL.search(bundle["text/html"] + bundle["text/plain"])
    assert displays.html.count("<style>") == transcript.html().count("<style>") == 1


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("see https://example.org/a?b=1.", "https://example.org/a?b=1"),
        ("(http://example.org/a_b*c)", "http://example.org/a_b*c"),
        ("| a |\n|---|\n| https://example.org |", "https://example.org"),
        ("**https://example.org**", "https://example.org"),
        ("`https://example.org`", None),
        ("ftp://x.org //y.org www.x.org x.com a@b.org mailto:a@b.org javascript:alert(1)", None),
        ("https://example.org " * (MAX_ADDRESSES + 1), None),
    ],
)
def test_bare_addresses_are_links(text, address):
    assert re.findall(r'<a href="(.*?)" target="_blank" rel="noopener .*?">\1</a>', markdown_to_html(text)) == (
        [address] if address else []
    )


@pytest.mark.parametrize("text", LONG, ids=lambda text: text[:6])
def test_text_that_is_slow_to_parse_is_shown_as_plain_text(text):
    begun = time.process_time()
    assert len(markdown_to_html(text)) < 5 * len(text)
    assert time.process_time() - begun < 5  # seconds; it takes much less


def test_formulas_make_no_links_and_no_definitions():
    wrong = "href|style|class|cssId|unicode|require|bbox|gdef|renewcommand|let|New|Declare|define|mathtoolsset"
    for text in MATH:
        html = markdown_to_html(text)
        assert all(address == shown for address, shown in re.findall(r'<a href="(.*?)".*?>(.*?)</a>', html))
        said = re.sub("<span>.</span>", "", html)  # the backslash alone: no formula is looked for across it
        assert not re.search(rf"\\({wrong})", said), text


def test_formulas_are_left_to_the_host():
    assert markdown_to_html(r"$\frac{1}{\alpha}$") == "<p>$\\frac{1}{\\alpha}$</p>\n"
    transcript = Transcript()
    transcript.feed(events.Text("no formula, 5 %"))
    assert '<div class="nbagent tex2jax_ignore mathjax_ignore">' in transcript.html()
    transcript.feed(events.Text("but $x^2$"))
    assert '<div class="nbagent">' in transcript.html()


def test_only_web_and_mail_links_are_kept():
    html = markdown_to_html("[a](https://example.org) [b](/logout) [c](data.csv) <mailto:me@example.org>")
    assert re.findall('href="(.*?)"', html) == ["https://example.org", "mailto:me@example.org"]
    assert "[b](/logout) [c](data.csv)" in html


def test_a_link_may_be_defined_after_it_is_used():
    transcript = Transcript(timings=False)
    transcript.feed(events.Text("See [there][1].\n\n" + "A paragraph.\n\n" * 200))
    transcript.parts()
    transcript.feed(events.Text("[1]: https://example.org"))
    transcript.feed(events.Done())
    assert 'href="https://example.org"' in transcript.html()


@pytest.mark.parametrize("formula", ["$$\nx = a\n+ b\n$$", "\\begin{align}\na &= b \\\\\n- c\n\\end{align}"])
def test_a_formula_of_several_lines_stays_whole_while_a_long_answer_grows(formula):
    said = "A paragraph.\n\n" * 120 + formula
    for shown in range(len(said) - len(formula), len(said)):
        transcript = Transcript(timings=False)
        transcript.feed(events.Text(said[:shown]))
        transcript.parts()
        transcript.feed(events.Text(said[shown:]))
        assert transcript.parts()[-1].endswith(markdown_to_html(formula))


def test_a_call_reads_as_one_would_type_it():
    assert format_call("f", {"a": 1, "b": "x" * 100}).startswith('f(a=1, b="xxx')
    assert len(format_call("f", {"b": "x" * 100})) < 80
    assert format_call("f", None) == "f()"


def test_long_results_are_shortened_with_a_note():
    assert shortened_with_note("x" * 10) == "x" * 10
    assert "1,000 more characters" in shortened_with_note("x" * 3_000)


def mean_by(column: str, group: str) -> dict:
    """Mean of a column by group."""
    return {"Adelie": 3700.7}


def answered():
    call = FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"}, "c1")
    thinking = {"thinking": "Let me see.", "usage": Usage(10, 5), "model": "m-1"}
    return ScriptedProvider([LLMResponse("", [call], "tool_calls", thinking), "**Adelie** weigh 3700.7 g."], model="m")


def test_what_a_cell_shows():
    transcript, displays = shown(answered(), mean_by)
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
    assert re.search(r"\[m · \d+ in · \d+ out · [\d.]+ m?s\]$", plain)
    assert displays.text == plain


ANSWER = """## How the groups differ

The **third group** is heaviest, by far, in each of the years that were looked at; the others hardly differ from one
another, as `frame.groupby("group")` shows. What remains to be seen is whether this holds for both islands.

```python
clean = frame.dropna(subset=["mass"])
clean.groupby("group")["mass"].agg(["mean", "count"]).round(1)
```

| group | mean mass | count |
|---|--:|--:|
| first | 3,700.7 | 151 |
| third | 5,076.0 | 123 |

"""


def test_a_saved_answer_is_small():
    rows = {f"row {n}": {"mean": n / 7, "count": n, "names": "abcdefgh"} for n in range(40)}

    def table(part: int) -> dict:
        return rows

    calls = [FunctionCall("table", {"part": n}, f"c{n}") for n in range(5)]
    text = (ANSWER * 40)[:12_000]  # 2,000 tokens
    turns = [LLMResponse("", calls, "tool_calls", {"thinking": "First all of the tables. " * 40}), text]
    transcript, displays = shown(ScriptedProvider(turns), table)
    size = sum(len(text.encode()) for bundle in displays.shown for text in bundle.values())
    print(f"12 kB of answer and 5 tool calls are saved in {size / 1000:.1f} kB")
    assert transcript.html().count("<details ") == 6
    assert size < 60_000
    assert not re.search("https?:|<script|<link|@import|url", displays.html)


def test_headless_there_is_one_display_and_no_time_in_it():
    _, displays = shown(answered(), mean_by, live=False)
    assert len(displays.sent) == 1
    assert not re.search(r"\d (ms|s)\b", displays.text + re.sub("<style>.*?</style>", "", displays.html, flags=re.S))


def test_updates_are_few_and_the_last_one_is_whole():
    words = " ".join(f"word{n}" for n in range(2_000))
    _, displays = shown(ScriptedProvider([words]))
    assert len(displays.sent) < 200
    assert "word1999" in displays.text


def test_complete_segments_are_not_sent_again():
    def slow(n: int) -> int:
        time.sleep(n / 10)
        return n

    thinking = {"thinking": "Both."}
    turn = LLMResponse("", [FunctionCall("slow", {"n": n}, f"c{n}") for n in (1, 3)], "tool_calls", thinking)
    _, displays = shown(ScriptedProvider([turn, "word " * 100], delay=0.003), slow)
    folded = displays.shown[:3]
    assert ["Thought" in folded[0]["text/html"], *("✓" in each["text/html"] for each in folded[1:])] == [True] * 3
    order = [index for index, _ in displays.sent]
    for index, bundle in enumerate(folded):
        assert index not in order[displays.sent.index((index, bundle)) + 1 :]
    assert order.count(3) > 2, "the answer streams"


def test_many_calls_share_the_last_display():
    calls = [FunctionCall("count", {"n": n}, f"c{n}") for n in range(60)]

    def count(n: int) -> int:
        return n

    transcript, displays = shown(ScriptedProvider([LLMResponse("", calls), "done"]), count)
    assert len(displays.shown) == MAX_DISPLAYS
    assert displays.html.count("<details ") == 60
    assert displays.text == transcript.plain()


def test_a_retry_removes_the_text_of_its_turn():
    transcript = Transcript()
    transcript.feed(events.TurnStarted(metadata={"model": "m"}))
    transcript.feed(events.Text("wrong half"))
    transcript.feed(events.Retry("trying again in 0.5 s"))
    assert "trying again in 0.5 s…" in transcript.html()
    transcript.feed(events.Text("right"))
    assert "wrong" not in transcript.html() + transcript.plain()
    assert "right" in transcript.plain()


def test_a_limit_and_an_invalid_call_are_shown():
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
    assert not CONTROL.search(out)
    assert "safe\nrm -rf hidden␈ ⟨U+202E⟩abc" in out


def test_the_cell_shows_that_the_conversation_is_being_summarised():
    transcript = Transcript()
    transcript.feed(events.Context("summarising 4 old messages", metadata={"begins": True}))
    assert transcript.plain() == "summarising 4 old messages…"
    transcript.feed(events.Context("summarised 4 old messages"))
    transcript.feed(events.TurnStarted(metadata={"model": "m"}))
    transcript.feed(events.Text("Three."))
    assert transcript.plain() == "summarised 4 old messages\nThree."
    assert "summarised 4 old messages</div>" in transcript.html()


LONG_ANSWER = "".join(
    f"## Part {n}\n\nA **paragraph** of the answer, with `code` in it, which goes on for a while.\n\n"
    f"1. one\n\n2. two\n   - three\n\n| a | b |\n|---|--:|\n| {n} | $x_{n}$ |\n\n"
    f"```python\nx = {n}\n\ny = x\n```\n\n---\n"
    for n in range(100)
)


def grown(text, cuts):
    """The transcript of a text that came in pieces, and all that was shown on the way."""
    transcript, shown = Transcript(timings=False), []
    for start, end in itertools.pairwise((0, *cuts, len(text))):
        transcript.feed(events.Text(text[start:end]))
        shown.append(transcript.bundles())
    transcript.feed(events.Done())
    return transcript, shown


@pytest.mark.parametrize("seed", range(2))
def test_what_is_shown_at_the_end_does_not_depend_on_how_the_answer_came(seed):
    at_once, _ = grown(LONG_ANSWER, [])
    cuts = sorted(random.Random(seed).sample(range(1, len(LONG_ANSWER)), 300))
    in_pieces, shown = grown(LONG_ANSWER, cuts)
    assert in_pieces.bundles() == at_once.bundles()
    assert len(at_once.bundles()) > 15
    for before, after in itertools.pairwise(shown):
        assert after[: len(before) - 1] == before[:-1], "only the last display changes"


def test_updates_of_a_long_answer_stay_small():
    cuts = range(50, len(LONG_ANSWER), 50)
    _, shown = grown(LONG_ANSWER[:20_000], [cut for cut in cuts if cut < 20_000])
    sent = [len(bundles[-1]["text/html"]) + PLAIN_CHARS + OVERHEAD_CHARS for bundles in shown]
    assert sorted(sent)[len(sent) * 9 // 10] / CHARS_PER_SECOND < 0.13  # seconds until the next update

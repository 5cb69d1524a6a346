"""Citations in cells and panels: numbered marks, and a list of sources that are safe to click."""

import re

from support.displays import Displays

from nbagent import Agent, ScriptedProvider
from nbagent.chat.entry import past_turn
from nbagent.chat.recorded import Recorded
from nbagent.chat.transcript import Transcript
from nbagent.core.messages import LLMResponse
from nbagent.notebook.display.view import CellView

CALL = {"name": "web_search", "arguments": {"query": "ruby"}, "id": "s1", "result": "Ruby\nhttps://a.org"}
TEXT = "Ruby **4.0.6** is stable. It is new.\n\n```ruby\nputs 1\n```\n"


def source(end, url="https://a.org/x?a=1&b=(2)", title="Ruby", cited="It is 4.0.6.", start=0):
    return {"start": start, "end": end, "url": url, "title": title, "cited_text": cited}


def asked(*citations, text=TEXT):
    about = {"citations": list(citations), "provider_calls": [{**CALL, "is_error": False}]}
    return Agent(ScriptedProvider(LLMResponse(text, None, "stop", about)), tools=["web_search"])


async def shown(agent):
    displays = Displays()
    view = CellView(Transcript(timings=False), displays)
    async for event in agent.chat_stream("Which?"):
        view.feed(event)
    view.close()
    return displays


async def test_citation_marks_follow_the_cited_text_and_lead_to_the_source():
    displays = await shown(asked(source(14), source(25, "https://b.org", "B"), source(36)))
    page = displays.html
    link = '<a href="https://a.org/x?a=1&amp;b=(2)" target="_blank" rel="noopener noreferrer nofollow">[1]</a>'
    assert f"<strong>4.0.6</strong>{link} is stable." in page
    assert re.search(r'stable\.<a href="https://b.org"[^>]*>\[2\]</a> It is new\.<a [^>]*>\[1\]</a>', page)
    assert page.index("web_search") < page.index("stable") < page.index('class="nbagent-sources')
    assert '[1] <a href="https://a.org/x?a=1&amp;b=(2)"' in page
    assert "a.org · “It is 4.0.6.”" in page
    lines = displays.text.splitlines()
    assert "Ruby **4.0.6**[1] is stable.[2] It is new.[1]" in lines
    assert lines.count("[1] Ruby https://a.org/x?a=1&b=(2)") == 1


async def test_only_web_addresses_become_links():
    for url in ("javascript:alert(1)", "data:text/html,x", "https://a.org\n", "//a.org", "http://[", 7):
        displays = await shown(asked(source(14, url)))
        assert "<a" not in displays.html
        assert "4.0.6</strong>[1] is" in displays.html
        assert "Ruby **4.0.6**[1] is" in displays.text


async def test_titles_and_quotations_are_escaped():
    evil = source(14, "https://a.org/>)<b>\"'`$|[x](y)", "<img src=x onerror=x()>\u202e", "<script>x()</script>")
    page = (await shown(asked(evil))).html
    assert "<img" not in page
    assert "<script" not in page
    assert "\u202e" not in page
    assert re.findall('<a href="([^"]*)"[^>]*>\\[1\\]', page) == ["https://a.org/%3E)%3Cb%3E%22%27%60%24%7C%5Bx%5D(y)"]


async def test_a_long_answer_keeps_its_marks_wherever_it_is_cut():
    text = "\n\n".join(f"Paragraph {number}. {'words ' * 40}" for number in range(30))
    ends = [text.index(f"Paragraph {number}.") + len(f"Paragraph {number}.") for number in range(30)]
    displays = await shown(asked(*(source(end, f"https://a.org/{end}") for end in ends), text=text))
    assert re.findall(r">\[(\d+)\]</a> words", displays.html) == [str(number) for number in range(1, 31)]
    assert len(re.findall(r"\.\[\d+\] words", displays.text)) == 30


async def test_past_turns_and_results_show_citations_too():
    agent = asked(source(14))
    result = await agent.chat("Which?")
    turn = [message for message in agent.conversation_history if message.role != "system"]
    for page in (past_turn(turn, Recorded(agent.trace)).html(), result._repr_mimebundle_()["text/html"]):
        assert "4.0.6</strong><a " in page
        assert "nbagent-sources" in page
    assert "[1] Ruby https://a.org" in past_turn(turn, Recorded(agent.trace)).text()

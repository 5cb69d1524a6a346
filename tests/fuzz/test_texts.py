"""Texts of models, tools and servers: cleaned, shown and read without a foreign error and without HTML."""

from contextlib import suppress

import html5lib
import pytest
from hypothesis import strategies as st
from support.fuzzing import fuzz
from support.shown import check_page, check_visible, texts, values

from nbagent.chat.transcript import Transcript
from nbagent.core import events
from nbagent.core.messages import parse_arguments
from nbagent.core.render import highlight
from nbagent.core.render.control_chars import show_control_chars
from nbagent.core.render.markdown import markdown_line_to_text, markdown_to_html, stable_ends
from nbagent.notebook.magics.answer_formats import parse_code, parse_frame
from nbagent.providers.prompting.json_tool_prompt import first_json_object

pytestmark = pytest.mark.fuzz


def test_markdown_is_a_safe_page():
    def check(text):
        page = markdown_to_html(text)
        check_page(page)
        ends = stable_ends(text)
        assert ends == sorted(set(ends) & set(range(1, len(text))))
        check_visible(show_control_chars(markdown_line_to_text(text)))

    fuzz(check, texts)


def test_highlighted_code_is_the_same_code():
    def check(given):
        code, language = given
        page = highlight.highlight_code(code, language)
        shown = html5lib.parseFragment(page, container="pre", namespaceHTMLElements=False)
        plain = code.replace("\r\n", "\n").replace("\r", "\n")
        assert "".join(shown.itertext()).strip("\n") == plain.strip("\n")
        assert all(each.tag in ("span", "DOCUMENT_FRAGMENT") for each in shown.iter())

    codes = texts.map(lambda text: show_control_chars(text.encode("utf-8", "replace").decode()))
    fuzz(check, st.tuples(codes, st.sampled_from(sorted(set(highlight.LANGUAGES.values())))))


def test_a_transcript_is_a_safe_page_and_a_readable_text():
    def check(given):
        answer, thinking, name, arguments, result, is_error = given
        transcript = Transcript(timings=False)
        transcript.feed(events.TurnStarted(metadata={"model": name}))
        transcript.feed(events.Thinking(thinking))
        transcript.feed(events.Text(answer))
        call = {"tool_call_id": "t1", "wire_id": "w1"}
        transcript.feed(events.ToolCall("", name, arguments, metadata=call))
        transcript.feed(events.ToolResult(result, name, metadata={**call, "is_error": is_error, "duration_s": 0.1}))
        for _ in range(2):
            check_page(transcript.html(), style=True)
            check_visible(transcript.plain())
            transcript.feed(events.Error(result, exception=ValueError(result), metadata={}))

    arguments = st.dictionaries(texts, values, max_size=2)
    fuzz(check, st.tuples(texts, texts, texts, arguments, texts, st.booleans()))


def read_answer(text):
    """As data, or as whatever a form or a small model's helper makes of it."""
    for parse in (parse_frame, parse_code):
        with suppress(ValueError):
            parse(text)
    first_json_object(text)
    parse_arguments(text)


def test_an_answer_is_read_or_refused():
    fuzz(read_answer, texts, ['{"a":' * 2_000, "[" * 2_000, "(" * 2_000, "[" + "9" * 5_000 + "]", "-" * 10_000 + "1"])

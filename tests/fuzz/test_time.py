"""Texts of any repeated pattern: what reads or cleans them takes time in proportion to their length."""

from contextlib import suppress

import pytest
from hypothesis import strategies as st
from support.doubling import grows_with_square, takes_seconds
from support.fuzzing import fuzz
from support.shown import PIECES

import nbagent
from nbagent import Agent, FunctionCall, ScriptedProvider, Trace
from nbagent.core.messages import parse_arguments
from nbagent.core.render.arguments import arguments_text
from nbagent.core.render.control_chars import show_control_chars
from nbagent.core.render.highlight import highlight_code
from nbagent.core.render.markdown import markdown_line_to_text, markdown_to_html, readable_name, stable_ends
from nbagent.notebook.magics.answer_formats import parse_code, parse_frame
from nbagent.providers.http.answer_mask import AnswerMask
from nbagent.providers.http.redaction import Redactor, mask_secret
from nbagent.providers.prompting.json_tool_prompt import first_json_object
from nbagent.providers.prompting.result_sentences import without_call
from nbagent.text import without_keys

pytestmark = pytest.mark.fuzz

SECRETS = ["sk-12345678", "%2525252x", "\\" * 8 + "x", "00000000", "u0030u0030"]
REDACTOR = Redactor("https://ann:pass%2Fword@api.example/?key=abc%2Fdef", {"cookie": "a=%2525%25;b=2"}, "sk-1234", "K")
FUNCTIONS = {
    **{f"mask {secret}": lambda text, secret=secret: mask_secret(text, secret) for secret in SECRETS},
    **{f"mask an answer {secret}": AnswerMask({secret: "KEY"}).text for secret in SECRETS},
    **{f"begin {secret}": AnswerMask({secret: "KEY"}).begun_at for secret in SECRETS},
    "redact a message": REDACTOR.message,
    "redact a header": lambda text: REDACTOR.headers({"x": text}),
    "Markdown": markdown_to_html,
    "stable Markdown": stable_ends,
    "a line of Markdown": markdown_line_to_text,
    "code": lambda text: highlight_code(text, "python"),
    "JSON": lambda text: highlight_code(text, "json"),
    "control characters": show_control_chars,
    "a name": readable_name,
    "a question": lambda text: arguments_text({"code": text}),
    "keys": without_keys,
    "arguments": parse_arguments,
    "the first object": first_json_object,
    "a call in an answer": without_call,
    "an answer as code": parse_code,
    "an answer as a table": parse_frame,
}


PARTS = st.sampled_from(PIECES)
REPEATED = st.tuples(
    st.sampled_from(list(FUNCTIONS)), PARTS, st.lists(PARTS, min_size=1, max_size=4).map("".join), PARTS
)


def reader(name):
    """The function of this name, which may refuse a text."""

    def read(text):
        with suppress(ValueError):
            FUNCTIONS[name](text)

    return read


def test_time_grows_with_the_length_only():
    def check(given):
        name, before, pattern, after = given
        slow = grows_with_square(lambda text: reader(name)(before + text + after), pattern)
        assert not slow, (name, slow)

    fuzz(check, REPEATED, count=10)


def test_no_100_kb_take_seconds():
    def check(given):
        name, before, pattern, after = given
        slow = takes_seconds(reader(name), pattern, before, after)
        assert not slow, (name, slow)

    fuzz(check, REPEATED, count=20)


def test_no_file_of_100_kb_takes_seconds(tmp_path):
    """To write and read: a conversation, a trace and a recording."""

    def keep(text):
        agent = Agent(ScriptedProvider([FunctionCall("f", {"a": text}), text]), tools=[f])
        (tmp_path / "recording.jsonl").unlink(missing_ok=True)
        with nbagent.record(tmp_path / "recording.jsonl"):
            agent.chat_sync(text)
        agent.save(tmp_path / "talk.json")
        assert Agent.load(tmp_path / "talk.json", "scripted").conversation_history[0].text == text
        for name in ("trace.jsonl", "trace.sqlite"):
            agent.trace.save(tmp_path / name)
            assert Trace.load(tmp_path / name).runs["prompt"][0] == text
        with nbagent.replay(tmp_path / "recording.jsonl"):
            assert Agent(ScriptedProvider([]), tools=[f]).chat_sync(text).content == text

    keep("what is loaded, is loaded now")
    assert not takes_seconds(keep, '[$x$\\n"')


def f(a: str) -> str:
    """Take a text."""
    return a

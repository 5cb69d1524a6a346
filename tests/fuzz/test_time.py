"""Texts of any repeated pattern: what reads or cleans them takes time in proportion to their length."""

from contextlib import suppress

import pytest
from hypothesis import strategies as st
from support.doubling import grows_with_square
from support.fuzzing import fuzz
from support.shown import PIECES

from nbagent.core.messages import parse_arguments
from nbagent.core.render.arguments import arguments_text
from nbagent.core.render.control_chars import show_control_chars
from nbagent.core.render.highlight import highlight_code
from nbagent.core.render.markdown import readable_name
from nbagent.providers.prompting.json_tool_prompt import first_json_object
from nbagent.text import without_keys

pytestmark = pytest.mark.fuzz

FUNCTIONS = {
    "code": lambda text: highlight_code(text, "python"),
    "JSON": lambda text: highlight_code(text, "json"),
    "control characters": show_control_chars,
    "a name": readable_name,
    "a question": lambda text: arguments_text({"code": text}),
    "keys": without_keys,
    "arguments": parse_arguments,
    "the first object": first_json_object,
}


def test_time_grows_with_the_length_only():
    def check(given):
        name, before, pattern, after = given

        def read(text):
            with suppress(ValueError):  # a text may be refused
                FUNCTIONS[name](before + text + after)

        slow = grows_with_square(read, pattern)
        assert not slow, (name, slow)

    parts = st.sampled_from(PIECES)
    patterns = st.lists(parts, min_size=1, max_size=4).map("".join)
    fuzz(check, st.tuples(st.sampled_from(list(FUNCTIONS)), parts, patterns, parts), count=10)

"""Requests to the embedded model: whatever they say, they are narrowed to a schema, soon."""

import json

import pytest
from hypothesis import strategies as st
from support.fuzzing import fuzz
from support.small_tools import TOOLS

from nbagent.providers.prompting.narrowing import choose_tool, narrow, quotations, signature

pytestmark = pytest.mark.fuzz

PARTS = [
    *("word", "weather", "median", "mean", "timer", "minutes", "find", "from", "to", "and", "or", "a", "called", "aB"),
    *("1", "05", "1,000", "-2.5", "1.", "9" * 5_000, "9" * 400 + ".5", "٣", "²", ".", ",", ", ", " ", "\n", "_", "?"),
    *('"', "'", "“", "”", "„", "‘", "’", "`", "«", "»", "« a »", "(", "[", "]", "&", "é", "\ud800", "\x00"),
]


def test_a_request_is_narrowed_to_a_schema():
    def check(request):
        choose_tool(request, TOOLS)
        assert all(text for text in quotations(request))
        for tool in TOOLS:
            schema = narrow(request, tool)
            json.dumps(schema, allow_nan=False)
            signature(tool, list(schema["properties"]))

    requests = st.lists(st.sampled_from(PARTS) | st.text(max_size=5), max_size=30).map("".join)
    fuzz(check, requests, ["median of " + "9" * 5_000, "timer of " + "9" * 400 + ".5", "« »"])

"""Property tests try the same examples each time, whatever other tests their process has run before; and `make fuzz`
tries first what failed the last time."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st
from support import fuzzing

SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import conftest
import {loaded}
from hypothesis import given, strategies as st

@given(st.text(max_size=8), st.integers())
def look(text, number):
    print(ascii(text), number)

look()
"""


def examples_after(loaded: str) -> str:
    """The examples of a test in a process that has loaded a module."""
    script = SCRIPT.format(folder=str(Path(__file__).parent), loaded=loaded)
    return subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout


def test_examples_do_not_depend_on_what_is_loaded():
    assert examples_after("json") == examples_after("nbagent.providers.formats.openai_chat")


def test_what_failed_is_tried_first_the_next_time(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzzing, "SECONDS", 0.001)
    monkeypatch.setattr(fuzzing, "KEPT", tmp_path)
    tried = []

    def check(number):
        tried.append(number)
        assert number < 1000

    for _ in range(2):
        tried.clear()
        with pytest.raises(AssertionError):
            fuzzing.fuzz(check, st.integers(0), count=500)
    assert tried[0] >= 1000

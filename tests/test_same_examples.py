"""Property tests try the same examples each time, whatever other tests their process has run before."""

import subprocess
import sys
from pathlib import Path

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

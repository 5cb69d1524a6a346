"""Recordings in a notebook, of cells and of Python code: a replay shows the same, byte for byte."""

import json
import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import v4
from support.kernels import PRELUDE, TIMEOUT, write_spec

pytestmark = pytest.mark.kernel

CELLS = [
    "%%agent -o answer\nTwice {number}?",
    "agent.trace.tool_calls",
    "agent.trace.calls[['provider', 'model', 'duration_s', 'ttft_s', 'cost_usd']]",
    "print(await agent.chat('And in words?'))",
    "print(agent.chat_sync('Really?'), answer)",
    "%%agent\nfail now",
    "agent.trace.thinking",
]
SETUP = """
from nbagent import Usage
@tool
def double(x: int) -> int:
    "Twice x."
    return 2 * x
number = 4
agent = Agent({provider}, tools=nbagent.live)
"""
SCRIPT = """ScriptedProvider([
    FunctionCall("double", {"x": 4}),
    LLMResponse("It is **8**.", None, "stop", {"usage": Usage(10, 5, 0, 0, 2), "thinking": "two fours"}),
    "Eight.", "Yes, really.", nbagent.errors.RateLimitError("slow down", vendor="v", status=429),
], model="m", delay=0.01)
"""


def executed(folder: Path, provider: str, tape: str) -> list[bytes]:
    """The saved outputs of each cell, after nbclient ran the notebook in a real kernel."""
    first = f"%load_ext nbagent\n{PRELUDE}\n{SETUP.replace('{provider}', provider)}\ntape = {tape}.start()"
    marked = [v4.new_code_cell(code, metadata={"tags": ["raises-exception"] * ("fail" in code)}) for code in CELLS]
    last = v4.new_code_cell("tape.stop()\nagent.trace.runs['replayed'].tolist()")
    notebook = v4.new_notebook(cells=[v4.new_code_cell(first), *marked, last])
    client = NotebookClient(notebook, kernel_name="tested", timeout=TIMEOUT)
    client.execute(env={**os.environ, "IPYTHONDIR": str(folder / "ipython"), "ANTHROPIC_API_KEY": ""})
    saved = json.loads(nbformat.writes(notebook))
    return [json.dumps(cell["outputs"]).encode() for cell in saved["cells"]]


def test_a_notebook_replayed_twice_shows_the_same_byte_for_byte(tmp_path, monkeypatch):
    write_spec(tmp_path)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    path = str(tmp_path / "run.jsonl")
    recorded = executed(tmp_path / "recorded", SCRIPT, f"nbagent.record({path!r})")
    replayed, again = (
        executed(tmp_path / name, "'claude:claude-sonnet-5'", f"nbagent.replay({path!r})") for name in ("one", "two")
    )
    assert replayed == again
    *shown, marks = replayed
    assert b"[True, True, True, True]" in marks
    assert b"[False, False, False, False]" in recorded[-1]
    assert [n for n, outputs in enumerate(shown) if b'"output_type": "error"' in outputs] == [6]
    same = [0, 1, 2, 4, 5, 6, 7]  # the times of calls are measured once more inside the agent
    assert [shown[n] for n in same] == [recorded[n] for n in same]
    assert b"It is <strong>8</strong>." in shown[1]

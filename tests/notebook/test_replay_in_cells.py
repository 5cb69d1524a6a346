"""Recordings in a notebook: cells and Python alike are recorded, and a replay shows the same, byte for byte."""

import pytest
from kernels import Kernel

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


def shown(kernel: Kernel, code: str) -> list:
    """All that a cell leaves in a saved notebook."""
    cell = kernel.run(code, allow_stdin=False)
    kinds = cell.of("display_data", "execute_result", "stream", "error")
    return [cell.status, [content.get("data") or content.get("text") or content.get("evalue") for content in kinds]]


def test_a_notebook_replayed_twice_shows_the_same(tmp_path):
    runs = []
    for number, provider in enumerate([SCRIPT, "'claude:claude-sonnet-5'", "'claude:claude-sonnet-5'"]):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Kernel(folder, env={"ANTHROPIC_API_KEY": ""}) as kernel:
            assert kernel.run(SETUP.replace("{provider}", provider)).status == "ok"
            path = tmp_path / "run.jsonl"
            first = "record" if number == 0 else "replay"
            assert kernel.run(f"tape = nbagent.{first}({str(path)!r}).start()").status == "ok"
            runs.append([shown(kernel, code) for code in CELLS])
            assert kernel.run("tape.stop()").status == "ok"
            assert kernel.run("print(agent.trace.runs['replayed'].tolist())").stdout == f"{[number > 0] * 4}\n"
    recorded, replayed, again = runs
    assert replayed == again
    assert [status for status, _ in recorded] == ["ok", "ok", "ok", "ok", "ok", "error", "ok"]
    same = [0, 1, 3, 4, 5, 6]  # the times of calls are measured once more inside the agent
    assert [replayed[n] for n in same] == [recorded[n] for n in same]
    assert "It is <strong>8</strong>." in str(recorded[0])

"""A plain Python process that has made a panel comes to its end."""

import subprocess
import sys

import pytest

START = """
from nbagent import Agent, ChatPanel, ScriptedProvider
agent = Agent(ScriptedProvider(["Good."] * 9, delay=0.001))
panel = ChatPanel(agent)
"""
ENDS = {
    "at once": "",
    "after an answer": "print(agent.chat_sync('hi'))",
    "without the panel": "del panel",
    "while it answers": "next(iter(agent.chat_stream('hi')))",
    "by exit": "raise SystemExit(0)",
    "with two panels": "other = ChatPanel(agent); more = ChatPanel(Agent(ScriptedProvider([])))",
    "from a handler at exit": "import atexit; atexit.register(ChatPanel, agent)",
    "in asyncio": "import asyncio; asyncio.run(agent.chat('hi'))",
}


@pytest.mark.parametrize("end", ENDS)
def test_it_ends(end):
    ended = subprocess.run([sys.executable, "-c", START + ENDS[end]], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")

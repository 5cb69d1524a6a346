"""A plain Python process that has created a panel ends."""

import subprocess
import sys

from support.kernels import TIMEOUT

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


#: Each end in a fork of its own, of a process that has imported everything and done nothing.
EACH = """
import os, sys
import nbagent.notebook.panel.panel
start, ends = eval(sys.argv[1])
for name, end in ends.items():
    if (process := os.fork()) == 0:
        exec(start + end, {})
        break
    print(name, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""


def test_it_ends():
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", EACH, repr((START, ENDS))]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT)
    said = [line for line in ended.stdout.splitlines() if line != "Good."]
    assert said == [f"{name} 0" for name in ENDS]

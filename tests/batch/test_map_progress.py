"""A map's progress bar in a real terminal: rows, equal ones included, dollars and errors. A pipe shows none."""

import subprocess
import sys

import pytest

CODE = """
import pandas as pd
from nbagent import Agent, ScriptedProvider
from nbagent.core import progress
progress.AFTER_S = 0
turns = ["fine", ValueError("no"), "fine"]
agent = Agent(ScriptedProvider(turns, price={"input": 1e6, "output": 1e6}))
print(agent.map_sync(pd.Series(["a", "b", "c", "a"]), concurrency=1)["status"].tolist())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="pexpect needs a terminal of Unix")
def test_the_bar_counts_rows_dollars_and_errors():
    pexpect = pytest.importorskip("pexpect")
    child = pexpect.spawn(sys.executable, ["-c", CODE], dimensions=(24, 120), timeout=300, encoding="utf-8")
    child.expect(pexpect.EOF)
    for part in ("map: 100%", "4/4 [", "$", "· 1 error", "['ok', 'error', 'ok', 'ok']"):
        assert part in child.before


def test_a_pipe_shows_no_bar():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("['ok', 'error', 'ok', 'ok']\n", "")

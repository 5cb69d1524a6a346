"""The benchmarks of the server run: they meet the goal for its memory, and answer every client."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.full


def run(name, *options):
    """What a benchmark printed."""
    command = [sys.executable, str(Path(__file__).with_name(name)), *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stderr == ""
    return done


def test_the_memory_of_the_server_stays_flat():
    done = run("server.py", "--requests", 50, "--soak", 5000, "--stores", "memory,sqlite")
    assert done.returncode == 0
    assert "memory  echo" in done.stdout
    assert "sqlite  5000 requests" in done.stdout
    assert ": met" in done.stdout


def test_streams_pass_through_each_server():
    told = run("server_peers.py", "--rounds", 1, "--requests", 16).stdout  # too few to say which one is quicker
    assert [line.split("  ")[1] for line in told.splitlines()[1:5]] == [
        "pydantic-ai, AGUIAdapter",
        "FastAPI and openai, by hand",
        "nbagent, memory",
        "nbagent, SQLite",
    ]

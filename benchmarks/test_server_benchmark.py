"""The benchmark of the server runs, and meets its goal in a small size."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.full
def test_the_memory_of_the_server_stays_flat():
    command = [sys.executable, str(Path(__file__).with_name("server.py")), "--requests", "50", "--soak", "1000"]
    done = subprocess.run([*command, "--stores", "memory,sqlite"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "memory  echo" in done.stdout
    assert "sqlite  1000 requests" in done.stdout
    assert ": met" in done.stdout

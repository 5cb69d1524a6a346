"""The benchmark of batches runs in a small size: answers are right, memory stays flat, each row ends."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.full
def test_every_row_ends_and_memory_stays_flat():
    command = [sys.executable, str(Path(__file__).with_name("batches.py")), "--rows", "200", "--memory-rows", "400"]
    done = subprocess.run([*command, "--scripts", "text-20", "--concurrency", "8"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "ratio" in done.stdout
    assert done.stdout.count(": met") == 3
    assert "200 rows: 200 right, 0 with an error" in done.stdout

"""Processes of Python, which are killed at the end of a block."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def process_of(*words: object) -> Iterator[subprocess.Popen[str]]:
    """Python with these arguments, and pipes; it is killed with the block."""
    command = [sys.executable, *map(str, words)]
    options = {"env": {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, "text": True}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options) as process:
        try:
            yield process
        finally:
            process.kill()

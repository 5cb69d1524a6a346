"""Processes of Python, which are killed at the end of a block, or in the middle of their work."""

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


def killed(code: str, path: object, times: int) -> Iterator[int]:
    """Run `code` on a path so many times, each time until it is killed; each time the last number that it printed.

    It prints 1, 2, 3 … as it gets on, and is killed in what comes after one of the first seven.
    """
    for number in range(times):
        with process_of("-c", code, path) as process:
            for _ in range(1 + number % 7):
                done = int(process.stdout.readline())
        yield done

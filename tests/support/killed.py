"""Processes that are killed in the middle of their work."""

import os
import subprocess
import sys
from collections.abc import Iterator


def killed(code: str, path: object, times: int) -> Iterator[int]:
    """Run `code` on a path so many times, each time until it is killed; each time the last number that it printed.

    It prints 1, 2, 3 … as it gets on, and is killed in what comes after one of the first seven.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, str(path)]
    for number in range(times):
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
            for _ in range(1 + number % 7):
                done = int(process.stdout.readline())
            process.kill()
        yield done

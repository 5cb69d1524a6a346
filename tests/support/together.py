"""Processes that begin their work at the same moment."""

import subprocess
import sys


def run_together(code: str, *commands: tuple[object, ...]) -> None:
    """Run `code` once for each tuple of arguments: it prints "ready", and waits for a line before it works."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    lines = [[sys.executable, "-c", code, *map(str, arguments)] for arguments in commands]
    started = [subprocess.Popen(line, **pipes) for line in lines]
    for process in started:
        assert process.stdout.readline() == "ready\n"
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in started:
        process.communicate()
        assert process.returncode == 0

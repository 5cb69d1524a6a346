"""Processes that begin their work at the same moment."""

from contextlib import ExitStack

from support.killed import process_of


def run_together(code: str, *commands: tuple[object, ...]) -> None:
    """Run `code` once for each tuple of arguments: it prints "ready", and waits for a line before it works."""
    with ExitStack() as stack:
        started = [stack.enter_context(process_of("-c", code, *arguments)) for arguments in commands]
        for process in started:
            assert process.stdout.readline() == "ready\n"
        for process in started:
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in started:
            process.communicate()
            assert process.returncode == 0

"""Runs `nbagent write`, `fix` and `verify` in a terminal: progress goes to stderr, and the outcome to stdout."""

from __future__ import annotations

import os
import re
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nbagent.agent.agent import Agent
from nbagent.core.background import call_on_main
from nbagent.core.budget import Budget
from nbagent.core.messages import FunctionCall
from nbagent.functions.registry import FunctionDefinition
from nbagent.notebook.analyst.verify import Verification, verify_notebook_sync
from nbagent.notebook.analyst.write import NotebookResult, Progress, fix_notebook_sync, write_notebook_sync

#: Seconds between two updates of the bar if nothing happens.
_TICK_S = 0.5
_GREEN, _RED, _FAINT, _PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[2m", "\x1b[0m"


def write(arguments: Namespace) -> int:
    """Run `nbagent write`. Returns the exit status."""
    budget = Budget(max_cost=arguments.budget)
    with _shown(budget) as tell:
        agent = _agent(arguments.model, budget)
        result = write_notebook_sync(
            arguments.file, arguments.task, agent, kernel=arguments.kernel, seconds=arguments.seconds, tell=tell
        )
    print(f"{result.answer}\n")
    return _ended(result)


def fix(arguments: Namespace) -> int:
    """Run `nbagent fix`. Returns the exit status."""
    budget = Budget(max_cost=arguments.budget)
    with _shown(budget) as tell:
        agent = _agent(arguments.model, budget)
        result = fix_notebook_sync(arguments.file, agent, kernel=arguments.kernel, seconds=arguments.seconds, tell=tell)
    if result.changes:
        print(_coloured(result.diff), end="\n\n")
    return _ended(result)


def verify(arguments: Namespace) -> int:
    """Run `nbagent verify`. Returns the exit status."""
    with _shown() as tell:
        verification = verify_notebook_sync(
            arguments.file,
            kernel=arguments.kernel,
            seconds=arguments.seconds,
            on_cell=lambda *at: tell(Progress("verifying in a fresh kernel", "", *at)),
        )
    return _verified(Path(arguments.file), verification)


def _agent(model: str | None, budget: Budget) -> Agent:
    return Agent(model, budget=budget, approve=_ask if sys.stdin is not None and sys.stdin.isatty() else None)


def _ended(result: NotebookResult) -> int:
    """Print the outcome. Returns the exit status."""
    counts = {
        "added": sum(change.before is None for change in result.changes),
        "edited": sum(None not in (change.before, change.after) for change in result.changes),
        "deleted": sum(change.after is None for change in result.changes),
    }
    told = [f"{number} cell{'s' * (number != 1)} {what}" for what, number in counts.items() if number]
    cost = "" if not result.runs else ", for an unknown price" if result.cost is None else f", for ${result.cost:.4f}"
    print(f"{result.path}: {', '.join(told) or 'no cell changed'}{cost}.")
    if result.unfinished:
        print(f"nbagent: {result.unfinished}", file=sys.stderr)
    return max(_verified(result.path, result.verification), not result.ok)


def _verified(path: Path, verification: Verification) -> int:
    if verification.ok:
        print(f"{path}: {verification}")
        return 0
    print(f"nbagent: {path} does not run again. {verification}", file=sys.stderr)
    return 1


@contextmanager
def _shown(budget: Budget | None = None) -> Iterator[Callable[[Progress], None]]:
    """Show a bar with time and cost, and each step as a line above it. Without a terminal, show only the lines."""
    from tqdm import tqdm

    bar: Any = tqdm(disable=None, leave=False, file=sys.stderr, bar_format="{desc}", delay=_TICK_S)
    last = Progress("")

    def tell(progress: Progress) -> None:
        nonlocal last
        if progress.line or (bar.disable and progress.doing != last.doing):
            bar.write(progress.line or progress.doing, file=sys.stderr)
        if not bar.disable:
            count = "{bar:20} {n_fmt}/{total_fmt} " if progress.total else ""
            cost = "" if budget is None else f" ${budget.spent:.4f}"
            limit = "" if budget is None or budget.max_cost is None else f" of ${budget.max_cost:.2f}"
            bar.bar_format = f"{{desc}}  {count}{_FAINT}{{elapsed}}{cost}{limit}{_PLAIN}"
            bar.total, bar.n = progress.total or None, progress.done
            bar.set_description_str(progress.doing, refresh=progress != last)
        last = progress

    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(_TICK_S):
            if last.doing:
                bar.refresh()

    ticking = threading.Thread(target=tick, daemon=True)
    ticking.start()
    try:
        yield tell
    finally:
        ended.set()
        ticking.join()
        bar.close()


async def _ask(call: FunctionCall, definition: FunctionDefinition) -> bool:
    """Ask on the terminal about a call that needs approval in every mode, such as a cell with `!pip`."""
    given = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    question = f"\nThe analyst wants to call {call.name}({given}). Allow? [y/N] "
    typed: str = await call_on_main(lambda: input(question))
    return typed.strip().lower() in ("y", "yes")


def _coloured(diff: str) -> str:
    """The diff in green and red, if stdout is a terminal."""
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return diff
    colours = {"+": _GREEN, "-": _RED, "@": _FAINT}
    return re.sub(r"^([+\-@]).*$", lambda line: f"{colours[line[1]]}{line[0]}{_PLAIN}", diff, flags=re.MULTILINE)

"""A map's progress bar, in notebooks and terminals: rate, time left, dollars and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from nbagent.batch.answer import Answer
from nbagent.core.progress import progress_bar

#: Seconds between two updates of the bar while no answers arrive.
TICK_S = 1.0


@contextmanager
def map_progress(
    total: int, done: int, shown: bool, watchers: Iterable[Callable[[str], None]]
) -> Iterator[tuple[Callable[[Answer, int], None], Callable[[str], None]]]:
    """Show the bar. Yields a function to call with each answer, and another that shows what the map is waiting for.

    The first function receives the answer and how many rows share it. `done` is how many rows already had answers. For
    `watchers`, see `progress_bar`.
    """
    dollars, errors = 0.0, 0
    with progress_bar(total, "map", "row", done=done, shown=shown, watchers=watchers) as bar:

        def add(answer: Answer, rows: int) -> None:
            nonlocal dollars, errors
            dollars += answer.cost or 0.0
            errors += answer.status == "error"
            bar.set_postfix_str(f"${dollars:.4f} · {errors} error{'' if errors == 1 else 's'}", refresh=False)
            if answer.status != "left":
                bar.update(rows)

        async def tick() -> None:
            """Show the time, and the answers since tqdm's last update."""
            while True:
                await asyncio.sleep(TICK_S)
                bar.refresh()

        ticking = asyncio.create_task(tick())
        try:
            yield add, lambda text: bar.set_description_str(f"map{text and ': '}{text}")
        finally:
            ticking.cancel()

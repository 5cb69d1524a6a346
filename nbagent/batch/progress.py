"""One progress bar for all rows of a map: rate, time left, dollars and errors, in a notebook and on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nbagent.batch.answer import Answer
from nbagent.core.progress import progress_bar


@contextmanager
def map_progress(
    total: int, done: int, shown: bool
) -> Iterator[tuple[Callable[[Answer], None], Callable[[str], None]]]:
    """The bar, as a function to call with each answer, and one that says in the bar what the map waits for.

    `done` of the rows had theirs before.
    """
    dollars, errors = 0.0, 0
    with progress_bar(total, "map", "row", done=done, shown=shown) as bar:

        def add(answer: Answer) -> None:
            nonlocal dollars, errors
            dollars += answer.cost or 0.0
            errors += answer.status == "error"
            bar.set_postfix_str(f"${dollars:.4f}, {errors} error{'' if errors == 1 else 's'}", refresh=False)
            if answer.status != "left":
                bar.update()

        yield add, lambda text: bar.set_description_str(f"map{text and ': '}{text}")

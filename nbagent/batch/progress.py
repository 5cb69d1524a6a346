"""One progress bar for all rows of a map: rate, time left, dollars and errors, in a notebook and on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from nbagent.batch.answer import Answer
from nbagent.core.cells import is_watched, running_shell

#: Says in the bar what the map waits for.
current_note: ContextVar[Callable[[str], object]] = ContextVar("nbagent_current_note", default=lambda text: None)

#: Seconds before the bar appears.
AFTER_S = 1.0


@contextmanager
def progress_bar(total: int, done: int, shown: bool) -> Iterator[Callable[[Answer], None]]:
    """The bar, as a function to call with each answer. `done` of the rows had theirs before.

    Logs and pipes, which can't overwrite a line, get none, nor do notebooks that nobody watches.
    """
    shell = running_shell()
    if not shown or not is_watched(shell):
        yield lambda answer: None
        return
    from tqdm.auto import tqdm

    dollars, errors = 0.0, 0
    is_disabled = None if getattr(shell, "kernel", None) is None else False  # None: unless it is a terminal
    with tqdm(total=total, initial=done, desc="map", unit="row", disable=is_disabled, delay=AFTER_S) as bar:

        def add(answer: Answer) -> None:
            nonlocal dollars, errors
            dollars += answer.cost or 0.0
            errors += answer.status == "error"
            bar.set_postfix_str(f"${dollars:.4f}, {errors} error{'' if errors == 1 else 's'}", refresh=False)
            if answer.status != "left":
                bar.update()

        before = current_note.set(lambda text: bar.set_description_str(f"map{text and ': '}{text}"))
        try:
            yield add
        finally:
            current_note.reset(before)

"""A progress bar: on a terminal, and in a notebook that somebody watches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nbagent.core.cells import is_watched, running_shell

#: Seconds before a bar appears.
AFTER_S = 1.0


@contextmanager
def progress_bar(
    total: int, text: str, unit: str, *, done: int = 0, shown: bool = True, leave: bool = True
) -> Iterator[Any]:
    """A bar of tqdm's for so many units, of which some may be done. With `leave`, it stays at the end. Bytes are shown
    as kB and MB.

    Logs and pipes, which can't overwrite a line, get none, nor do notebooks that nobody watches: then it does nothing.
    """
    from tqdm.auto import tqdm

    shell = running_shell()
    is_disabled = None if getattr(shell, "kernel", None) is None else False  # None: unless it is a terminal
    if not shown or not is_watched(shell):
        is_disabled = True
    looks: dict[str, Any] = {"desc": text, "unit": unit, "unit_scale": unit == "B", "leave": leave, "delay": AFTER_S}
    with tqdm(total=total, initial=done, disable=is_disabled, **looks) as bar:
        yield bar

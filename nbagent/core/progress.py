"""A progress bar on a terminal or in a watched notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from nbagent.core.cells import is_watched, running_shell

#: Seconds before a bar appears.
AFTER_S = 1.0


@contextmanager
def progress_bar(
    total: int,
    text: str,
    unit: str,
    *,
    done: int = 0,
    shown: bool = True,
    watchers: Iterable[Callable[[str], None]] = (),
) -> Iterator[Any]:
    """Show a tqdm bar for `total` units, of which `done` are already complete. Bytes (`unit="B"`) are shown as kB and
    MB.

    In a notebook, `watchers` receive each state of the bar (see `NotebookBar`). There is no bar in logs and pipes,
    which can't overwrite a line, or in notebooks that nobody is watching.
    """
    from tqdm import tqdm

    shell = running_shell()
    looks: dict[str, Any] = {"total": total, "desc": text, "unit": unit, "initial": done, "delay": AFTER_S}
    if not shown or not is_watched(shell):
        bar = tqdm(disable=True, **looks)
    elif getattr(shell, "kernel", None) is None:
        bar = tqdm(disable=None, unit_scale=unit == "B", **looks)  # None: disabled if it is not a terminal
    else:
        from nbagent.core.notebook_bar import NotebookBar

        bar = NotebookBar(shell.display_pub.publish, watchers, **looks)
    with bar:
        yield bar

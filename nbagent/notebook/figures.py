"""Plots that a tool draws appear where the tool ran, and parallel tools don't draw into each other's figures."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from IPython.display import display

if TYPE_CHECKING:
    from nbagent.functions.registry import FunctionDefinition

#: pyplot keeps one current figure for the whole process.
_pyplot_lock = threading.Lock()
_PLOTTING = {"plt", "pyplot", "plot", "hist"}


@contextmanager
def shown(definition: FunctionDefinition) -> Iterator[None]:
    """Around a tool's call: its new figures are displayed in the cell and closed. Tools that don't plot pay nothing."""
    code = getattr(inspect.unwrap(definition.func), "__code__", None)
    if code is None or not _PLOTTING.intersection(code.co_names):
        yield
        return
    with _pyplot_lock:
        before = set(_figure_numbers())
        try:
            yield
        finally:
            _show(number for number in _figure_numbers() if number not in before)


def _show(numbers: Iterable[int]) -> None:
    for number in numbers:
        import matplotlib.pyplot as plt

        figure = plt.figure(number)
        display(figure)
        plt.close(figure)


def _figure_numbers() -> list[int]:
    pyplot = sys.modules.get("matplotlib.pyplot")
    return list(pyplot.get_fignums()) if pyplot else []

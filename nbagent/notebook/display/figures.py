"""Plots that a tool draws appear where the tool ran, in the cell or the panel, and not at the end of the cell."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from IPython.display import display

from nbagent.functions.schema.introspection import underlying

if TYPE_CHECKING:
    from nbagent.functions.registry import FunctionDefinition

#: Shows a figure in the runs of this context.
show_figure: ContextVar[Callable[[Any], Any]] = ContextVar("nbagent_show_figure", default=display)

_PLOTTING = {"plt", "pyplot", "plot", "hist"}


def plots(definition: FunctionDefinition) -> bool:
    """Whether the function seems to use pyplot, which keeps one current figure for all threads: it must run alone."""
    code = getattr(underlying(definition.func), "__code__", None)
    return code is not None and not _PLOTTING.isdisjoint(code.co_names)


@contextmanager
def shown(definition: FunctionDefinition) -> Iterator[None]:
    """Around a tool's call: its new figures are displayed in the cell and closed. Tools that don't plot pay nothing."""
    if not plots(definition):
        yield
        return
    before = set(_figure_numbers())
    try:
        yield
    finally:
        _show(number for number in _figure_numbers() if number not in before)


def _show(numbers: Iterable[int]) -> None:
    for number in numbers:
        import matplotlib.pyplot as plt

        figure = plt.figure(number)
        show_figure.get()(figure)
        plt.close(figure)


def _figure_numbers() -> list[int]:
    pyplot = sys.modules.get("matplotlib.pyplot")
    return list(pyplot.get_fignums()) if pyplot else []

"""Shows the plots that a tool draws where the tool ran, in the cell or the panel, not at the end of the cell."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from IPython.display import display

from nbagent.functions.registry import FunctionDefinition
from nbagent.functions.schema.introspection import underlying

#: Shows a figure in the runs of this context.
show_figure: ContextVar[Callable[[Any], Any]] = ContextVar("nbagent_show_figure", default=display)

_PLOTTING = {"plt", "pyplot", "plot", "hist"}


def uses_pyplot(definition: FunctionDefinition) -> bool:
    """Whether the function seems to use pyplot, whose current figure all threads share: such tools run exclusively."""
    code = getattr(underlying(definition.func), "__code__", None)
    return code is not None and not _PLOTTING.isdisjoint(code.co_names)


@contextmanager
def showing_figures(definition: FunctionDefinition) -> Iterator[None]:
    """A call context for tools: shows and closes the new figures of a tool that plots."""
    if not uses_pyplot(definition):
        yield
        return
    before = set(_figure_numbers())
    try:
        yield
    finally:
        for number in _figure_numbers():
            if number not in before:
                import matplotlib.pyplot as plt

                figure = plt.figure(number)
                show_figure.get()(figure)
                plt.close(figure)


def _figure_numbers() -> list[int]:
    pyplot = sys.modules.get("matplotlib.pyplot")
    return list(pyplot.get_fignums()) if pyplot else []

"""Shows a tool's plots as soon as the tool ends, with its call, instead of at the end of the cell."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from IPython.core.getipython import get_ipython
from IPython.display import display

from nbagent.agent.agent import Agent
from nbagent.core.content.images import image_part
from nbagent.functions.registry import FunctionDefinition
from nbagent.functions.schema.introspection import underlying

if TYPE_CHECKING:  # loaded with the first widget
    from ipywidgets import Widget

_PLOTTING = {"plt", "pyplot", "plot", "hist"}


def uses_pyplot(definition: FunctionDefinition) -> bool:
    """Whether the function seems to use pyplot. If so, it runs alone, because threads share pyplot's current figure."""
    code = getattr(underlying(definition.func), "__code__", None)
    return code is not None and not _PLOTTING.isdisjoint(code.co_names)


def show_figures_of(agent: Agent) -> None:
    """When one of the agent's tools ends, show the plots it drew, unless the agent has its own call context."""
    executor = agent.tool_executor
    if executor.call_context is None:
        executor.call_context, executor.runs_exclusively = _showing_figures, uses_pyplot


def listen_quietly(widget: Widget) -> None:
    """Keep messages to this widget from showing and closing the figures that a tool is drawing.

    By default, IPython handles each message to a widget like the end of a cell, where it shows and closes all figures.
    """
    widget.comm.handle_msg = widget._handle_msg


@contextmanager
def _showing_figures(definition: FunctionDefinition) -> Iterator[None]:
    """A call context for tools: show and close the new figures of a tool that plots."""
    if not uses_pyplot(definition):
        yield
        return
    with showing_new_figures():
        yield


@contextmanager
def showing_new_figures() -> Iterator[None]:
    """Show and close the figures that are drawn in this block."""
    before = set(_figure_numbers())
    try:
        yield
    finally:
        for number in _figure_numbers():
            if number not in before:
                import matplotlib.pyplot as plt

                figure = plt.figure(number)
                with _without_warnings_of_glyphs():
                    _fit_fonts(figure)
                    _show(figure)
                plt.close(figure)


@contextmanager
def _without_warnings_of_glyphs() -> Iterator[None]:
    """Suppress warnings about characters that no font has: they are visible. Texts with formulas warn in the log."""
    log = logging.getLogger("matplotlib.mathtext")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from")
            yield
    finally:
        log.setLevel(level)


def _fit_fonts(figure: Any) -> None:
    """Draw all texts in fonts with their characters."""
    from matplotlib.text import Text

    from nbagent.trace.views.fonts import fit_fonts

    with suppress(Exception):  # undrawable text raises when it is shown
        figure.draw_without_rendering()  # creates the axis labels
        fit_fonts(figure.findobj(Text))


def _show(figure: Any) -> None:
    """Display the figure, as an image if IPython does not know how to draw it."""
    shell = get_ipython()
    if shell is None or type(figure) in shell.display_formatter.formatters["image/png"]:
        display(figure)
        return
    part = image_part(figure)
    display({"text/plain": repr(figure), part["media_type"]: part["data"]}, raw=True)


def _figure_numbers() -> list[int]:
    pyplot = sys.modules.get("matplotlib.pyplot")
    return list(pyplot.get_fignums()) if pyplot else []

"""Loads and unloads the IPython extension: the magics, their completion, and hooks around each cell."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.display import display

from nbagent.agent.agent import Agent, offer_accessor
from nbagent.core.background import background_loop, note_main_loop
from nbagent.core.cells import cell_id_of, is_watched, watch_cells
from nbagent.core.current import current, set_current
from nbagent.errors import ConfigurationError
from nbagent.functions.approval import set_default_approver
from nbagent.functions.live import live
from nbagent.notebook.display.approval import NotebookApprover
from nbagent.notebook.display.captured import watch_output
from nbagent.notebook.host import note_cell
from nbagent.notebook.magics import completion
from nbagent.notebook.magics.agent_magic import AgentMagics
from nbagent.notebook.magics.cell_errors import last_error
from nbagent.notebook.magics.serve import stop_serving
from nbagent.providers.catalog import first_with_key
from nbagent.skills import trust
from nbagent.trace.trace import Trace

_TYPED_CELL = re.compile(r"^get_ipython\(\)\.run_cell_magic\('agent'")
_TYPED_LINE = re.compile(r"""^get_ipython\(\)\.run_line_magic\('agent', ['"](?:fix *['"]|mcp +prompt )""")


def load(shell: Any) -> None:
    """Register everything with a shell, and create the variable `agent` if that name is free. This function can be
    called repeatedly.
    """
    unload(shell)
    watch_cells()
    magics = AgentMagics(shell)
    shell.register_magics(magics)
    shell.input_transformers_post.append(_async_cell_transformer(shell))
    shell.events.register("pre_run_cell", _on_cell_start)
    shell.events.register("post_run_cell", _on_cell_end)
    shell.Completer.custom_matchers.append(completion.matcher(shell, AgentMagics.agent.parser))
    shell.user_ns.setdefault("agent", Agent(tools=live))
    if "google.colab" in sys.modules:  # Colab gives keys only on the main thread: read them now, for the panel
        with suppress(ConfigurationError):  # a broken .env is reported when a key is needed
            first_with_key()
    set_default_approver(NotebookApprover(lambda: is_watched(shell)))
    trust.set_asker(trust.input_asker(lambda: is_watched(shell)))
    Trace.explorer = _explore
    note_cell(shell)
    magics.outputs.watch()
    watch_output(shell)
    if getattr(shell, "kernel", None) is not None and is_watched(shell):
        background_loop().call_soon_threadsafe(_begin_pages)


def unload(shell: Any) -> None:
    """Unregister everything that `load` registered. Agents and tools stay."""
    set_default_approver(None)
    trust.set_asker(None)
    stop_serving()
    Trace.explorer = None
    if (magics := shell.magics_manager.registry.get(AgentMagics.__name__)) is not None:
        magics.outputs.unwatch()
    for hooks in (shell.input_transformers_post, shell.Completer.custom_matchers):
        hooks[:] = [hook for hook in hooks if not str(getattr(hook, "__module__", "")).startswith("nbagent.")]
    for name, callback in (("pre_run_cell", _on_cell_start), ("post_run_cell", _on_cell_end)):
        if callback in shell.events.callbacks[name]:
            shell.events.unregister(name, callback)
    for kind, name in (("cell", "agent"), ("cell", "agent_async"), ("line", "agent"), ("line", "agent_async")):
        shell.magics_manager.magics[kind].pop(name, None)


def _async_cell_transformer(shell: Any) -> Any:
    """An input transformer that turns a typed `%%agent` cell or prompt line into an async cell, if the shell awaits."""

    def transform(lines: list[str]) -> list[str]:
        asks = bool(lines) and _TYPED_CELL.match(lines[0]) and not lines[0].rstrip().endswith(", '')")  # no question
        typed = asks or (len(lines) == 1 and _TYPED_LINE.match(lines[0]))
        if typed and current.get().cell_depth == 0 and shell.autoawait and getattr(shell, "kernel", None) is not None:
            lines = ["await " + lines[0].replace("'agent'", "'agent_async'", 1), *lines[1:]]
        return lines

    return transform


def _on_cell_start(info: Any) -> None:
    set_current(cell_depth=current.get().cell_depth + 1)
    if getattr(get_ipython(), "kernel", None) is not None:  # in a terminal, each cell has its own loop
        note_main_loop()
    note_cell(get_ipython(), info.raw_cell)


def _on_cell_end(result: Any) -> None:
    set_current(cell_depth=max(0, current.get().cell_depth - 1))
    offer_accessor()  # this cell may have imported pandas
    live.names()  # live tools notice definitions and deletions of this cell
    shell = get_ipython()
    if last_error.note(result, cell_id_of(shell)) and last_error.offers_fix and is_watched(shell):
        display(last_error.hint(), raw=True)
        if getattr(shell, "kernel", None) is not None:
            background_loop().call_soon_threadsafe(_offer_fix)


def _offer_fix() -> None:
    """Add the button below the failed cell. Loading widgets does not delay the error, which is already shown."""
    from nbagent.notebook.display.answer_buttons import answer_buttons

    answer_buttons().failed = {failure.id: cell_id for cell_id, failure in list(last_error.of_cells.items())}


def _begin_pages() -> None:
    """Mark agents' changes in the page, including changes from an earlier kernel."""
    from nbagent.notebook.document.live import notebook_pages  # loads widgets

    notebook_pages()


def _explore(trace: Trace) -> Any:
    from nbagent.notebook.explorer import TraceExplorer  # loads ipywidgets, which few cells need

    return TraceExplorer(trace)

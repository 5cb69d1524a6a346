"""The notebook's side of the agent: the `%%agent` magic and what it shows. IPython is imported only here."""

from __future__ import annotations

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext nbagent` runs: registers the magics and binds `agent`, if that name is free."""
    from nbagent.notebook.magics.agent_magic import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """What `%unload_ext nbagent` runs."""
    from nbagent.notebook.magics.agent_magic import unload

    unload(shell)

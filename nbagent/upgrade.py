"""Notices that another version of nbagent was installed while this one runs: modules of both don't fit together."""

from __future__ import annotations

import os


def _installed() -> str:
    """The version on disk, from its source: the metadata of an editable install may be older. Raises `OSError`."""
    with open(os.path.join(os.path.dirname(__file__), "__init__.py"), encoding="utf-8") as source:
        return next(line.split('"')[1] for line in source if line.startswith("__version__ = "))


_loaded = _installed()


def upgrade_advice() -> str:
    """What to do if another version was installed since nbagent was imported, else nothing."""
    try:
        installed = _installed()
    except (OSError, StopIteration):  # uninstalled, or half written
        return ""
    if installed == _loaded:
        return ""
    return f"nbagent {installed} was installed while {_loaded} was running. Restart the kernel to use it."

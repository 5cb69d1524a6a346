"""Notices that another version of nbagent was installed while this one runs: their modules don't fit together."""

from __future__ import annotations

import os

#: Our name on the package index, where `nbagent` is somebody else's.
DISTRIBUTION = "jupyter-nbagent"


def _installed() -> str:
    """The version on disk, from the source: the metadata of an editable install may be old. Empty if unreadable."""
    try:
        with open(os.path.join(os.path.dirname(__file__), "__init__.py"), encoding="utf-8") as source:
            return next((line.split('"')[1] for line in source if line.startswith("__version__ = ")), "")
    except OSError:  # uninstalled, or in a zip file
        return ""


#: The version that runs.
VERSION = _installed()


def upgrade_advice() -> str:
    """Advice if another version was installed since nbagent was imported, else ""."""
    installed = _installed()
    if not installed or installed == VERSION:
        return ""
    return f"nbagent {installed} was installed while {VERSION} was running. Restart the kernel to use it."

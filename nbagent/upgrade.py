"""Detects whether another version of nbagent was installed while this version was running.

Modules of different versions can't be used together.
"""

from __future__ import annotations

import os

#: The project's name on PyPI, where `nbagent` is a different project.
DISTRIBUTION = "jupyter-nbagent"


def _installed() -> str:
    """Return the version on disk, or "", from the source: an editable install's metadata may be old."""
    try:
        with open(os.path.join(os.path.dirname(__file__), "__init__.py"), encoding="utf-8") as source:
            return next((line.split('"')[1] for line in source if line.startswith("__version__ = ")), "")
    except OSError:  # uninstalled, or inside a zip file
        return ""


#: The running version.
VERSION = _installed()


def upgrade_advice() -> str:
    """Return advice if another version was installed after nbagent was imported, else ""."""
    installed = _installed()
    if not installed or installed == VERSION:
        return ""
    return f"nbagent {installed} was installed while {VERSION} was running. Restart the kernel to use it."

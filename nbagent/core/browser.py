"""Support for Python in a browser (Pyodide, as in JupyterLite).

A browser has one thread with one event loop, which is always running, and no other processes. Tools run on that loop.
httpx2 sends requests with `fetch`, as the page does. Features that need threads or processes raise an error when used.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from nbagent.errors import ConfigurationError

T = TypeVar("T")

IN_BROWSER = sys.platform == "emscripten"


def check_possible(what: str, missing: str, instead: str) -> None:
    """Raise `ConfigurationError` in a browser, for a feature that can't work there.

    >>> check_possible("The embedded model", "another process", "Use a recording.")
    """
    if IN_BROWSER:
        raise ConfigurationError(f"{what} needs {missing}, which Python in a browser does not have. {instead}")


def start_early(function: Callable[..., object], *args: Any, name: str) -> None:
    """Start slow work early, in a daemon thread. In a browser, do nothing, so the work is done when it is needed."""
    if not IN_BROWSER:
        threading.Thread(target=function, args=args, name=name, daemon=True).start()


def wait_in_browser(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and block until it is done. Raises `RuntimeError` in a browser that can't do that."""
    try:
        from pyodide.ffi import can_run_sync, run_sync

        possible = can_run_sync()
    except ImportError:
        possible = False
    if not possible:
        coroutine.close()
        raise RuntimeError("this browser can't wait in blocking code: write `await`, as in `await agent.chat(...)`")
    result: T = run_sync(coroutine)
    return result

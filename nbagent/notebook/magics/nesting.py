"""`%agent nest on`: blocking calls of asyncio inside a running event loop, on the old kernels that can take it.

`asyncio.run()` and `loop.run_until_complete()` refuse to run in a cell, where the kernel's loop runs already. The
package nest-asyncio lets them. It changes asyncio for the whole process: ipykernel 7, which runs all cells in one
context, then loses queued cells and clicks. There, and in a terminal, `await` does what is wanted.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from IPython.core.error import UsageError

#: The first version of ipykernel that loses cells under nest-asyncio.
FIRST_WITHOUT = 7

_INSTEAD = "Write `await` in the cell; tools may call asyncio.run() as they are, unless they have main_thread=True."

#: What was there before nest-asyncio put its own in its place: owner, name, value. Empty while it is off.
_before: list[tuple[Any, str, Any]] = []
_MISSING = object()


def nest_on(shell: Any) -> None:
    """Let blocking calls of asyncio run inside the kernel's running loop.

    Raises UsageError, with the reason, where that would do harm or no good.
    """
    if (why_not := _refusal(shell)) is not None:
        raise UsageError(f"%agent nest on: {why_not} {_INSTEAD}")
    if _before or hasattr(asyncio, "_nest_patched"):
        return
    import nest_asyncio

    owners = _owners()
    kept = [dict(vars(owner)) for owner in owners]
    nest_asyncio.apply()
    for owner, old in zip(owners, kept, strict=True):
        changed = [name for name, value in vars(owner).items() if old.get(name, _MISSING) is not value]
        _before.extend((owner, name, old.get(name, _MISSING)) for name in changed)


def nest_off() -> None:
    """Put asyncio back as it was. Raises UsageError where somebody else had changed it."""
    if not _before and hasattr(asyncio, "_nest_patched"):
        raise UsageError("%agent nest off: other code applied nest-asyncio; restart the kernel to be rid of it.")
    for owner, name, value in _before:
        if value is not _MISSING:
            setattr(owner, name, value)
        else:
            with suppress(AttributeError):
                delattr(owner, name)
    _before.clear()


def is_nested() -> bool:
    """Whether nest-asyncio is at work."""
    return hasattr(asyncio, "_nest_patched")


def _refusal(shell: Any) -> str | None:
    """Why not here; None where it can be done."""
    if getattr(shell, "kernel", None) is None:
        return "nest-asyncio is of use in a notebook only."
    installed = version("ipykernel")
    if int(installed.partition(".")[0]) >= FIRST_WITHOUT:
        return f"ipykernel {installed} loses queued cells and clicks under nest-asyncio."
    if not isinstance(loop := asyncio.get_running_loop(), asyncio.BaseEventLoop):
        return f"nest-asyncio can't change a loop of type {type(loop).__module__}.{type(loop).__name__}."
    return None


def _owners() -> list[Any]:
    """The modules and classes that nest-asyncio changes."""
    loop, policy = asyncio.get_running_loop(), asyncio.get_event_loop_policy()
    tornado = [sys.modules["tornado.concurrent"]] if "tornado.concurrent" in sys.modules else []
    return [asyncio, asyncio.tasks, asyncio.futures, asyncio.events, type(policy), type(loop), *tornado]

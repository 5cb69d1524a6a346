"""`%agent nest on`: blocking calls of asyncio inside a running event loop, on old kernels that support it.

`asyncio.run()` and `loop.run_until_complete()` refuse to run in a cell, since the kernel's loop is running already. The
package nest-asyncio allows it by changing asyncio for the whole process. ipykernel 7, which runs all cells in one
context, then loses queued cells and clicks. There, and in a terminal, use `await` instead.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from IPython.core.error import UsageError

#: The first version of ipykernel that loses cells under nest-asyncio.
FIRST_UNSUPPORTED = 7

_INSTEAD = "Write `await` in the cell; tools may call asyncio.run() unless they have main_thread=True."
_MISSING = object()

#: What nest-asyncio replaced: owner, name, original value. Empty while it is off.
_originals: list[tuple[Any, str, Any]] = []


def nest_on(shell: Any) -> None:
    """Allow blocking calls of asyncio inside the kernel's running loop.

    Raises UsageError with the reason if that would do harm or would not help.
    """
    if getattr(shell, "kernel", None) is None:
        raise _refused("nest-asyncio only helps in a notebook.")
    installed = version("ipykernel")
    if int(installed.partition(".")[0]) >= FIRST_UNSUPPORTED:
        raise _refused(f"ipykernel {installed} loses queued cells and clicks under nest-asyncio.")
    loop, policy = asyncio.get_running_loop(), asyncio.get_event_loop_policy()
    if not isinstance(loop, asyncio.BaseEventLoop):
        kind = f"{type(loop).__module__}.{type(loop).__name__}"
        raise _refused(f"nest-asyncio can't change a loop of type {kind}.")
    if is_nested():
        return
    import nest_asyncio

    tornado = [sys.modules["tornado.concurrent"]] if "tornado.concurrent" in sys.modules else []
    changed = [asyncio, asyncio.tasks, asyncio.futures, asyncio.events, type(policy), type(loop), *tornado]
    before = [dict(vars(owner)) for owner in changed]
    nest_asyncio.apply()
    for owner, old in zip(changed, before, strict=True):
        names = [name for name, value in vars(owner).items() if old.get(name, _MISSING) is not value]
        _originals.extend((owner, name, old.get(name, _MISSING)) for name in names)


def nest_off() -> None:
    """Restore asyncio. Raises UsageError if other code had applied nest-asyncio."""
    if not _originals and is_nested():
        raise UsageError("%agent nest off: other code applied nest-asyncio; restart the kernel to remove it.")
    for owner, name, value in _originals:
        if value is not _MISSING:
            setattr(owner, name, value)
        else:
            with suppress(AttributeError):
                delattr(owner, name)
    _originals.clear()


def is_nested() -> bool:
    """Whether nest-asyncio is applied."""
    return hasattr(asyncio, "_nest_patched")


def _refused(reason: str) -> UsageError:
    return UsageError(f"%agent nest on: {reason} {_INSTEAD}")

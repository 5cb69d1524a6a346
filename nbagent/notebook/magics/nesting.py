"""`%agent nest on`: allows blocking asyncio calls inside a running event loop, on old kernels.

`asyncio.run()` and `loop.run_until_complete()` refuse to run in a cell, because the kernel's loop is already running.
The package nest-asyncio allows such calls by changing asyncio for the whole process. Under this change, ipykernel 7,
which runs all cells in one context, loses queued cells and clicks. With ipykernel 7, and in a terminal, use `await`
instead.
"""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any

from IPython.core.error import UsageError

#: The first version of ipykernel that loses cells under nest-asyncio.
FIRST_UNSUPPORTED = 7

_INSTEAD = "Write `await` in the cell; tools may call asyncio.run() unless they have main_thread=True."


def nest_on(shell: Any) -> None:
    """Allow blocking asyncio calls inside the kernel's running loop.

    Raises UsageError with the reason if nest-asyncio would do harm or would not help.
    """
    if getattr(shell, "kernel", None) is None:
        raise _refused("nest-asyncio only helps in a notebook.")
    installed = version("ipykernel")
    if int(installed.partition(".")[0]) >= FIRST_UNSUPPORTED:
        raise _refused(f"ipykernel {installed} loses queued cells and clicks under nest-asyncio.")
    import nest_asyncio

    try:
        nest_asyncio.apply()
    except ValueError as error:  # a loop that is not asyncio's own
        raise _refused(f"{error}.") from None


def is_nested() -> bool:
    """Whether nest-asyncio is applied."""
    return hasattr(asyncio, "_nest_patched")


def _refused(reason: str) -> UsageError:
    return UsageError(f"%agent nest on: {reason} {_INSTEAD}")

"""Tools for property tests: they answer, fail, take too long, wait for approval, draw, or interrupt the program."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from nbagent.functions.registry import FunctionRegistry

PNG = {
    "type": "image",
    "media_type": "image/png",
    "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==",
}


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


async def wait() -> str:
    """Wait a moment."""
    await asyncio.sleep(0.002)
    return "done"


def fail() -> None:
    """Fail."""
    raise ValueError("it is broken")


async def hang() -> None:
    """Take too long."""
    await asyncio.sleep(60)


def block() -> None:
    """Take too long, in a thread."""
    time.sleep(0.05)


def draw() -> list[dict[str, Any]]:
    """Draw a picture."""
    return [{"type": "text", "text": "A picture:"}, PNG]


def stop() -> None:
    """Raise what the stop button raises while a tool runs on the main thread."""
    raise KeyboardInterrupt


def registry(forget: Callable[[], None]) -> FunctionRegistry:
    """A registry of all of them; the tool `clear` calls `forget`, which changes the conversation."""

    def clear() -> str:
        """Clear the conversation."""
        forget()
        return "cleared"

    tools = FunctionRegistry()
    for function in (add, wait, fail, draw):
        tools.register(function.__name__, "", function)
    tools.register("ask_first", "Add two numbers, if allowed.", add, approve=True)
    tools.register("exclusive", "Add two numbers, while no other tool runs.", add, parallel=False)
    tools.register("hang", "", hang, timeout=0.002)
    tools.register("block", "", block, timeout=0.002)
    tools.register("stop", "", stop, main_thread=True)
    tools.register("clear", "", clear)
    return tools

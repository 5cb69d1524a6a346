"""Tools that do all that tools do: answer, fail, last too long, wait for a yes, draw, stop the program."""

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
    """Last too long."""
    await asyncio.sleep(60)


def block() -> None:
    """Last too long, in a thread."""
    time.sleep(0.05)


def draw() -> list[dict[str, Any]]:
    """Draw a picture."""
    return [{"type": "text", "text": "A picture:"}, PNG]


def stop() -> None:
    """What the stop button does while a tool runs on the main thread."""
    raise KeyboardInterrupt


def registry(forget: Callable[[], None]) -> FunctionRegistry:
    """All of them; `forget` is a tool that changes the conversation it is called in."""

    def clear() -> str:
        """Clear the conversation."""
        forget()
        return "cleared"

    tools = FunctionRegistry()
    for function in (add, wait, fail, draw):
        tools.register(function.__name__, "", function)
    tools.register("ask_first", "Add two numbers, if allowed.", add, approve=True)
    tools.register("alone", "Add two numbers, beside no other.", add, parallel=False)
    tools.register("hang", "", hang, timeout=0.002)
    tools.register("block", "", block, timeout=0.002)
    tools.register("stop", "", stop, main_thread=True)
    tools.register("clear", "", clear)
    return tools

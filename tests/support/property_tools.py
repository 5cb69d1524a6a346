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
    return a + b


async def wait() -> str:
    await asyncio.sleep(0.002)
    return "done"


async def hang() -> None:
    await asyncio.sleep(60)


def fail() -> None:
    raise ValueError("it is broken")


def draw() -> list[dict[str, Any]]:
    return [{"type": "text", "text": "A picture:"}, PNG]


def stop() -> None:
    """What the stop button raises while a tool runs on the main thread."""
    raise KeyboardInterrupt


def registry(forget: Callable[[], None]) -> FunctionRegistry:
    """A registry of all of them; the tool `clear` calls `forget`, which changes the conversation."""
    tools = FunctionRegistry()
    for function in (add, wait, fail, draw):
        tools.register(function.__name__, "", function)
    tools.register("ask_first", "", add, approve=True)
    tools.register("exclusive", "", add, parallel=False)
    tools.register("hang", "", hang, timeout=0.002)
    tools.register("block", "", lambda: time.sleep(0.05), timeout=0.002)
    tools.register("stop", "", stop, main_thread=True)
    tools.register("clear", "", lambda: forget() or "cleared")
    return tools

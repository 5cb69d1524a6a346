"""Serves an agent over stdin and stdout, for `nbagent acp`. Both belong to the protocol: what else is printed goes to
stderr, also by libraries and by processes that tools start.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from itertools import chain
from typing import Any, cast

import acp

from nbagent.acp.agent import ACPAgent
from nbagent.agent.agent import Agent
from nbagent.core.background import run_sync
from nbagent.errors import ConfigurationError

log = logging.getLogger("nbagent")


def serve_stdio(make: Callable[[], Agent]) -> None:
    """Serve the agent that `make` returns until the client closes stdin."""
    sys.stdout.flush()
    incoming, outgoing = _taken(0), _taken(1)
    with redirect_stdout(sys.stderr):
        served = ACPAgent(make())

        async def serve() -> None:
            try:
                # the type has all methods of the protocol; the SDK refuses calls of those that ours leaves out
                await acp.run_agent(cast("acp.Agent", served), Lines(incoming, outgoing))
            finally:
                await served.aclose()

        run_sync(serve())


def _taken(number: int) -> int:
    """A standard stream for the protocol alone: everybody else reads nothing, and writes to stderr."""
    try:
        taken = os.dup(number)
    except OSError:
        raise ConfigurationError("`nbagent acp` needs stdin and stdout: an editor starts it with both.") from None
    other = os.open(os.devnull, os.O_RDONLY) if number == 0 else os.dup(2)
    os.dup2(other, number)
    os.close(other)
    return taken


class Lines:
    """A transport of the SDK: one JSON object on each line. The SDK's own needs `sys.stdin` and `sys.stdout`."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._outgoing = os.fdopen(outgoing, "wb")
        self._sending = asyncio.Lock()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        reading = (incoming, asyncio.get_running_loop())
        threading.Thread(target=self._read, args=reading, name="acp stdin", daemon=True).start()

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end."""
        while line := await self._lines.get():
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if isinstance(message, dict):
                return message
            log.warning("the client sent a line that is no JSON object")
        return None

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message. Raises ConnectionError if the client has gone."""
        line = json.dumps(message, ensure_ascii=True).encode() + b"\n"
        async with self._sending:
            await asyncio.to_thread(self._write, line)

    async def close(self) -> None:
        """Nothing is sent any more."""

    def _write(self, line: bytes) -> None:
        self._outgoing.write(line)
        self._outgoing.flush()

    def _read(self, incoming: int, loop: asyncio.AbstractEventLoop) -> None:
        """Hand over the lines, and b"" at the end. A thread of its own: waiting for input can't be interrupted."""
        with suppress(RuntimeError), os.fdopen(incoming, "rb") as lines:  # RuntimeError: the loop has ended
            for line in chain(lines, [b""]):
                loop.call_soon_threadsafe(self._lines.put_nowait, line)

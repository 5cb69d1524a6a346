"""Serves an agent over stdin and stdout, for `nbagent acp`.

Both streams are reserved for the protocol. All other output goes to stderr, including output from libraries and tool
processes.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import cast

import acp

from nbagent.acp.agent import ACPAgent
from nbagent.agent.agent import Agent
from nbagent.core.background import run_sync
from nbagent.errors import ConfigurationError
from nbagent.server.conversations.opening import default_store, open_store


def serve_stdio(make: Callable[[], Agent], store: str | None = None, models: Sequence[str] = ()) -> None:
    """Create an agent with `make`, and serve it until the client closes stdin.

    `store` is an address for `open_store`; the default is a file in the user's folder for application data. `models`
    lists the models that clients may choose.
    """
    sys.stdout.flush()
    incoming, outgoing = _reserved(0), _reserved(1)

    async def serve(agent: Agent) -> None:
        conversations = open_store(store or default_store())
        await conversations.open()
        served = ACPAgent(agent, conversations, models)
        try:
            # the type has all methods of the protocol; the SDK rejects calls of methods that ours lacks
            await acp.run_agent(cast("acp.Agent", served), *await _streams(incoming, outgoing))
        finally:
            await served.aclose()
            await conversations.aclose()

    with redirect_stdout(sys.stderr):
        run_sync(serve(make()))


def _reserved(number: int) -> int:
    """Reserve a standard stream for the protocol. All other code then reads nothing and writes to stderr."""
    try:
        reserved = os.dup(number)
    except OSError:
        raise ConfigurationError(
            "`nbagent acp` needs stdin and stdout. Start it from an editor, which provides both."
        ) from None
    other = os.open(os.devnull, os.O_RDONLY) if number == 0 else os.dup(2)
    os.dup2(other, number)
    os.close(other)
    return reserved


async def _streams(incoming: int, outgoing: int) -> tuple[asyncio.StreamWriter, asyncio.StreamReader]:
    """The two streams for the SDK, whose own function would use `sys.stdin` and `sys.stdout`."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(incoming, "rb"))
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(outgoing, "wb")
    )
    return asyncio.StreamWriter(transport, protocol, None, loop), reader

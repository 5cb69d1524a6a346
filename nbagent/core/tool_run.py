"""Runs a single tool call that comes from a client of this process instead of a model.

The run has the usual events, so the trace records it like any other run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import monotonic
from typing import Any

from nbagent.core import events
from nbagent.core.events import Event
from nbagent.core.history.history import ContextManager
from nbagent.core.messages import FunctionCall
from nbagent.core.queue import QueueEntry, RunQueue
from nbagent.core.render.markdown import format_call
from nbagent.core.run import Run, Tools
from nbagent.core.turn import Turn
from nbagent.text import shortened

#: A placeholder for what only a run with a model needs.
_NO_MODEL: Any = None


async def run_tool(call: FunctionCall, tools: Tools, **of_run: Any) -> AsyncGenerator[Event]:
    """Yield the events of the run, from `run_started` to `done`. The run waits for no other run, and belongs to no
    conversation.

    If the tool fails, the run's status is "error". If the caller stops iterating, the call is interrupted.
    """
    run = Run(
        entry=QueueEntry(RunQueue()),
        provider=_NO_MODEL,
        tools=tools,
        history=ContextManager(),
        price=_NO_MODEL,
        summarise=_NO_MODEL,
        **of_run,
    )
    await run.entry.enter()
    run.spent.started = monotonic()
    try:
        yield run.emit(run.started(format_call(call.name, call.arguments)))
        with Turn(run) as turn:
            yield turn.take_call(call)
            async with aclosing(turn.run_tools()) as steps:
                async for event in steps:
                    if isinstance(event, events.ToolResult):
                        run.result.content = event.content
                        if event.metadata["is_error"] and run.result.status == "ok":
                            run.result.status, run.result.status_reason = "error", shortened(event.content, 200)
                    yield event
        last = run.emit(events.Done(run.result.content, result=run.result), _end(run))
    except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit):
        run.result.status, run.result.status_reason = "interrupted", "The call was interrupted."
        run.emit(events.Interrupted(messages=run.closing_messages), _end(run))
        raise
    finally:
        run.spent.over = True
        run.entry.leave()
    yield last


def _end(run: Run) -> dict[str, Any]:
    return {"run_id": run.run_id, "duration_s": monotonic() - run.spent.started}

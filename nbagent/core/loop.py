"""The agent loop: ask the model, run the tools it called, until it answers or a limit ends the run.

It is written once, as an async generator of events. The cell magic, the panel, the HTTP API, plain Python and the
blocking calls all consume these events; none has a loop of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from time import monotonic
from typing import Any

from nbagent.core import events
from nbagent.core.events import Event
from nbagent.core.messages import LLMMessage
from nbagent.core.run import Run, Ticket, inside
from nbagent.core.turn import Turn
from nbagent.errors import AgentBusyError


async def run_loop(run: Run, message: Any) -> AsyncGenerator[Event]:
    """One run, from the message to the last event: `done`, or `error` where the vendor failed.

    Runs of one agent follow each other. A run that is cancelled, or whose events nobody reads any more, leaves a valid
    history and a trace that says `interrupted`.
    """
    await _take_place(run.ticket)
    run.spent.started = monotonic()  # its time does not run while another run has the turn
    try:
        yield run.emit(_started(run, run.context.add_input(message)))
        while (over := run.spent.over()) is None:
            with Turn(run) as turn:
                for step in (turn.ask, turn.act):
                    async with aclosing(run.in_time(step())) as turn_events:
                        async for event in turn_events:
                            while run.unread:
                                yield run.unread.pop(0)
                            yield event
            if turn.response is not None and not turn.calls:
                break
        if over:
            run.result.status, run.result.limit_reason = "limit", over[0]
            yield run.emit(events.Limit(over[1], metadata={"limit_reason": over[0]}))
        last = run.emit(events.Done(run.result.content, result=run.result, messages=run.closing), _settle(run))
    except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit):
        run.result.status = "interrupted"
        run.emit(events.Interrupted(run.result.content, messages=run.closing), _settle(run))
        raise
    except Exception as error:  # noqa: BLE001  nothing is lost: the last event has it, `chat` raises it
        run.result.status = "error"
        error.__dict__["partial"] = run.result  # also on exceptions that are not our own
        last = run.emit(events.Error(str(error), exception=error, messages=run.closing), _settle(run))
    finally:
        run.ticket.alive = False
        run.ticket.queue.leave()
    for event in (*run.unread, last):
        yield event


async def _take_place(ticket: Ticket) -> None:
    """Wait until the agent's earlier runs are over, unless they wait for this one."""
    queue = ticket.queue
    ahead: list[Ticket] = queue.ahead
    if any(outer.alive and outer.queue is queue for outer in inside.get()) or any(run.is_read_here for run in ahead):
        raise AgentBusyError(
            "this agent is in the middle of a run that waits for this call, which would wait for that run. Finish or "
            "close its stream first; inside a tool or a handler, ask another agent (agent.fork() makes one)"
        )
    if any(run.is_held_up for run in ahead):
        raise AgentBusyError(
            "an earlier question to this agent can't go on, since this blocking call holds up the event loop that it "
            "was asked on. Use `await agent.chat(...)` here, or await the earlier question first"
        )
    await queue.enter(ticket)
    ticket.alive = True


def _started(run: Run, prompt: Sequence[LLMMessage]) -> Event:
    history, context = run.context.messages, run.context
    system = [message for message in history[:1] if message.role == "system"]
    before = history[len(system) : len(history) - len(prompt)]
    context.branch = context.branch or run.run_id
    facts = {
        **run.origin,
        "run_id": run.run_id,
        "parent_run_id": run.parent.run_id if run.parent else None,
        "branch": context.branch,
    }
    return events.RunStarted(
        prompt[-1].text if prompt else "",
        metadata=facts,
        messages=[*system, *prompt],
        after=before[-1] if before else None,
    )


def _settle(run: Run) -> dict[str, Any]:
    """Complete the run's result. Returns the metadata of its last event: every display and the trace show one time."""
    run.result.iterations = run.spent.iterations
    run.result.usage = run.spent.usage
    run.result.cost = run.spent.cost
    return {"run_id": run.run_id, "duration_s": monotonic() - run.spent.started}

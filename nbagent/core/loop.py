"""The agent loop: send requests to the model and run the tools that it calls, until it answers or a limit ends the run.

There is one loop, an async generator of events. The cell magic, the panel, plain Python and the blocking calls all
consume its events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from time import monotonic
from typing import Any

from nbagent.core import events
from nbagent.core.checking import CORRECTIONS, PromptRefusedError, SentBackError
from nbagent.core.current import current
from nbagent.core.events import Event
from nbagent.core.limits import LimitReached
from nbagent.core.messages import LLMMessage, LLMResponse, new_id
from nbagent.core.results import Status, answer_status
from nbagent.core.run import Run
from nbagent.core.turn import Turn


async def run_loop(run: Run, message: Any) -> AsyncGenerator[Event]:
    """One run, from the message to the last event: `done`, or `error` if it failed.

    An agent's runs take place one after another. A run that is cancelled, or whose events are no longer read, leaves a
    valid history, and its status in the trace is `interrupted`. A prompt that fails before any tool has run is removed
    from the history.
    """
    run.spent.check_depth()
    here = current.get()
    await run.entry.enter(here.enclosing, here.blocked_threads)
    run.spent.started = monotonic()  # waiting for other runs does not count
    limit: LimitReached | None = None
    try:
        with run.history.asking(message, run.replaces, run.branch_at) as prompt:
            yield run.emit(_run_started(run, prompt))
            await run.check_prompt(prompt)
            while (limit := run.spent.reached_limit()) is None:
                with Turn(run) as turn:
                    for step in turn.steps():
                        async with aclosing(run.until_time_is_up(step)) as turn_events:
                            async for event in turn_events:
                                while run.pending_events:
                                    yield run.pending_events.pop(0)
                                yield event
                if turn.response is not None and not turn.calls and await _accepts(turn, turn.response):
                    break
            _remove_if_refused(run, prompt[-1])
        if limit:
            run.result.status, run.result.limit_reason, run.result.status_reason = "limit", limit.reason, limit.text
            run.pending_events.append(run.emit(events.Limit(limit.text, metadata={"limit_reason": limit.reason})))
        done = events.Done(run.result.content, result=run.result, messages=run.closing_messages)
        last = run.emit(done, _complete_result(run))
    except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit):
        run.result.status, run.result.status_reason = "interrupted", "The run was interrupted."
        run.emit(events.Interrupted(run.result.content, messages=run.closing_messages), _complete_result(run))
        raise
    except Exception as error:  # noqa: BLE001  it becomes the last event, from which `chat` raises it
        last = run.emit(_failure(error, run), _complete_result(run))
    finally:
        run.spent.over = True
        run.entry.leave()
    for event in (*run.pending_events, last):
        yield event


def _remove_if_refused(run: Run, prompt: LLMMessage) -> None:
    """Remove a refused prompt from the history, because Claude refuses everything after it.

    https://platform.claude.com/docs/en/test-and-evaluate/strengthen-guardrails/handle-streaming-refusals
    """
    if run.result.finish_reason != "refusal":
        return
    removed = "The prompt was removed from the conversation, since the model would refuse everything after it."
    kept = "The model may refuse everything that follows: agent.undo() removes the prompt."
    run.result.status_reason = f"{run.result.status_reason} {removed if run.history.take_back(prompt) else kept}"


def _failure(error: Exception, run: Run) -> Event:
    """The last event of a run that this error ends. A refused prompt also ends the run, but is not a failure."""
    if isinstance(error, PromptRefusedError):
        run.result.status, run.result.status_reason = "blocked", f"The prompt was not sent: {error}"
        return events.Done(result=run.result)
    run.result.status, run.result.status_reason = "error", str(error)
    error.__dict__["partial"] = run.result  # also for exceptions other than ours
    return events.Error(str(error), exception=error, messages=run.closing_messages)


async def _accepts(turn: Turn, answer: LLMResponse) -> bool:
    """Whether the run ends with this answer. The status of an incomplete answer replaces "denied".

    A paused answer continues in the next turn, and after an empty one the model is sent one more request. In a team,
    another agent may speak next.
    """
    run = turn.run
    if answer.finish_reason == "pause":
        return False
    status, reason = answer_status(answer)
    if status == "empty" and not run.asked_again and run.spent.reached_limit() is None:
        run.asked_again = True
        messages = run.history.messages
        if messages and messages[-1].role == "assistant" and not messages[-1].text.strip():
            del messages[-1]  # some providers reject blank messages
        about = {"attempt": 1, "wait_s": 0.0, "discard_chars": 0}
        retry = events.Retry(f"{reason} Asking once more.", metadata=about)
        run.pending_events.append(run.emit(retry, turn.meta))
        return False
    if status != "ok":
        run.result.status, run.result.status_reason = status, reason
    if not await _passes_checks(run, status):
        return False
    return run.speakers is None or status != "ok" or not run.speakers.passes_on()


async def _passes_checks(run: Run, status: Status) -> bool:
    """Check an answer if it is complete. A rejected one goes back to the model unless a limit is reached.

    Raises the check's error if no corrections are left.
    """
    try:
        if status == "ok":
            await run.check_answer()
    except SentBackError as rejected:
        if run.corrections == CORRECTIONS:
            raise rejected.error from None
        run.corrections += 1
        if run.spent.reached_limit() is None:
            correction = LLMMessage("user", str(rejected), is_correction=True, message_id=new_id("msg"))
            run.history.messages.append(correction)
        run.pending_events.append(run.emit(events.ValidationError(str(rejected))))
        return False
    return True


def _run_started(run: Run, prompt: Sequence[LLMMessage]) -> Event:
    messages = run.history.messages
    system = [message for message in messages[:1] if message.role == "system"]
    before = messages[len(system) : len(messages) - len(prompt)]
    return run.started(prompt[-1].text, [*system, *prompt], before[-1] if before else None)


def _complete_result(run: Run) -> dict[str, Any]:
    """Set the result's totals. Returns the last event's metadata, so displays and the trace show the same time."""
    run.result.iterations = run.spent.iterations
    run.result.usage = run.spent.usage
    run.result.cost = run.spent.cost
    return {"run_id": run.run_id, "duration_s": monotonic() - run.spent.started}

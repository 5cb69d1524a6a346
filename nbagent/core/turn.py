"""One turn of a run: ask the model, then run the tools it called.

The partial answer stands in the history from the first moment and is closed in the end, whatever happens in between:
every call gets its result, an interrupted answer keeps its text.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from contextvars import copy_context
from itertools import groupby
from time import time
from typing import Any

from nbagent.core import events
from nbagent.core.aclose import closing
from nbagent.core.content.images import content_as_text, images_in
from nbagent.core.events import Event
from nbagent.core.history.repair import call_ids, missing_result, with_unique_ids
from nbagent.core.http_exchange import Exchange, collected
from nbagent.core.messages import FunctionCall, LLMMessage, LLMResponse, new_id
from nbagent.core.model_request import ModelRequest
from nbagent.core.results import ToolOutcome
from nbagent.core.run import Run, inside, working_for

log = logging.getLogger("nbagent")


class Turn:
    """One model request, `ask`, and the tool calls it led to, `act`. However its block ends, the history is valid."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.step = run.spent.iterations + 1
        self.meta: dict[str, Any] = {"run_id": run.run_id, "call_id": new_id("call")}
        self.text: list[str] = []
        self.response: LLMResponse | None = None
        self.calls: list[FunctionCall] = []
        self._ids: list[str] = []
        self._outcomes: dict[int, ToolOutcome] = {}
        self._results: dict[int, LLMMessage] = {}
        self._exchanges = 0
        self._message = LLMMessage("assistant", "", interrupted=True)

    def __enter__(self) -> Turn:
        return self

    def __exit__(self, *_: object) -> None:
        self._settle()

    async def ask(self) -> AsyncGenerator[Event]:
        """Send the history, pass on the answer as it comes."""
        run = self.run
        if run.context.strategy == "summarise" and (oldest := run.context.messages_to_drop()):
            async with aclosing(self._sum_up(oldest)) as summing:
                async for event in summing:
                    yield event
        changes = run.context.prepare()
        request = run.request()
        if changes:
            yield run.emit(_context_event(changes, run.context.trimmed))
        run.context.add_message(self._message)
        run.spent.iterations = self.step
        request = run.provider.resolve(request)
        yield run.emit(events.TurnStarted(metadata=self._about_request(request), messages=request.messages), self.meta)
        response: LLMResponse | None = None  # counts when the stream is closed: that can be cancelled
        stream = run.provider.stream(request)
        async with closing(collected(stream, self._exchanged) if run.record_http else stream) as answer:
            async for item in answer:
                if isinstance(item, LLMResponse):
                    response = item
                    break
                if isinstance(item, events.Text):
                    self.text.append(item.content)
                elif isinstance(item, events.Retry):
                    item.metadata = {**item.metadata, "discard_chars": sum(map(len, self.text))}
                    self.text.clear()
                yield run.emit(item, self.meta)
        if response is None:
            raise RuntimeError(f"{type(run.provider).__name__}.stream() must end with an LLMResponse")
        for event in self._complete(response):
            yield event

    async def _sum_up(self, oldest: list[LLMMessage]) -> AsyncGenerator[Event]:
        """Let the model sum up what is oldest in a history over its limits.

        A summary that can't be had is no reason to stop: then the messages are dropped without one.
        """
        run = self.run
        for part in run.context.split_at_current_turn(oldest):
            yield run.emit(events.Context(f"summarising {len(part)} old messages"))
            context = copy_context()
            context.run(working_for.set, run)
            try:
                summary = await asyncio.create_task(run.summarise(part), context=context)
            except Exception as error:  # a provider of the user's may raise anything
                log.warning("old messages go without a summary", exc_info=True)
                yield run.emit(events.Context(f"no summary: {error or type(error).__name__}"))
                return
            run.context.drop(part, summary)
            yield run.emit(_context_event(f"summarised {len(part)} old messages", part))

    def _exchanged(self, exchange: Exchange) -> None:
        """An HTTP exchange has ended, however it did."""
        self._exchanges += 1
        facts = {"attempt": self._exchanges, **exchange.facts()}
        self.run.emit_at_once(events.Http(metadata=facts, exchange=exchange), self.meta)

    def _about_request(self, request: ModelRequest) -> dict[str, Any]:
        provider = self.run.provider
        return {
            "step": self.step,
            "provider": provider.vendor,
            "model": provider.model_name,
            "base_url_host": getattr(provider, "base_url_host", None),
            "stream": getattr(provider, "streaming", None),
            "n_messages_in": len(request.messages),
            **request.effective_options,
        }

    def _complete(self, response: LLMResponse) -> Iterator[Event]:
        """Take a whole answer into the history, count it, and announce its calls."""
        run, self.response = self.run, response
        made = response.function_calls or []
        self.calls = with_unique_ids(made, self.meta["call_id"], call_ids(run.context.messages)) if made else []
        self._ids = [new_id("tool") for _ in self.calls]
        message = LLMMessage(
            "assistant",
            response.message_content,
            tool_calls=self.calls or None,
            provider_extras=response.raw_response,
            message_id=new_id("msg"),
        )
        self._replace(message)
        run.context.record_usage(response.usage)
        cost = self._cost(response)
        run.spent.add(response.usage, cost)
        if message.content or not self.calls:
            run.result.content = message.text
        run.result.images += images_in(message.content)
        run.result.finish_reason = response.finish_reason
        if (response.metadata or {}).get("quoted"):
            run.result.metadata["quoted"] = True
        facts = {"finish_reason": response.finish_reason}
        yield run.emit(events.TurnDone(response.content, None, None, facts, response, message), self.meta)
        yield run.emit(events.UsageReport(metadata={**response.usage.to_dict(), "cost_usd": cost}), self.meta)
        for index, call in enumerate(self.calls):
            yield run.emit(events.ToolCall("", call.name, call.arguments, self._about(index)), self.meta)

    def _cost(self, response: LLMResponse) -> float | None:
        """US dollars; None where the tokens or their price are not known."""
        metadata = response.metadata or {}
        if not response.is_counted:
            return None
        return self.run.price(
            response.usage,
            metadata.get("model") or self.run.provider.model_name,
            self.run.provider.vendor,
            metadata.get("usage_raw"),
        )

    async def act(self) -> AsyncGenerator[Event]:
        """Run the calls: those that may, side by side. Results are announced as they come and kept in call order."""
        run = self.run
        allowed = self._allowed()
        for index in range(allowed, len(self.calls)):
            run.spent.refused = True
            yield self._finish(index, _refused(self.calls[index], "the limit of tool calls is reached"))
        groups = groupby(range(allowed), key=lambda i: -1 if run.tools.is_parallel(self.calls[i].name) else i)
        for _, group in groups:
            async with aclosing(self._run_group(list(group))) as running:
                async for event in running:
                    yield event

    def _allowed(self) -> int:
        limit = self.run.limits.max_tool_calls
        left = len(self.calls) if limit is None else max(0, limit - self.run.spent.tool_calls)
        return min(left, len(self.calls))

    async def _run_group(self, group: list[int]) -> AsyncGenerator[Event]:
        context = copy_context()
        context.run(inside.set, inside.get() | {self.run.ticket})
        context.run(working_for.set, self.run)
        tasks: dict[asyncio.Task[ToolOutcome], int] = {}
        try:
            for index in group:
                call, own = self.calls[index], context.copy()
                started = events.ToolStarted("", call.name, call.arguments, self._about(index))
                yield own.run(self.run.emit, started, self.meta)  # the tool sees what observers set in the context
                tasks[asyncio.create_task(self.run.tools.run(call), context=own)] = index
            pending = set(tasks)
            while pending:
                finished, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in sorted(finished, key=tasks.__getitem__):
                    outcome = task.result()
                    if not outcome.args_valid:
                        error = events.ValidationError(str(outcome.content), outcome.call.name)
                        error.metadata = self._about(tasks[task])
                        yield self.run.emit(error, self.meta)
                    if outcome.approval != "auto":
                        approval = events.Approval(outcome.approval, outcome.call.name, outcome.call.arguments)
                        approval.metadata = self._about(tasks[task])
                        yield self.run.emit(approval, self.meta)
                    yield self._finish(tasks[task], outcome)
        finally:
            unfinished = [task for task in tasks if not task.done()]
            for task in unfinished:
                task.cancel()
            if unfinished:
                await asyncio.wait(unfinished, timeout=1.0)
            for task, index in tasks.items():  # what was ready when the run was cancelled is kept
                if task.done() and not task.cancelled() and task.exception() is None and index not in self._outcomes:
                    self._finish(index, task.result())

    def _finish(self, index: int, outcome: ToolOutcome) -> Event:
        self._outcomes[index] = outcome
        message = self._results[index] = _tool_message(self.calls[index], outcome)
        self.run.spent.tool_calls += 1
        if outcome.denied:
            self.run.result.status = "denied"
        if not outcome.args_valid:
            metadata = self.run.result.metadata
            metadata["validation_retries"] = metadata.get("validation_retries", 0) + 1
        text = content_as_text(outcome.content)
        about = {**self._about(index), "is_error": outcome.is_error, "duration_s": outcome.duration_s}
        event = events.ToolResult(text, outcome.call.name, outcome.call.arguments, about, outcome, message)
        return self.run.emit(event, self.meta)

    def _about(self, index: int) -> dict[str, Any]:
        return {"tool_call_id": self._ids[index], "wire_id": self.calls[index].id, "index": index, "step": self.step}

    def _settle(self) -> None:
        """Leave the history valid: text so far is kept, and each call has one result, in call order."""
        if self.response is None:
            partial = LLMMessage("assistant", "".join(self.text), interrupted=True, message_id=new_id("msg"))
            self._replace(partial if partial.content else None)
            if partial.content:
                self.run.result.content = partial.text
                self.run.closing.append(partial)
        for index, call in enumerate(self.calls):
            outcome = self._outcomes.get(index)
            message = self._results.get(index) or missing_result(call).replace(message_id=new_id("msg"))
            self.run.context.add_message(message)
            if outcome is None:
                self.run.closing.append(message)
            self.run.result.function_calls.append(
                {
                    "id": call.id,
                    "name": call.name,
                    "arguments": call.arguments if outcome is None else outcome.call.arguments,
                    "result": content_as_text(message.content),
                    "is_error": message.is_error,
                    "duration_s": outcome.duration_s if outcome else None,
                }
            )

    def _replace(self, message: LLMMessage | None) -> None:
        """Put the answer where its placeholder stands; a history that was cleared meanwhile stays so."""
        messages = self.run.context.messages
        for index in range(len(messages) - 1, -1, -1):
            if messages[index] is self._message:
                messages[index : index + 1] = [message] if message else []
                return


def _context_event(how: str, trimmed: Iterable[LLMMessage]) -> Event:
    """What became of the history, with the rows of the messages that left it."""
    ids = [message.message_id for message in trimmed if message.message_id]
    return events.Context(how, metadata={"trimmed": ids} if ids else {})


def _tool_message(call: FunctionCall, outcome: ToolOutcome) -> LLMMessage:
    return LLMMessage(
        "tool",
        outcome.content,
        name=call.name,
        tool_call_id=call.id,
        is_error=outcome.is_error,
        message_id=new_id("msg"),
    )


def _refused(call: FunctionCall, why: str) -> ToolOutcome:
    return ToolOutcome(call, f"Not run: {why}.", is_error=True, started=time())

"""Runs tools: checks arguments, asks for approval, calls sync and async functions, writes results for the model.

`ToolExecutor.run` is for the agent's loop and answers every call with a `ToolOutcome`; `execute` is for programs,
gives the function's own value and raises `ToolError`s.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from nbagent.core.messages import Content, FunctionCall, ToolOutcome
from nbagent.errors import (
    ToolArgumentsError,
    ToolDeniedError,
    ToolError,
    ToolExecutionError,
    ToolTimeoutError,
    UnknownToolError,
)
from nbagent.functions.approval import Approver, answer_of, check_approver, is_due
from nbagent.functions.formatting import format_error, format_result, short_repr, summary_of, truncate_result
from nbagent.functions.generators import collected, collected_async, is_lazy
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry
from nbagent.functions.result_cache import ResultCache, cache_key
from nbagent.functions.schema.introspection import is_async
from nbagent.functions.source import cell_of, function_version
from nbagent.functions.threads import in_thread

logger = logging.getLogger("nbagent")

CallContext = Callable[[FunctionDefinition], AbstractContextManager[Any]]

RETRY_DELAY_S = 0.2
_DENIED = "The call was not approved. Do not repeat it as it is; ask the user how to go on."


@dataclass(slots=True)
class _Run:
    """What is known of one call so far; `facts` are the fields of its `ToolOutcome`."""

    call: FunctionCall
    definition: FunctionDefinition | None = None
    arguments: dict[str, Any] | None = None
    clock: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)

    def start(self) -> None:
        """Begin to measure: again when approval has come, since waiting for a person is not the tool's time."""
        self.clock = time.perf_counter()
        self.facts["started"] = time.time()

    def outcome(self, content: Content, **facts: Any) -> ToolOutcome:
        """The `ToolOutcome`, `content` being already within its bounds."""
        duration = time.perf_counter() - self.clock
        return ToolOutcome(self.call, content, duration_s=duration, **{**self.facts, **facts})


class ToolExecutor:
    """Runs the functions of a registry.

    `timeout`, in seconds, is for tools that set none (None: no limit). Results for the model are cut at
    `max_result_chars`. `call_context(definition)` returns a context manager that is entered in the tool's thread, right
    around the function call. A tool for which `runs_exclusively(definition)` is true runs beside no other. `approver`
    is asked about tools with `approve=True`, and about all while `approve_all` is set. A sync approver runs in a
    thread, so it may block.
    """

    def __init__(
        self,
        registry: FunctionRegistry,
        *,
        approver: Approver | None = None,
        timeout: float | None = 15.0,
        max_result_chars: int = 20_000,
        call_context: CallContext | None = None,
        runs_exclusively: Callable[[FunctionDefinition], bool] | None = None,
    ) -> None:
        check_approver(approver)
        self.registry = registry
        self.approver = approver
        self.approve_all = False
        self.timeout = timeout
        self.max_result_chars = max_result_chars
        self.call_context = call_context
        self.runs_exclusively = runs_exclusively
        self._results = ResultCache()

    def list_functions(self) -> list[dict[str, Any]]:
        """What is offered to the model now."""
        return self.registry.list_functions()

    def is_parallel(self, name: str) -> bool:
        """Whether the tool may run beside the other calls of its turn."""
        definition = self.registry.get_function(name)
        return definition is None or (
            definition.parallel and not (self.runs_exclusively and self.runs_exclusively(definition))
        )

    def only(self, names: Iterable[str]) -> ToolExecutor:
        """The same executor, restricted to these tools. An unknown name raises ConfigurationError."""
        other = copy(self)
        other.registry = self.registry.only(names)
        return other

    def requiring_approval(self) -> ToolExecutor:
        """The same executor, which asks for approval before each call."""
        other = copy(self)
        other.approve_all = True
        return other

    def with_timeout(self, seconds: float | None) -> ToolExecutor:
        """The same executor with another `timeout`; itself for None."""
        if seconds is None:
            return self
        other = copy(self)
        other.timeout = seconds
        return other

    async def execute(self, function_name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Call a tool and return its value as it is.

        Raises UnknownToolError, ToolArgumentsError, ToolDeniedError, ToolTimeoutError, or ToolExecutionError, whose
        `__cause__` is what the function raised.
        """
        outcome = await self.run(FunctionCall(function_name, arguments or {}))
        if outcome.error is None:
            return outcome.value
        if isinstance(outcome.error, ToolError):
            raise outcome.error
        raise _raised(function_name, outcome.error) from outcome.error

    async def run(self, call: FunctionCall) -> ToolOutcome:
        """Answer a model's call, whatever comes of it. Raises only CancelledError and KeyboardInterrupt.

        `error` of the outcome is what the function raised, or one of our `ToolError`s.
        """
        run = _Run(call)
        run.start()
        try:
            value = await self._perform(run)
            outcome = await self._success(run, value)
        except ToolError as error:
            raised = error.__cause__ if isinstance(error, ToolExecutionError) else None
            outcome = self._failure(run, raised or error)
        except Exception as error:  # a hook's, which is the user's code: each call has a result all the same
            logger.warning("a hook of %r failed before %s was done", self.registry, call.name, exc_info=True)
            outcome = self._failure(run, error)
        await self._after(run, outcome)
        return outcome

    def format_result(self, result: Any) -> Content:
        """What the model reads: see `nbagent.functions.formatting`."""
        return format_result(result)

    # -- one call -----------------------------------------------------------------------------------------------------

    async def _perform(self, run: _Run) -> Any:
        from nbagent.functions.validation import check_arguments, malformed_arguments, unknown_tool

        call = run.call
        definition = self.registry.get_function(call.name)
        if definition is None:
            raise unknown_tool(call.name, self.registry.names())
        run.facts["function_version"] = function_version(definition.func)
        run.facts["cell_id_of_definition"] = cell_of(definition.func)
        if call.raw is not None:
            raise malformed_arguments(definition, call)
        arguments, run.facts["repaired"] = check_arguments(definition, call.arguments)
        run.definition, run.arguments = definition, arguments
        if self.approve_all or await is_due(definition, arguments):
            await self._approve(run, definition)
            run.start()
        given = await _awaited(self.registry.before_call(definition, run.arguments))
        return await self._value(run, definition) if given is None else given

    async def _approve(self, run: _Run, definition: FunctionDefinition) -> None:
        """Go on only after a clear yes. Edited arguments take the place of the model's."""
        from nbagent.functions.validation import check_arguments

        run.facts["approval"] = "denied"
        answer = await answer_of(self.approver, run.call, definition)
        if isinstance(answer, dict):
            try:
                run.arguments, _ = check_arguments(definition, answer)
            except ToolArgumentsError as error:
                logger.warning("the edited arguments are invalid: denied. %s", error)
                raise ToolDeniedError(_DENIED, tool=definition.name) from error
            run.call = replace(run.call, arguments=answer)
            run.facts["approval"] = "edited"
        elif answer:
            run.facts["approval"] = "approved"
        else:
            raise ToolDeniedError(_DENIED, tool=definition.name)

    async def _value(self, run: _Run, definition: FunctionDefinition) -> Any:
        """The function's value, from the cache where it is kept, after retries where it raised."""
        key = None
        if definition.cache_ttl is not None:
            key = cache_key(definition.name, run.facts["function_version"], run.call.arguments)
        if key is not None and (kept := self._results.get(key, definition.func)) is not None:
            return kept[0]
        for attempt in range(definition.retries + 1):
            try:
                value = await self._call(definition, run.arguments or {})
                break
            except ToolExecutionError as error:
                if attempt == definition.retries:
                    raise
                logger.info("%s; attempt %d of %d", error, attempt + 1, definition.retries + 1)
                await asyncio.sleep(RETRY_DELAY_S * 2**attempt)
        if key is not None and definition.cache_ttl is not None:
            self._results.put(key, value, definition.cache_ttl, definition.func)
        return value

    async def _success(self, run: _Run, value: Any) -> ToolOutcome:
        """The outcome of a function that returned. Values that may take long to write are written in a thread."""
        duration = time.perf_counter() - run.clock
        kind = type(value).__name__
        try:
            if value is None or isinstance(value, (str, bool, int, float)):
                content, run.facts["value_repr"] = self._written(value)
            else:
                async with asyncio.timeout(self._limit_of(run.definition)):
                    content, run.facts["value_repr"] = await in_thread(self._written, value)
        except TimeoutError:
            content = f"<{kind}, which took too long to show>"
        except Exception as error:  # of a repr, which is the user's code; the function has done its work
            logger.debug("a %s can't be shown", kind, exc_info=True)
            content = f"<{kind}, which can't be shown: {type(error).__name__}: {error}>"
        if run.facts.get("approval") == "edited":
            content = _with_note(content, run.call.arguments)
        content, chars, cut = truncate_result(content, self.max_result_chars)
        return replace(run.outcome(content, value=value, truncated=cut, result_chars=chars), duration_s=duration)

    def _written(self, value: Any) -> tuple[Content, str]:
        """For the model, and for the trace."""
        return self.format_result(value), short_repr(value)

    def _failure(self, run: _Run, error: BaseException) -> ToolOutcome:
        facts: dict[str, Any] = {"is_error": True, "error": error}
        if isinstance(error, (ToolArgumentsError, UnknownToolError)) and run.definition is None:
            text = str(error)
            facts |= {"args_valid": False, "validation_error": text}
        elif isinstance(error, ToolError):
            text = f"Error: {error}"
            facts["denied"] = isinstance(error, ToolDeniedError)
            if facts["denied"]:
                facts["approval"] = "denied"
        else:
            text = format_error(error)
        content, chars, cut = truncate_result(text, self.max_result_chars)
        return run.outcome(content, truncated=cut, result_chars=chars, **facts)

    async def _after(self, run: _Run, outcome: ToolOutcome) -> None:
        if run.definition is None:
            return
        try:
            await _awaited(self.registry.after_call(run.definition, run.arguments or {}, outcome))
        except Exception:
            logger.warning("after_call of %r failed for %s", self.registry, run.definition.name, exc_info=True)

    # -- the function call --------------------------------------------------------------------------------------------

    async def _call(self, definition: FunctionDefinition, arguments: dict[str, Any]) -> Any:
        """One call, in the right place and within its time."""
        limit = self._limit_of(definition)
        place: list[str] = []
        over = threading.Event()
        try:
            async with asyncio.timeout(limit):
                return await self._dispatch(definition, arguments, place, over)
        except TimeoutError:
            runs_on = f" Its thread, {place[0]}, can't be stopped and runs on." if place else ""
            message = f"{definition.name} did not return within {limit:g} s.{runs_on}"
            logger.warning(message)
            raise ToolTimeoutError(message, tool=definition.name) from None
        finally:
            over.set()

    def _limit_of(self, definition: FunctionDefinition | None) -> float | None:
        """Seconds that a call, and writing what it gave, may take; None for no limit."""
        own = definition.timeout if definition is not None else None
        limit = self.timeout if own is None else own
        return None if limit is None or math.isinf(limit) else limit

    async def _dispatch(
        self, definition: FunctionDefinition, arguments: dict[str, Any], place: list[str], over: threading.Event
    ) -> Any:
        positional = definition.schema.positional if definition.schema else ()
        named = {name: value for name, value in arguments.items() if name not in positional}
        bound = functools.partial(
            definition.func, *[arguments[name] for name in positional if name in arguments], **named
        )

        def call() -> Any:
            place.append(threading.current_thread().name)
            with self._guard(definition):
                value = bound()
                return collected(value, over) if is_lazy(value) else value

        value: Any
        if is_async(definition.func):
            value = _calling(bound)
        elif definition.main_thread:
            value = await _on_main(call, definition)
        else:
            value = await in_thread(call)
        if not inspect.isawaitable(value):
            return value
        place.clear()  # what is awaited can be cancelled
        with self._guard(definition):
            return await value

    @contextmanager
    def _guard(self, definition: FunctionDefinition) -> Iterator[None]:
        """Around the user's code: what it raises becomes a ToolExecutionError, so that nothing of it is taken for ours.

        KeyboardInterrupt goes through on the main thread, where it is the user's, and so does the cancellation of the
        task that runs the tool.
        """
        try:
            with self.call_context(definition) if self.call_context else nullcontext():
                yield
        except BaseException as error:  # SystemExit and a tool's own CancelledError end the tool only
            if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
                raise
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            raise _raised(definition.name, error) from error


def _raised(name: str, error: BaseException) -> ToolExecutionError:
    return ToolExecutionError(f"{name} raised {summary_of(error)}", tool=name)


async def _calling(bound: Callable[[], Any]) -> Any:
    """Call an async function, or exhaust an async generator."""
    value = bound()
    return await (collected_async(value) if inspect.isasyncgen(value) else value)


async def _on_main(function: Callable[[], Any], definition: FunctionDefinition) -> Any:
    from nbagent.core.background import call_on_main

    try:
        return await call_on_main(function)
    except RuntimeError as error:  # what the tool itself raises is a ToolExecutionError
        raise ToolError(f"{definition.name} must run on the main thread: {error}", tool=definition.name) from error


async def _awaited(value: Any) -> Any:
    return await value if isinstance(value, Awaitable) else value


def _is_being_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        return False
    return task is not None and task.cancelling() > 0


def _with_note(content: Content, arguments: dict[str, Any]) -> Content:
    """The model must know that what ran is not what it asked for."""
    note = f"The user changed the arguments to {json.dumps(arguments, ensure_ascii=False, default=str)}.\n"
    return note + content if isinstance(content, str) else [{"type": "text", "text": note}, *content]

"""Runs a model's tool calls: validates arguments, asks for approval, calls the function, formats the result.

`ToolExecutor.run` serves the agent's loop and answers every call with a `ToolOutcome`. `ToolExecutor.execute` serves
programs: it returns the function's own value and raises `ToolError`s.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from types import GeneratorType
from typing import Any

from nbagent.core.background import call_on_main
from nbagent.core.messages import Content, FunctionCall
from nbagent.core.results import ToolOutcome
from nbagent.core.threads import run_in_thread
from nbagent.errors import (
    ToolArgumentsError,
    ToolDeniedError,
    ToolError,
    ToolExecutionError,
    ToolTimeoutError,
    UnknownToolError,
)
from nbagent.functions.approval import Approver, ask_approver, check_approver, needs_approval
from nbagent.functions.binding import is_same
from nbagent.functions.formatting import error_summary, format_error, format_result, safe_repr, truncate_result
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry
from nbagent.functions.schema.introspection import is_async
from nbagent.functions.source import cell_of, function_version

logger = logging.getLogger("nbagent")

CallContext = Callable[[FunctionDefinition], AbstractContextManager[Any]]

RETRY_DELAY_S = 0.2
MAX_ITEMS = 1_000_000
MAX_CACHED_RESULTS = 256
_DENIED = "The call was not approved. Do not repeat it as it is; ask the user how to go on."
#: Iterators that say nothing before they are iterated. Files, cursors and other iterators are left as they are.
_LAZY = (GeneratorType, map, filter, zip, enumerate)


@dataclass(slots=True)
class _CallState:
    """One call while it is run. `definition` is set once the arguments are valid; `fields` become the outcome's."""

    call: FunctionCall
    definition: FunctionDefinition | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    clock: float = 0.0
    fields: dict[str, Any] = field(default_factory=dict)

    def start_clock(self) -> None:
        """Start, or restart after approval: waiting for a person does not count as the tool's time."""
        self.clock = time.perf_counter()
        self.fields["started"] = time.time()

    def outcome(self, content: Content, limit: int, **fields: Any) -> ToolOutcome:
        """The outcome, `content` cut to about `limit` characters."""
        content, chars, truncated = truncate_result(content, limit)
        fields = {"duration_s": time.perf_counter() - self.clock, **self.fields, **fields}
        return ToolOutcome(self.call, content, result_chars=chars, truncated=truncated, **fields)


class ToolExecutor:
    """Runs the functions of a registry.

    `timeout`, in seconds, is for tools that set none (None: no limit). Results for the model are cut at
    `max_result_chars`. `call_context(definition)` returns a context manager that is entered in the tool's thread, right
    around the function call. If `runs_exclusively(definition)` is true, the tool never runs at the same time as others.
    `approver` is asked about tools with `approve=True`, and about all while `approve_all` is set. A sync approver runs
    in a thread, so it may block.
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
        self._cache = _ResultCache()

    def list_functions(self) -> list[dict[str, Any]]:
        """What is offered to the model now."""
        return self.registry.list_functions()

    def is_parallel(self, name: str) -> bool:
        """Whether the tool may run at the same time as the other calls of its turn."""
        definition = self.registry.get_function(name)
        if definition is None:
            return True
        return definition.parallel and not (self.runs_exclusively and self.runs_exclusively(definition))

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
        """The same executor with another `timeout`; unchanged for None."""
        if seconds is None:
            return self
        other = copy(self)
        other.timeout = seconds
        return other

    async def execute(self, function_name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Call a tool and return its value unchanged.

        Raises UnknownToolError, ToolArgumentsError, ToolDeniedError, ToolTimeoutError, or ToolExecutionError, whose
        `__cause__` is what the function raised.

        >>> await executor.execute("area", {"width": 3})                        # doctest: +SKIP
        9.0
        """
        outcome = await self.run(FunctionCall(function_name, arguments or {}))
        if outcome.error is None:
            return outcome.value
        if isinstance(outcome.error, ToolError):
            raise outcome.error
        raise _execution_error(function_name, outcome.error) from outcome.error

    def format_result(self, result: Any) -> Content:
        """A function's value as the model reads it; see `nbagent.functions.formatting`. Override it to change that."""
        return format_result(result)

    # -- one call, step by step ---------------------------------------------------------------------------------------

    async def run(self, call: FunctionCall) -> ToolOutcome:
        """Answer a model's call, whatever happens. Raises only CancelledError and KeyboardInterrupt.

        The outcome's `error` is what the function raised, or one of our `ToolError`s.
        """
        state = _CallState(call)
        state.start_clock()
        try:
            definition = self._validate(state)
            await self._ask_approval(state, definition)
            value = await _await_if_needed(self.registry.before_call(definition, state.arguments))
            if value is None:
                value = await self._call(state, definition)
            outcome = await self._format_value(state, definition, value)
        except ToolError as error:
            raised = error.__cause__ if isinstance(error, ToolExecutionError) else None
            outcome = self._format_failure(state, raised or error)
        except Exception as error:  # a hook failed, which is the user's code: each call has a result all the same
            logger.warning("a hook of %r failed before %s was done", self.registry, call.name, exc_info=True)
            outcome = self._format_failure(state, error)
        if state.definition is not None:
            try:
                await _await_if_needed(self.registry.after_call(state.definition, state.arguments, outcome))
            except Exception:
                logger.warning("after_call of %r failed for %s", self.registry, call.name, exc_info=True)
        return outcome

    def _validate(self, state: _CallState) -> FunctionDefinition:
        """The definition to call. Raises UnknownToolError or ToolArgumentsError."""
        # loaded with the first call, so that `import nbagent.agent` stays fast
        from nbagent.functions.validation import malformed_arguments, unknown_tool, validate_arguments

        call = state.call
        definition = self.registry.get_function(call.name)
        if definition is None:
            raise unknown_tool(call.name, self.registry.names())
        state.fields["function_version"] = function_version(definition.func)
        state.fields["cell_id_of_definition"] = cell_of(definition.func)
        if call.raw is not None:
            raise malformed_arguments(definition, call)
        state.arguments, state.fields["repaired"] = validate_arguments(definition, call.arguments)
        state.definition = definition
        return definition

    async def _ask_approval(self, state: _CallState, definition: FunctionDefinition) -> None:
        """Return only if no approval is needed, or after a clear yes. Edited arguments replace the model's."""
        from nbagent.functions.validation import validate_arguments

        if not (self.approve_all or await needs_approval(definition, state.arguments)):
            return
        answer = await ask_approver(self.approver, state.call, definition)
        if isinstance(answer, dict):
            try:
                state.arguments, _ = validate_arguments(definition, answer)
            except ToolArgumentsError as error:
                logger.warning("the edited arguments are invalid: denied. %s", error)
                raise ToolDeniedError(_DENIED, tool=definition.name) from error
            state.call = replace(state.call, arguments=answer)
        elif not answer:
            raise ToolDeniedError(_DENIED, tool=definition.name)
        state.fields["approval"] = "edited" if isinstance(answer, dict) else "approved"
        state.start_clock()

    async def _call(self, state: _CallState, definition: FunctionDefinition) -> Any:
        """The function's value: from the cache if it is there, else from calling it, again if it raised."""
        key = None
        if definition.cache_ttl is not None:
            key = _cache_key(definition.name, state.fields["function_version"], state.call.arguments)
        if key is not None and (cached := self._cache.get(key, definition.func)) is not None:
            return cached[0]
        for attempt in range(definition.retries + 1):
            try:
                value = await self._call_once(definition, state.arguments)
                break
            except ToolExecutionError as error:
                if attempt == definition.retries:
                    raise
                logger.info("%s; attempt %d of %d", error, attempt + 1, definition.retries + 1)
                await asyncio.sleep(RETRY_DELAY_S * 2**attempt)
        if key is not None and definition.cache_ttl is not None:
            self._cache.put(key, value, definition.cache_ttl, definition.func)
        return value

    async def _call_once(self, definition: FunctionDefinition, arguments: dict[str, Any]) -> Any:
        """Call the function on the event loop, on the main thread or in a thread, within its time limit."""
        positional = definition.schema.positional if definition.schema else ()
        args = [arguments[name] for name in positional if name in arguments]
        kwargs = {name: value for name, value in arguments.items() if name not in positional}
        thread: list[str] = []  # the name of the thread that runs the function
        over = threading.Event()

        def call_sync() -> Any:
            thread.append(threading.current_thread().name)
            with self._user_code(definition):
                value = definition.func(*args, **kwargs)
                return _collect(value, over) if isinstance(value, _LAZY) else value

        async def call_async() -> Any:
            value = definition.func(*args, **kwargs)
            return await (_collect_async(value) if inspect.isasyncgen(value) else value)

        limit = self._time_limit(definition)
        value: Any
        try:
            async with asyncio.timeout(limit):
                if is_async(definition.func):
                    value = call_async()
                elif definition.main_thread:
                    value = await _on_main_thread(call_sync, definition)
                else:
                    value = await run_in_thread(call_sync)
                if not inspect.isawaitable(value):
                    return value
                thread.clear()  # what is awaited can be cancelled
                with self._user_code(definition):
                    return await value
        except TimeoutError:  # the user's own has become a ToolExecutionError
            runs_on = f" Its thread, {thread[0]}, can't be stopped and runs on." if thread else ""
            message = f"{definition.name} did not return within {limit:g} s.{runs_on}"
            logger.warning(message)
            raise ToolTimeoutError(message, tool=definition.name) from None
        finally:
            over.set()

    def _time_limit(self, definition: FunctionDefinition) -> float | None:
        """Seconds that a call, and formatting its value, may take; None for no limit."""
        limit = self.timeout if definition.timeout is None else definition.timeout
        return None if limit is None or math.isinf(limit) else limit

    @contextmanager
    def _user_code(self, definition: FunctionDefinition) -> Iterator[None]:
        """Turns what the user's code raises into ToolExecutionError, so that none of it is mistaken for ours.

        A KeyboardInterrupt on the main thread passes, since it is the user's, and so does the cancellation of the task
        that runs the tool.
        """
        try:
            with self.call_context(definition) if self.call_context else nullcontext():
                yield
        except BaseException as error:  # SystemExit and a tool's own CancelledError end the tool only
            if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
                raise
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            raise _execution_error(definition.name, error) from error

    async def _format_value(self, state: _CallState, definition: FunctionDefinition, value: Any) -> ToolOutcome:
        """The outcome of a function that returned. A value that may take long to format is formatted in a thread."""
        fields: dict[str, Any] = {"value": value, "duration_s": time.perf_counter() - state.clock}
        kind = type(value).__name__

        def formatted() -> tuple[Content, str]:
            return self.format_result(value), safe_repr(value)

        try:
            if value is None or isinstance(value, (str, bool, int, float)):
                content, fields["value_repr"] = formatted()
            else:
                async with asyncio.timeout(self._time_limit(definition)):
                    content, fields["value_repr"] = await run_in_thread(formatted)
        except TimeoutError:
            content = f"<{kind}, which took too long to show>"
        except Exception as error:  # a repr of the user's failed; the function has done its work
            logger.debug("a %s can't be shown", kind, exc_info=True)
            content = f"<{kind}, which can't be shown: {type(error).__name__}: {error}>"
        if state.fields.get("approval") == "edited":
            content = _with_edited_note(content, state.call.arguments)
        return state.outcome(content, self.max_result_chars, **fields)

    def _format_failure(self, state: _CallState, error: BaseException) -> ToolOutcome:
        fields: dict[str, Any] = {"is_error": True, "error": error}
        if isinstance(error, (ToolArgumentsError, UnknownToolError)) and state.definition is None:
            text = str(error)
            fields |= {"args_valid": False, "validation_error": text}
        elif isinstance(error, ToolDeniedError):
            text = f"Error: {error}"
            fields |= {"denied": True, "approval": "denied"}
        else:
            text = f"Error: {error}" if isinstance(error, ToolError) else format_error(error)
        return state.outcome(text, self.max_result_chars, **fields)


def _execution_error(name: str, error: BaseException) -> ToolExecutionError:
    return ToolExecutionError(f"{name} raised {error_summary(error)}", tool=name)


async def _on_main_thread(function: Callable[[], Any], definition: FunctionDefinition) -> Any:
    try:
        return await call_on_main(function)
    except RuntimeError as error:  # not the tool's, which would be a ToolExecutionError
        raise ToolError(f"{definition.name} must run on the main thread: {error}", tool=definition.name) from error


async def _await_if_needed(value: Any) -> Any:
    return await value if isinstance(value, Awaitable) else value


def _is_being_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        return False
    return task is not None and task.cancelling() > 0


def _with_edited_note(content: Content, arguments: dict[str, Any]) -> Content:
    """Tells the model that other arguments than its own were used."""
    note = f"The user changed the arguments to {json.dumps(arguments, ensure_ascii=False, default=str)}.\n"
    return note + content if isinstance(content, str) else [{"type": "text", "text": note}, *content]


# -- generators: a tool's result is the list of what they yield -------------------------------------------------------


def _collect(values: Iterator[Any], over: threading.Event) -> list[Any]:
    """Everything that is yielded before the call is `over`."""
    items: list[Any] = []
    for item in values:
        if over.is_set():
            break
        _append(items, item)
    return items


async def _collect_async(values: AsyncIterator[Any]) -> list[Any]:
    items: list[Any] = []
    async for item in values:
        _append(items, item)
    return items


def _append(items: list[Any], item: Any) -> None:
    if len(items) == MAX_ITEMS:
        raise ValueError(f"it yielded more than {MAX_ITEMS:,} items: a tool must come to an end")
    items.append(item)


# -- results of tools with `cache_ttl` --------------------------------------------------------------------------------


def _cache_key(name: str, version: str, arguments: dict[str, Any]) -> str | None:
    """The key of a result; None if the arguments are not JSON."""
    try:
        return json.dumps([name, version, arguments], sort_keys=True)
    except (TypeError, ValueError):  # Python objects, from a caller that is not a model
        return None


class _ResultCache:
    """The latest results, by key. Each belongs to one function: another object's method may have the same source."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, tuple[float, Any, Any]] = OrderedDict()

    def get(self, key: str, func: Any) -> tuple[Any] | None:
        """The result in a tuple, since None is a result too; None if there is no fresh one of this function."""
        expires, value, made_by = self._entries.get(key, (0.0, None, None))
        return (value,) if time.monotonic() < expires and is_same(made_by, func) else None

    def put(self, key: str, value: Any, ttl: float, func: Any) -> None:
        """Keep a result of `func` for `ttl` seconds."""
        self._entries[key] = (time.monotonic() + ttl, value, func)
        self._entries.move_to_end(key)
        while len(self._entries) > MAX_CACHED_RESULTS:
            self._entries.popitem(last=False)

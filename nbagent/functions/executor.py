"""Runs a model's tool calls: validates arguments, asks for approval, calls the function, formats the result.

`ToolExecutor.run` is for the agent's loop: it returns a `ToolOutcome` for every call. `ToolExecutor.execute` is for
programs: it returns the function's own value and raises `ToolError`s.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import math
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import copy_context
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from itertools import takewhile
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from nbagent.core.background import call_on_main
from nbagent.core.current import changed, current
from nbagent.core.history.repair import NO_RESULT
from nbagent.core.messages import Content, FunctionCall
from nbagent.core.results import ToolOutcome
from nbagent.core.threads import THREADS_VARIABLE, max_tool_threads, run_in_thread
from nbagent.errors import (
    ToolArgumentsError,
    ToolDeniedError,
    ToolError,
    ToolExecutionError,
    ToolTimeoutError,
    UnknownToolError,
)
from nbagent.functions.allowances import Allow, Allowances, as_key
from nbagent.functions.approval import Approver, approver_of, ask_approver, check_approver, needs_approval
from nbagent.functions.binding import is_same
from nbagent.functions.elicitation import CallInProgress
from nbagent.functions.formatting import error_summary, format_error, format_result, short_repr, truncate_result
from nbagent.functions.provider_tools import chosen_tools
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry
from nbagent.functions.schema.introspection import is_async
from nbagent.functions.source import cell_of, function_version

if TYPE_CHECKING:
    from nbagent.functions.schema.function_schema import FunctionSchema

logger = logging.getLogger("nbagent")

CallContext = Callable[[FunctionDefinition], AbstractContextManager[Any]]

RETRY_DELAY_S = 0.2
MAX_CACHED_RESULTS = 256
_INTERRUPTED = {"is_error": True, "interrupted": True}
_DENIED = "The call was not approved. Do not repeat it unchanged; ask the user how to continue."
#: Lazy iterators, which become lists of their items. Files, cursors and other iterators stay unchanged.
_LAZY = (GeneratorType, map, filter, zip, enumerate)


@dataclass(slots=True)
class _CallState:
    """One running call. `definition` is set once the arguments are valid. `fields` are copied to the outcome."""

    call: FunctionCall
    #: Receives the outcome if the call is cancelled.
    interrupted: list[ToolOutcome]
    definition: FunctionDefinition | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    clock: float = 0.0
    fields: dict[str, Any] = field(default_factory=dict)

    def start_clock(self) -> None:
        """Start the clock, or restart it after approval: a person's time does not count as the tool's."""
        self.clock = time.perf_counter()
        self.fields["started"] = time.time()

    def outcome(self, content: Content, limit: int, **fields: Any) -> ToolOutcome:
        """The outcome, with `content` cut to about `limit` characters."""
        content, chars, truncated = truncate_result(content, limit)
        fields = {"duration_s": time.perf_counter() - self.clock, **self.fields, **fields}
        return ToolOutcome(self.call, content, result_chars=chars, truncated=truncated, **fields)


class ToolExecutor:
    """Runs the functions of a registry.

    `timeout`, in seconds, applies to tools without a timeout of their own; None means no limit. Results for the model
    are cut at `max_result_chars`. `call_context(definition)` returns a context manager that is entered in the tool's
    thread, directly around the function call. If `runs_exclusively(definition)` is true, the tool never runs at the
    same time as other tools. `approver` decides on calls to tools with `approve=True`. With `approve_all`, it decides
    on all calls, including those made by agents that a tool runs. It receives a copy of the validated arguments. Each
    approval is for one execution, so an approved call is not retried. A sync approver runs in a thread, so it may
    block. The model reads the type and message of a tool's exception. With `tracebacks`, the model also reads the lines
    of your code that led to the exception.
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
        tracebacks: bool = False,
    ) -> None:
        check_approver(approver)
        self.registry = registry
        self.approver = approver
        self.approve_all = False
        self.timeout = timeout
        self.max_result_chars = max_result_chars
        self.call_context = call_context
        self.runs_exclusively = runs_exclusively
        self.tracebacks = tracebacks
        #: The person's approvals for the session.
        self.allowances = Allowances()
        self._cache = _ResultCache()

    def list_functions(self) -> list[dict[str, Any]]:
        """The tools that are offered now."""
        return self.registry.list_functions()

    def is_parallel(self, name: str) -> bool:
        """Whether the tool may run at the same time as the other calls of its turn."""
        definition = self.registry.get_function(name)
        if definition is None:
            return True
        return definition.parallel and not (self.runs_exclusively and self.runs_exclusively(definition))

    def with_options(
        self, *, only: Iterable[str] | None = None, approve_all: bool = False, timeout: float | None = None
    ) -> ToolExecutor:
        """A copy that offers only the tools in `only`, asks before each call, or uses another `timeout`.

        An option that is None or False changes nothing. An unknown name in `only` raises ConfigurationError. A provider
        tool's name, such as "web_search", adds that tool.
        """
        other = copy(self)
        if only is not None:
            other.registry = chosen_tools(self.registry, only)
        other.approve_all = self.approve_all or approve_all
        other.timeout = self.timeout if timeout is None else timeout
        return other

    async def execute(self, function_name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Call a tool and return its value unchanged.

        Raises UnknownToolError, ToolArgumentsError, ToolDeniedError, ToolTimeoutError, or ToolExecutionError, whose
        `__cause__` is the function's exception.

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
        """Format a function's value for the model; see `nbagent.functions.formatting`. Override this method to change
        the format.
        """
        return format_result(result)

    async def run(self, call: FunctionCall, interrupted: list[ToolOutcome] | None = None) -> ToolOutcome:
        """Run a model's call and always return an outcome. Raises only CancelledError and KeyboardInterrupt.

        If the call is cancelled while the function runs, the outcome is added to `interrupted`. The outcome's `error`
        is the function's exception or nbagent's `ToolError`.
        """
        state = _CallState(call, [] if interrupted is None else interrupted)
        state.start_clock()
        try:
            definition = self._validate(state)
            await self._ask_approval(state, definition)
            if "In Python:" in definition.description:
                from nbagent.functions.in_python import python_of
                from nbagent.functions.validation import as_json_data

                state.fields["python"] = python_of(definition, as_json_data(state.arguments))
            value = await _await_if_needed(self.registry.before_call(definition, state.arguments))
            if value is None:
                value = await self._call(state, definition)
            outcome = await self._format_value(state, definition, value)
        except ToolError as error:
            raised = error.__cause__ if isinstance(error, ToolExecutionError) else None
            outcome = self._format_failure(state, raised or error)
        except Exception as error:  # a hook, which is the user's code, failed; the call still needs a result
            logger.warning("a hook of %r failed during a call of %s", self.registry, call.name, exc_info=True)
            outcome = self._format_failure(state, error)
        if state.definition is not None:
            try:
                await _await_if_needed(self.registry.after_call(state.definition, state.arguments, outcome))
            except Exception:
                logger.warning("after_call of %r failed for %s", self.registry, call.name, exc_info=True)
        return outcome

    def _validate(self, state: _CallState) -> FunctionDefinition:
        """Find the tool and validate the arguments. Raises UnknownToolError or ToolArgumentsError."""
        # loaded with the first call, to keep `import nbagent.agent.agent` fast
        from nbagent.functions.validation import as_json_data, malformed_arguments, unknown_tool, validate_arguments

        call = state.call
        definition = self.registry.get_function(call.name)
        if definition is None:
            raise unknown_tool(call.name, self.registry.names())
        state.fields["function_version"] = function_version(definition.func)
        state.fields["source"] = definition.source if isinstance(definition.source, str) else ""
        state.fields["cell_id_of_definition"] = cell_of(definition.func)
        if call.raw is not None:
            raise malformed_arguments(definition, call)
        state.arguments, state.fields["repaired"] = validate_arguments(definition, call.arguments)
        if state.fields["repaired"]:
            state.fields["args_repaired"] = as_json_data(state.arguments)
        if callable(definition.source):
            state.fields["source"] = definition.source(**state.arguments)
        state.definition = definition
        return definition

    async def _ask_approval(self, state: _CallState, definition: FunctionDefinition) -> None:
        """Raise ToolDeniedError unless the call needs no approval or is approved. Uses edited arguments, if any."""
        approves_all = self.approve_all or current.get().approves_all
        if not (approves_all or await needs_approval(definition, state.arguments)):
            return
        from nbagent.functions.validation import as_json_data, validate_arguments

        # a copy of the validated arguments: if the approver changes it without returning it, nothing happens
        question = replace(state.call, arguments=as_json_data(state.arguments))
        key = as_key(question.arguments)
        if not approves_all and self.allowances.cover(definition.func, key):
            state.fields["approval"] = "allowed"
            return
        if definition.preview is not None:
            from nbagent.functions.preview import PreviewedCall  # loads the Markdown renderer

            preview = await _await_if_needed(definition.preview(**state.arguments))
            question = PreviewedCall(question.name, question.arguments, question.id, preview=preview)
        asked = time.perf_counter()
        try:
            answer = await ask_approver(approver_of(self.approver), question, definition)
        finally:
            state.fields["approval_wait_s"] = time.perf_counter() - asked
        if isinstance(answer, dict):
            try:
                state.arguments, _ = validate_arguments(definition, answer)
            except ToolArgumentsError as error:
                logger.warning("the call is denied, since its edited arguments are invalid: %s", error)
                raise ToolDeniedError(_DENIED, tool=definition.name) from error
            state.call = replace(state.call, arguments=deepcopy(answer))
        elif isinstance(answer, Allow):
            self.allowances.add(answer, definition.func, key)
        elif not answer:
            raise ToolDeniedError(_DENIED, tool=definition.name)
        state.fields["approval"] = "edited" if isinstance(answer, dict) else "approved"
        state.start_clock()

    async def _call(self, state: _CallState, definition: FunctionDefinition) -> Any:
        """Return the function's value from the cache, or call the function, with retries."""
        key = None
        if definition.cache_ttl is not None and not _own_schema(definition).run_contexts:  # results depend on the run
            key = _cache_key(definition.name, state.fields["function_version"], state.call.arguments)
        if key is not None and (cached := self._cache.get(key, definition.func)) is not None:
            return cached[0]
        was_asked = state.fields.get("approval") in ("approved", "edited")  # an approval is for one execution
        attempts = 1 if was_asked else definition.retries + 1
        for attempt in range(1, attempts + 1):
            try:
                value = await self._call_once(state, definition, attempt)
                break
            except ToolExecutionError as error:
                if attempt == attempts:
                    raise
                logger.info("%s; attempt %d of %d", error, attempt, attempts)
                await asyncio.sleep(RETRY_DELAY_S * 2 ** (attempt - 1))
        if key is not None and definition.cache_ttl is not None:
            self._cache.put(key, value, definition.cache_ttl, definition.func)
        return value

    async def _call_once(self, state: _CallState, definition: FunctionDefinition, attempt: int) -> Any:
        """Call the function on the event loop, on the main thread or in a thread, within its time limit.

        Waiting for the main thread does not count.
        """
        args, kwargs = _bound(state, definition, attempt)
        #: Empty before the function starts. Then its thread's name, or "" if it is a task or has returned.
        thread: list[str] = []
        is_over = False
        loop, limit = asyncio.get_running_loop(), self._time_limit(definition)

        def start_time(deadline: asyncio.Timeout) -> None:
            with suppress(RuntimeError):  # the call was cancelled
                deadline.reschedule(None if limit is None else loop.time() + limit)

        def call_sync() -> Any:
            thread.append(threading.current_thread().name)
            if definition.main_thread:
                state.start_clock()
                loop.call_soon_threadsafe(start_time, deadline)
            try:
                with self._user_code(definition):
                    value = definition.func(*args, **kwargs)
                    if not isinstance(value, _LAZY):
                        return value
                    return list(takewhile(lambda _: not is_over, value))
            finally:
                thread[:] = [""]

        async def call_async() -> Any:
            value = definition.func(*args, **kwargs)
            return [item async for item in value] if inspect.isasyncgen(value) else await value

        value: Any
        try:
            async with asyncio.timeout(None if definition.main_thread else limit) as deadline:
                with self._in_progress(definition, deadline):
                    if is_async(definition.func):
                        thread.append("")
                        value = call_async()
                    elif definition.main_thread:
                        value = await _on_main_thread(call_sync, definition)
                    else:
                        value = await run_in_thread(call_sync)
                    if not inspect.isawaitable(value):
                        return value
                    thread[:] = [""]  # awaitables can be cancelled
                    with self._user_code(definition):
                        return await value
        except TimeoutError:  # our time limit; the function's own errors are ToolExecutionErrors by now
            message = _timeout_text(definition, limit or 0.0, thread)
            logger.warning(message)
            raise ToolTimeoutError(message, tool=definition.name) from None
        except asyncio.CancelledError:
            if thread:
                text = f"{NO_RESULT}{_still_running(thread[0])}"
                state.interrupted.append(state.outcome(text, self.max_result_chars, **_INTERRUPTED))
            raise
        finally:
            is_over = True

    def _in_progress(self, definition: FunctionDefinition, deadline: asyncio.Timeout) -> AbstractContextManager[None]:
        """Give the tool, and agents that it calls, the approver to ask, and whether to ask about all calls."""
        approves_all, approver = self.approve_all or current.get().approves_all, approver_of(self.approver)
        call = CallInProgress(definition, approver, asyncio.get_running_loop(), copy_context(), deadline)
        return changed(approver=approver, approves_all=approves_all, call_in_progress=call)

    def _time_limit(self, definition: FunctionDefinition) -> float | None:
        """The seconds that a call may take, and then formatting its value; None for no limit."""
        limit = self.timeout if definition.timeout is None else definition.timeout
        return None if limit is None or math.isinf(limit) else limit

    @contextmanager
    def _user_code(self, definition: FunctionDefinition) -> Iterator[None]:
        """Turn exceptions of the user's code into ToolExecutionErrors, to distinguish them from nbagent's errors.

        The user's KeyboardInterrupt on the main thread and the cancellation of the tool's task pass through.
        """
        try:
            with self.call_context(definition) if self.call_context else nullcontext():
                yield
        except BaseException as error:  # SystemExit and a tool's own CancelledError end only the tool
            if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
                raise
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            raise _execution_error(definition.name, error) from error

    async def _format_value(self, state: _CallState, definition: FunctionDefinition, value: Any) -> ToolOutcome:
        """The outcome of a function that returned. Values that may be slow to format are formatted in a thread."""
        fields: dict[str, Any] = {"value": value, "duration_s": time.perf_counter() - state.clock}
        fields["pinned"] = definition.pinned
        kind = type(value).__name__

        def formatted() -> tuple[Content, str]:
            return self.format_result(value), short_repr(value)

        try:
            if value is None or isinstance(value, (str, bool, int, float)):
                content, fields["value_repr"] = formatted()
            else:
                async with asyncio.timeout(self._time_limit(definition)):
                    content, fields["value_repr"] = await run_in_thread(formatted)
        except TimeoutError:
            content = f"<{kind}, which took too long to format>"
        except Exception as error:  # a `repr` is the user's code; the function itself has succeeded
            logger.debug("a %s can't be formatted", kind, exc_info=True)
            content = f"<{kind}, which can't be formatted: {error_summary(error)}>"
        if state.fields.get("approval") == "edited":
            note = _edited_note(state.call.arguments)
            content = note + content if isinstance(content, str) else [{"type": "text", "text": note}, *content]
        limit = sys.maxsize if definition.pinned else self.max_result_chars
        return state.outcome(content, limit, **fields)

    def _format_failure(self, state: _CallState, error: BaseException) -> ToolOutcome:
        fields: dict[str, Any] = {"is_error": True, "error": error}
        if isinstance(error, (ToolArgumentsError, UnknownToolError)) and state.definition is None:
            text = str(error)
            fields |= {"args_valid": False, "validation_error": text, "validation_kind": "unknown_tool"}
            if isinstance(error, ToolArgumentsError):
                fields |= {"validation_kind": error.kind, "validation_field": error.field}
        elif isinstance(error, ToolDeniedError):
            text = f"Error: {error}"
            fields |= {"denied": True, "approval": "denied"}
        else:
            is_ours = isinstance(error, ToolError)
            text = f"Error: {error}" if is_ours else format_error(error, with_lines=self.tracebacks)
            if state.fields.get("approval") == "edited":
                text = f"{_edited_note(state.call.arguments)}{text}"
        return state.outcome(text, self.max_result_chars, **fields)


def _bound(state: _CallState, definition: FunctionDefinition, attempt: int) -> tuple[list[Any], dict[str, Any]]:
    """The positional and keyword arguments for the function."""
    schema, arguments = definition.schema or _own_schema(definition), dict(state.arguments)
    for name in schema.run_contexts:
        arguments[name] = replace(current.get().call, tool_name=definition.name, attempt=attempt)
    args = [arguments[name] for name in schema.positional if name in arguments]
    return args, {name: value for name, value in arguments.items() if name not in schema.positional}


def _still_running(thread: str) -> str:
    return f" Native code keeps running in its thread, {thread}, until it ends." if thread else ""


def _timeout_text(definition: FunctionDefinition, limit: float, thread: list[str]) -> str:
    text = f"{definition.name} did not return within {limit:g} s."
    if not thread and not definition.main_thread:
        return f"{text} It did not start, because {max_tool_threads()} others are running. Raise {THREADS_VARIABLE}."
    more = max(60, 4 * limit)
    agent_wide = f" or Limits(tool_seconds={more:g})" if definition.timeout is None else ""
    owner = "MCPServer" if str(definition.source).startswith("mcp:") else "@tool"
    return f"{text}{_still_running(''.join(thread))} {owner}(timeout={more:g}){agent_wide} gives it more time."


def _execution_error(name: str, error: BaseException) -> ToolExecutionError:
    return ToolExecutionError(f"{name} raised {error_summary(error)}", tool=name)


async def _on_main_thread(function: Callable[[], Any], definition: FunctionDefinition) -> Any:
    try:
        return await call_on_main(function)
    except RuntimeError as error:  # from nbagent; the tool's own errors are ToolExecutionErrors by now
        raise ToolError(f"{definition.name} must run on the main thread: {error}", tool=definition.name) from error


async def _await_if_needed(value: Any) -> Any:
    return await value if isinstance(value, Awaitable) else value


def _is_being_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        return False
    return task is not None and task.cancelling() > 0


def _edited_note(arguments: dict[str, Any]) -> str:
    return f"The user changed the arguments to {json.dumps(arguments, ensure_ascii=False, default=str)}.\n"


def _own_schema(definition: FunctionDefinition) -> FunctionSchema:
    """The schema of the function's signature, even if the tool's parameters were given."""
    from nbagent.functions.schema.function_schema import schema_of

    return schema_of(definition.func)


def _cache_key(name: str, version: str, arguments: dict[str, Any]) -> str | None:
    """The cache key of a call, or None if the arguments are not JSON."""
    try:
        return json.dumps([name, version, arguments], sort_keys=True)
    except (TypeError, ValueError):  # Python objects, from a caller that is not a model
        return None


class _ResultCache:
    """The latest results, by key and function: methods of different objects have the same source."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, tuple[float, Any, Any]] = OrderedDict()

    def get(self, key: str, func: Any) -> tuple[Any] | None:
        """This function's fresh result in a tuple, since it may be None, else None."""
        expires, value, cached_func = self._entries.get(key, (0.0, None, None))
        return (value,) if time.monotonic() < expires and is_same(cached_func, func) else None

    def put(self, key: str, value: Any, ttl: float, func: Any) -> None:
        """Keep a result of `func` for `ttl` seconds."""
        self._entries[key] = (time.monotonic() + ttl, value, func)
        self._entries.move_to_end(key)
        while len(self._entries) > MAX_CACHED_RESULTS:
            self._entries.popitem(last=False)

"""Tools run: values, errors, threads, time limits, retries, approval, hooks, the cache."""

import asyncio
import contextlib
import contextvars
import datetime as dt
import functools
import logging
import math
import threading
from dataclasses import dataclass

import pytest

from nbagent.core.background import run_sync
from nbagent.core.messages import FunctionCall
from nbagent.errors import (
    ToolArgumentsError,
    ToolDeniedError,
    ToolExecutionError,
    ToolTimeoutError,
    UnknownToolError,
)
from nbagent.functions import executor as executor_module
from nbagent.functions.executor import ToolExecutor
from nbagent.functions.formatting import NO_VALUE
from nbagent.functions.registry import FunctionRegistry


def executor_of(*functions, registry=None, parameters=None, options=None, **settings):
    registry = registry or FunctionRegistry()
    for function in functions:
        name = getattr(function, "__name__", "tool")
        registry.register("tool" if name == "<lambda>" else name, "", function, parameters, **(options or {}))
    return ToolExecutor(registry, **settings)


async def run(executor, name="tool", **arguments):
    return await executor.run(FunctionCall(name, arguments, "call_1"))


# -- values -----------------------------------------------------------------------------------------------------------


def add(a: int, b: int = 0) -> dict:
    return {"sum": a + b}


async def add_async(a: int, b: int = 0) -> dict:
    await asyncio.sleep(0)
    return {"sum": a + b}


class Adder:
    def __init__(self, b):
        self.b = b

    def method(self, a: int):
        return {"sum": a + self.b}

    async def async_method(self, a: int):
        return {"sum": a + self.b}

    def __call__(self, a: int):
        return {"sum": a + self.b}


class AsyncAdder(Adder):
    async def __call__(self, a: int):
        return {"sum": a + self.b}


def positional(a: int, /, b: int = 0, *rest):
    return {"sum": a + b}


@functools.wraps(add_async)
def plain_wrapper_of_async(*args, **kwargs):
    return add_async(*args, **kwargs)


@pytest.mark.parametrize(
    "function",
    [
        add,
        add_async,
        lambda a, b: {"sum": a + b},
        functools.partial(add, b=2),
        functools.partial(add_async, b=2),
        Adder(2).method,
        Adder(2).async_method,
        Adder(2),
        AsyncAdder(2),
        positional,
        plain_wrapper_of_async,
    ],
    ids=lambda function: getattr(function, "__qualname__", type(function).__name__),
)
async def test_callables_of_every_kind(function):
    registry = FunctionRegistry()
    registry.register("tool", "", function)
    arguments = {"a": 1, "b": 2} if "b" in registry.get_function("tool").parameters["properties"] else {"a": 1}
    executor = ToolExecutor(registry)
    assert await executor.execute("tool", arguments) == {"sum": 3}
    outcome = await run(executor, **arguments)
    assert (outcome.content, outcome.value, outcome.is_error, outcome.args_valid) == (
        '{"sum": 3}',
        {"sum": 3},
        False,
        True,
    )


async def test_every_field_of_an_outcome():
    call = FunctionCall("add", {"a": "1"}, "call_1")
    outcome = await executor_of(add).run(call)
    assert outcome.call is call
    assert (outcome.error, outcome.validation_error, outcome.denied) == (None, None, False)
    assert outcome.repaired
    assert outcome.approval == "auto"
    assert (outcome.truncated, outcome.result_chars) == (False, len('{"sum": 1}'))
    assert outcome.started > 1e9
    assert 0 < outcome.duration_s < 60
    assert len(outcome.function_version) == 12


async def test_generators_are_exhausted():
    def numbers(n: int):
        yield from range(n)

    async def async_numbers(n: int):
        for number in range(n):
            yield number

    executor = executor_of(numbers, async_numbers)
    assert await executor.execute("numbers", {"n": 3}) == [0, 1, 2]
    assert await executor.execute("async_numbers", {"n": 3}) == [0, 1, 2]


async def test_instances_and_dates_arrive_as_such():
    @dataclass
    class Point:
        x: int

    def tool(point: Point, day: dt.date):
        return type(point) is Point and day == dt.date(2026, 1, 2)

    executor = executor_of(tool)
    assert await executor.execute("tool", {"point": {"x": 1}, "day": "2026-01-02"}) is True


async def test_given_parameters_give_plain_values():
    parameters = {"type": "object", "properties": {"a": {"type": "object"}}, "required": ["a"]}
    executor = executor_of(lambda **arguments: arguments, parameters=parameters)
    assert await executor.execute("tool", {"a": {"x": 1}, "b": 2}) == {"a": {"x": 1}, "b": 2}
    with pytest.raises(ToolArgumentsError, match="a: required field is missing"):
        await executor.execute("tool", {})


async def test_none_has_a_phrase():
    executor = executor_of(lambda: None)
    assert (await run(executor)).content == NO_VALUE
    assert await executor.execute("tool") is None


async def test_long_results_are_cut_and_kept_whole_in_the_value():
    outcome = await run(executor_of(lambda: "x" * 5000, max_result_chars=1000))
    assert len(outcome.content) <= 1000
    assert (outcome.truncated, outcome.result_chars, len(outcome.value)) == (True, 5000, 5000)


async def test_a_value_that_cannot_be_shown_is_no_failure():
    class Stubborn:
        def __str__(self):
            raise RuntimeError("no")

    outcome = await run(executor_of(lambda: Stubborn()))
    assert not outcome.is_error
    assert isinstance(outcome.value, Stubborn)
    assert outcome.content == "<Stubborn, which can't be shown: RuntimeError: no>"


async def test_format_result_can_be_overridden():
    class Shouting(ToolExecutor):
        def format_result(self, result):
            return str(result).upper()

    registry = FunctionRegistry()
    registry.register("tool", "", lambda: ["a"])
    assert (await run(Shouting(registry))).content == "['A']"


# -- errors -----------------------------------------------------------------------------------------------------------


def failing():
    raise ValueError("no such column")


async def failing_async():
    raise ValueError("no such column")


@pytest.mark.parametrize("function", [failing, failing_async])
async def test_an_exception_becomes_an_error_result(function):
    executor = executor_of(function)
    outcome = await run(executor, function.__name__)
    assert outcome.is_error
    assert isinstance(outcome.error, ValueError)
    assert outcome.args_valid
    lines = outcome.content.splitlines()
    assert lines[0] == "Error: ValueError: no such column"
    assert len(lines) == 3
    assert lines[2].endswith(f'in {function.__name__}: raise ValueError("no such column")')
    with pytest.raises(ToolExecutionError, match=f"{function.__name__} raised ValueError: no such column") as raised:
        await executor.execute(function.__name__)
    assert raised.value.__cause__ is not None
    assert raised.value.tool == function.__name__


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), StopIteration(5), TimeoutError("mine"), asyncio.CancelledError(), GeneratorExit()],
    ids=repr,
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_odd_exceptions_end_the_tool_only(error, is_async):
    def tool():
        raise error

    async def async_tool():
        raise error

    outcome = await run(executor_of(tool, async_tool), "async_tool" if is_async else "tool")
    assert outcome.is_error
    assert not isinstance(outcome.error, ToolTimeoutError)
    assert outcome.content.startswith("Error: ")


@pytest.mark.parametrize("is_async", [False, True])
def test_keyboard_interrupt_goes_through(is_async):
    def tool():
        raise KeyboardInterrupt

    async def async_tool():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run(executor_of(tool, async_tool), "async_tool" if is_async else "tool"))


async def test_unknown_tools_and_wrong_arguments():
    executor = executor_of(add)
    unknown = await run(executor, "ad")
    assert "did you mean add?" in unknown.content
    wrong = await run(executor, "add", a="x")
    assert 'a: must be an integer (got "x", type str)' in wrong.content
    malformed = await executor.run(FunctionCall("add", {}, "1", raw='{"a": 1'))
    assert "arguments: must be a JSON object" in malformed.content
    for outcome in (unknown, wrong, malformed):
        assert outcome.is_error
        assert not outcome.args_valid
        assert outcome.validation_error == outcome.content
    with pytest.raises(UnknownToolError):
        await executor.execute("ad")
    with pytest.raises(ToolArgumentsError):
        await executor.execute("add", {"a": "x"})


async def test_a_broken_schema_is_answered_too():
    outcome = await run(executor_of(lambda a: a, parameters={"properties": {"a": {"type": "strong"}}}), a=1)
    assert outcome.is_error
    assert "not a JSON Schema" in outcome.content


# -- threads and time -------------------------------------------------------------------------------------------------

VARIABLE = contextvars.ContextVar("variable", default="unset")


async def test_contextvars_arrive_in_threads_and_do_not_come_back():
    def tool():
        seen = VARIABLE.get()
        VARIABLE.set("from the tool")
        return seen, threading.current_thread() is threading.main_thread()

    VARIABLE.set("from the cell")
    assert await executor_of(tool).execute("tool") == ("from the cell", False)
    assert VARIABLE.get() == "from the cell"


async def test_many_tools_run_at_once():
    barrier = threading.Barrier(40)
    executor = executor_of(lambda: barrier.wait(timeout=30) >= 0)
    outcomes = await asyncio.gather(*(run(executor) for _ in range(40)))
    assert [outcome.value for outcome in outcomes] == [True] * 40


async def test_threads_are_used_again():
    executor = executor_of(lambda: threading.current_thread().name)
    names = {(await run(executor)).value for _ in range(50)}
    assert len(names) < 50


@pytest.mark.parametrize("where", ["executor", "tool"])
async def test_the_time_limit_of_a_sync_tool(where, caplog):
    release = threading.Event()

    def slow():
        release.wait(30)

    settings = {"timeout": 0.05} if where == "executor" else {"options": {"timeout": 0.05}}
    executor = executor_of(slow, **settings)
    with caplog.at_level(logging.WARNING, "nbagent"):
        outcome = await run(executor, "slow")
    try:
        assert outcome.is_error
        assert isinstance(outcome.error, ToolTimeoutError)
        assert outcome.content.startswith("Error: slow did not return within 0.05 s. Its thread, nbagent-tool-")
        assert "did not return within" in caplog.text
        with pytest.raises(ToolTimeoutError):
            await executor.execute("slow")
    finally:
        release.set()


async def test_the_time_limit_of_an_async_tool():
    ended = []

    async def slow():
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(True)

    outcome = await run(executor_of(slow, timeout=0.05), "slow")
    assert outcome.content == "Error: slow did not return within 0.05 s."
    assert ended


@pytest.mark.parametrize("settings", [{"timeout": None}, {"timeout": 0.05, "options": {"timeout": math.inf}}])
async def test_no_time_limit(settings):
    async def slow():
        await asyncio.sleep(0.1)
        return "done"

    assert (await run(executor_of(slow, **settings), "slow")).value == "done"


@pytest.mark.parametrize("is_async", [False, True])
async def test_cancellation_is_prompt_and_the_next_call_works(is_async):
    started, release = threading.Event(), threading.Event()

    def slow():
        started.set()
        release.wait(30)
        return "late"

    async def async_slow():
        started.set()
        await asyncio.sleep(30)

    executor = executor_of(slow, async_slow, timeout=60)
    task = asyncio.create_task(run(executor, "async_slow" if is_async else "slow"))
    while not started.is_set():
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    assert (await run(executor, "slow")).value == "late"


def test_a_process_ends_while_a_tool_still_runs():
    import subprocess
    import sys

    code = (
        "import asyncio, time\n"
        "from nbagent.functions.registry import FunctionRegistry\n"
        "from nbagent.functions.executor import ToolExecutor\n"
        "registry = FunctionRegistry()\n"
        "registry.register('slow', '', lambda: time.sleep(600))\n"
        "print(asyncio.run(ToolExecutor(registry, timeout=0.05).execute('slow')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "ToolTimeoutError: slow did not return" in done.stderr


# -- the main thread --------------------------------------------------------------------------------------------------


def on_which_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def test_main_thread_tools_run_where_the_caller_waits():
    executor = executor_of(on_which_thread, options={"main_thread": True})
    assert run_sync(run(executor, "on_which_thread")).value is True
    assert run_sync(run(executor_of(on_which_thread), "on_which_thread")).value is False


async def test_main_thread_tools_run_on_a_loop_of_the_main_thread():
    executor = executor_of(on_which_thread, options={"main_thread": True})
    assert (await run(executor, "on_which_thread")).value is True


async def test_errors_on_the_main_thread_are_the_tools():
    executor = executor_of(failing, options={"main_thread": True})
    assert (await run(executor, "failing")).content.startswith("Error: ValueError: no such column")


def test_nobody_serves_the_main_thread():
    executor = executor_of(on_which_thread, options={"main_thread": True})
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(asyncio.run(run(executor, "on_which_thread"))))
    thread.start()
    thread.join()
    assert outcomes[0].is_error
    assert outcomes[0].content.startswith("Error: on_which_thread must run on the main thread: ")


# -- around, retries, the cache ---------------------------------------------------------------------------------------


async def test_around_is_entered_right_around_the_call():
    seen = []

    @contextlib.contextmanager
    def around(definition):
        seen.append((definition.name, "in", threading.current_thread().name))
        yield
        seen.append((definition.name, "out", threading.current_thread().name))

    def tool():
        seen.append(("tool", "call", threading.current_thread().name))

    async def async_tool():
        seen.append(("async_tool", "call", threading.current_thread().name))

    executor = executor_of(tool, async_tool, around=around)
    await run(executor, "tool")
    await run(executor, "async_tool")
    assert [step for _, step, _ in seen] == ["in", "call", "out"] * 2
    assert len({thread for _, _, thread in seen[:3]}) == 1
    assert {thread for _, _, thread in seen[3:]} == {threading.current_thread().name}


@pytest.mark.parametrize(("retries", "is_error", "expected"), [(2, False, 3), (1, True, 2), (0, True, 1)])
async def test_retries(retries, is_error, expected, monkeypatch):
    monkeypatch.setattr(executor_module, "RETRY_DELAY_S", 0)
    calls = []

    def flaky():
        calls.append(1)
        if len(calls) < 3:
            raise OSError("again")
        return "done"

    outcome = await run(executor_of(flaky, options={"retries": retries}), "flaky")
    assert outcome.is_error is is_error
    assert len(calls) == expected


async def test_a_timeout_is_not_retried():
    calls = []

    async def slow():
        calls.append(1)
        await asyncio.sleep(30)

    await run(executor_of(slow, timeout=0.02, options={"retries": 3}), "slow")
    assert len(calls) == 1


async def test_the_cache(monkeypatch):
    calls = []

    def tool(a: int):
        calls.append(a)

    now = [1000.0]
    monkeypatch.setattr(executor_module.time, "monotonic", lambda: now[0])
    executor = executor_of(tool, options={"cache_ttl": 60})
    for arguments in ({"a": 1}, {"a": 1}, {"a": 2}):
        assert (await run(executor, **arguments)).content == NO_VALUE
    assert calls == [1, 2]
    now[0] += 61
    await run(executor, a=1)
    assert calls == [1, 2, 1]
    executor.registry.register("tool", "", lambda a: calls.append("new"), cache_ttl=60)
    await run(executor, a=1)
    assert calls == [1, 2, 1, "new"]


async def test_errors_are_not_cached():
    calls = []

    def tool():
        calls.append(1)
        raise ValueError

    executor = executor_of(tool, options={"cache_ttl": 60})
    await run(executor)
    await run(executor)
    assert len(calls) == 2


async def test_python_objects_are_not_cached():
    executor = executor_of(lambda a: object(), options={"cache_ttl": 60})
    marker = object()
    assert await executor.execute("tool", {"a": marker}) is not await executor.execute("tool", {"a": marker})


# -- approval ---------------------------------------------------------------------------------------------------------


def delete(key: str = "all", count: int = 1) -> str:
    return f"deleted {count} {key}"


def raising(call, definition):
    raise RuntimeError("no interface")


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("answer", "approval", "content"),
    [
        (True, "approved", "deleted 1 x"),
        ({"key": "y"}, "edited", 'The user changed the arguments to {"key": "y"}.\ndeleted 1 y'),
        ({"key": "y", "count": "2"}, "edited", "deleted 2 y"),
        ({}, "edited", "deleted 1 all"),
        (False, "denied", None),
        (None, "denied", None),
        ("yes", "denied", None),
        (1, "denied", None),
        ({"key": []}, "denied", None),
        ({"unknown": 1}, "denied", None),
        (raising, "denied", None),
    ],
    ids=str,
)
async def test_approval(is_async, answer, approval, content):
    asked = []

    def approver(call, definition):
        asked.append((call.arguments, definition.name))
        return answer(call, definition) if callable(answer) else answer

    async def async_approver(call, definition):
        return approver(call, definition)

    executor = executor_of(delete, options={"approve": True}, approver=async_approver if is_async else approver)
    outcome = await run(executor, "delete", key="x")
    assert asked == [({"key": "x"}, "delete")]
    assert outcome.approval == approval
    assert outcome.denied is outcome.is_error is (content is None)
    if content is None:
        assert outcome.content.startswith("Error: The call was not approved.")
        assert isinstance(outcome.error, ToolDeniedError)
        assert outcome.value is None
    else:
        assert outcome.content.endswith(content)
    if approval == "edited":
        assert outcome.call.arguments == answer


async def test_no_approver_means_no():
    executor = executor_of(delete, options={"approve": True})
    with pytest.raises(ToolDeniedError):
        await executor.execute("delete")
    assert (await run(executor, "delete")).denied


async def test_a_policy_asks_for_all():
    executor = executor_of(delete)
    assert (await run(executor, "delete")).approval == "auto"
    executor.approve_all = True
    assert (await run(executor, "delete")).denied


async def test_invalid_arguments_are_never_asked_about():
    executor = executor_of(delete, options={"approve": True}, approver=lambda *_: pytest.fail("asked"))
    assert not (await run(executor, "delete", key=[])).args_valid


async def test_a_sync_approver_may_block_and_hand_out_a_future():
    both = threading.Barrier(2)
    executor = executor_of(delete, options={"approve": True}, approver=lambda *_: both.wait(30) >= 0)
    outcomes = await asyncio.gather(run(executor, "delete"), run(executor, "delete"))
    assert [outcome.approval for outcome in outcomes] == ["approved", "approved"]
    answer = asyncio.get_running_loop().create_future()
    executor.approver = lambda *_: answer
    task = asyncio.create_task(run(executor, "delete"))
    await asyncio.sleep(0.01)
    answer.set_result(True)
    assert (await task).approval == "approved"


# -- hooks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
async def test_hooks(is_async):
    class Registry(FunctionRegistry):
        seen: list = []  # noqa: RUF012

        def before_call(self, definition, arguments):
            self.seen.append((definition.name, dict(arguments)))
            if arguments.get("key") == "cached":
                return "kept"
            if arguments.get("key") == "forbidden":
                raise ToolDeniedError("Not yours.", tool=definition.name)
            return None

        def after_call(self, definition, arguments, outcome):
            self.seen.append((outcome.content, outcome.is_error))

    class AsyncRegistry(Registry):
        seen: list = []  # noqa: RUF012

        async def before_call(self, definition, arguments):
            return super().before_call(definition, arguments)

        async def after_call(self, definition, arguments, outcome):
            super().after_call(definition, arguments, outcome)

    registry = AsyncRegistry() if is_async else Registry()
    executor = executor_of(delete, registry=registry)
    assert (await run(executor, "delete", count="2", key="a")).value == "deleted 2 a"
    assert (await run(executor, "delete", key="cached")).value == "kept"
    denied = await run(executor, "delete", key="forbidden")
    assert (denied.denied, denied.approval, denied.content) == (True, "denied", "Error: Not yours.")
    await run(executor, "delete", key=[])
    await run(executor, "nothing")
    seen, registry.seen[:] = list(registry.seen), []
    assert seen == [
        ("delete", {"key": "a", "count": 2}),
        ("deleted 2 a", False),
        ("delete", {"key": "cached"}),
        ("kept", False),
        ("delete", {"key": "forbidden"}),
        ("Error: Not yours.", True),
    ]


async def test_a_hook_that_fails(caplog):
    class Registry(FunctionRegistry):
        def before_call(self, definition, arguments):
            if arguments["key"] == "before":
                raise KeyError("hook")

        def after_call(self, definition, arguments, outcome):
            raise KeyError("hook")

    executor = executor_of(delete, registry=Registry())
    before = await run(executor, "delete", key="before")
    assert (before.is_error, isinstance(before.error, KeyError)) == (True, True)
    after = await run(executor, "delete", key="after")
    assert (after.is_error, after.value) == (False, "deleted 1 after")
    assert "after_call" in caplog.text

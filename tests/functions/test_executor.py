"""The executor runs callables of every kind; their values and their errors."""

import asyncio
import datetime as dt
import functools
from dataclasses import dataclass

import pytest
from support.tool_runs import executor_of, run

from nbagent.core.messages import FunctionCall
from nbagent.errors import (
    ToolArgumentsError,
    ToolExecutionError,
    ToolTimeoutError,
    UnknownToolError,
)
from nbagent.functions.executor import ToolExecutor
from nbagent.functions.formatting import NO_VALUE
from nbagent.functions.registry import FunctionRegistry

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


def positional(a: int, /, b: int = 0):
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

    def lazy_numbers(n: int):
        return map(int, "012"[:n])

    executor = executor_of(numbers, async_numbers, lazy_numbers)
    assert await executor.execute("numbers", {"n": 3}) == [0, 1, 2]
    assert await executor.execute("lazy_numbers", {"n": 3}) == [0, 1, 2]
    assert await executor.execute("async_numbers", {"n": 3}) == [0, 1, 2]


async def test_instances_and_dates_arrive_converted():
    @dataclass
    class Point:
        x: int

    def tool(point: Point, day: dt.date):
        return type(point) is Point and day == dt.date(2026, 1, 2)

    executor = executor_of(tool)
    assert await executor.execute("tool", {"point": {"x": 1}, "day": "2026-01-02"}) is True


async def test_with_given_parameters_the_function_gets_plain_values():
    parameters = {"type": "object", "properties": {"a": {"type": "object"}}, "required": ["a"]}
    executor = executor_of(lambda **arguments: arguments, parameters=parameters)
    assert await executor.execute("tool", {"a": {"x": 1}, "b": 2}) == {"a": {"x": 1}, "b": 2}
    with pytest.raises(ToolArgumentsError, match="a: required field is missing"):
        await executor.execute("tool", {})


async def test_a_restricted_executor():
    executor = executor_of(add, failing, options={"parallel": False})
    executor.registry.register("other", "", add)
    assert [function["name"] for function in executor.with_options(only=["add"]).list_functions()] == ["add"]
    assert len(executor.list_functions()) == 3
    assert [executor.is_parallel(name) for name in ("add", "other", "unknown")] == [False, True, True]
    with pytest.raises(UnknownToolError):
        await executor.with_options(only=["add"]).execute("failing")


async def test_none_becomes_a_phrase():
    executor = executor_of(lambda: None)
    assert (await run(executor)).content == NO_VALUE
    assert await executor.execute("tool") is None


async def test_long_results_are_cut_for_the_model_but_not_in_the_value():
    outcome = await run(executor_of(lambda: "x" * 5000, max_result_chars=1000))
    assert len(outcome.content) <= 1000
    assert (outcome.truncated, outcome.result_chars, len(outcome.value)) == (True, 5000, 5000)


async def test_a_value_that_cannot_be_shown_is_not_an_error():
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
    assert outcome.content == "Error: ValueError: no such column"
    executor.tracebacks = True
    lines = (await run(executor, function.__name__)).content.splitlines()
    assert lines[0] == outcome.content
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
async def test_unusual_exceptions_end_only_the_tool(error):
    def tool():
        raise error

    async def async_tool():
        raise error

    for name in ("tool", "async_tool"):
        outcome = await run(executor_of(tool, async_tool), name)
        assert outcome.is_error
        assert not isinstance(outcome.error, ToolTimeoutError)
        assert outcome.content.startswith("Error: ")


def test_the_users_keyboard_interrupt_propagates():
    async def tool():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run(executor_of(tool), "tool"))


def test_an_interrupt_raised_in_a_thread_is_the_tools_error():
    def tool():
        raise KeyboardInterrupt

    outcome = asyncio.run(run(executor_of(tool), "tool"))
    assert outcome.is_error
    assert "KeyboardInterrupt" in outcome.content


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


async def test_a_broken_schema_becomes_an_error_result():
    outcome = await run(executor_of(lambda a: a, parameters={"properties": {"a": {"type": "strong"}}}), a=1)
    assert outcome.is_error
    assert "not a JSON Schema" in outcome.content

"""The executor runs callables of every kind and handles their values and errors."""

import asyncio
import functools

import pytest
from support.tool_runs import executor_of, run

from nbagent.core.messages import FunctionCall
from nbagent.errors import ToolArgumentsError, ToolExecutionError, ToolTimeoutError, UnknownToolError
from nbagent.functions.executor import ToolExecutor
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


@functools.wraps(add_async)
def plain_wrapper_of_async(*args, **kwargs):
    return add_async(*args, **kwargs)


@pytest.mark.parametrize(
    "function",
    [
        add,
        add_async,
        lambda a, b: {"sum": a + b},
        functools.partial(add_async, b=2),
        Adder(2).method,
        Adder(2).async_method,
        Adder(2),
        AsyncAdder(2),
        plain_wrapper_of_async,
    ],
    ids=lambda function: getattr(function, "__qualname__", type(function).__name__),
)
async def test_callables_of_every_kind(function):
    registry = FunctionRegistry()
    registry.register("tool", "", function)
    arguments = {"a": 1, "b": 2} if "b" in registry.get_function("tool").parameters["properties"] else {"a": 1}
    assert await ToolExecutor(registry).execute("tool", arguments) == {"sum": 3}
    outcome = await run(ToolExecutor(registry), **arguments)
    assert (outcome.content, outcome.value, outcome.is_error) == ('{"sum": 3}', {"sum": 3}, False)


async def test_a_value_with_a_broken_repr_is_shown_to_the_model():
    class Detached:
        def __repr__(self):
            raise RuntimeError

        def __str__(self):
            return "row 1"

    registry = FunctionRegistry()
    registry.register("tool", "", lambda: [Detached()])
    outcome = await run(ToolExecutor(registry))
    assert (outcome.content, outcome.value_repr) == ('["row 1"]', "<list whose repr raised RuntimeError>")


async def test_generators_are_exhausted():
    def numbers(n: int):
        yield from range(n)

    async def async_numbers(n: int):
        for number in range(n):
            yield number

    def lazy_numbers(n: int):
        return map(int, "012"[:n])

    executor = executor_of(numbers, async_numbers, lazy_numbers)
    for name in executor.registry.names():
        assert await executor.execute(name, {"n": 3}) == [0, 1, 2]


async def test_long_results_are_cut_for_the_model_but_not_in_the_value():
    outcome = await run(executor_of(lambda: "x" * 5000, max_result_chars=1000))
    assert len(outcome.content) <= 1000
    assert (outcome.truncated, outcome.result_chars, len(outcome.value)) == (True, 5000, 5000)


# -- errors -----------------------------------------------------------------------------------------------------------


def failing():
    raise ValueError("no such column")


async def test_an_exception_becomes_an_error_result():
    executor = executor_of(failing)
    outcome = await run(executor, "failing")
    assert outcome.is_error
    assert isinstance(outcome.error, ValueError)
    assert outcome.content == "Error: ValueError: no such column"
    executor.tracebacks = True
    lines = (await run(executor, "failing")).content.splitlines()
    assert lines[0] == outcome.content
    assert lines[2].endswith('in failing: raise ValueError("no such column")')
    with pytest.raises(ToolExecutionError, match="failing raised ValueError: no such column") as raised:
        await executor.execute("failing")
    assert raised.value.tool == "failing"


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), StopIteration(5), TimeoutError("mine"), asyncio.CancelledError(), GeneratorExit()],
    ids=repr,
)
async def test_unusual_exceptions_do_not_end_the_run(error):
    def tool():
        raise error

    async def async_tool():
        raise error

    for name in ("tool", "async_tool"):
        outcome = await run(executor_of(tool, async_tool), name)
        assert outcome.is_error
        assert not isinstance(outcome.error, ToolTimeoutError)


async def test_unknown_tools_and_wrong_arguments():
    executor = executor_of(add)
    unknown, wrong = await run(executor, "ad"), await run(executor, "add", a="x")
    malformed = await executor.run(FunctionCall("add", {}, "1", raw='{"a": 1'))
    for outcome, told in (
        (unknown, "did you mean add?"),
        (wrong, 'a: must be a valid integer (got "x", type str)'),
        (malformed, "arguments: must be a JSON object"),
    ):
        assert told in outcome.content
        assert (outcome.is_error, outcome.args_valid, outcome.validation_error) == (True, False, outcome.content)
    with pytest.raises(UnknownToolError):
        await executor.execute("ad")
    with pytest.raises(ToolArgumentsError):
        await executor.execute("add", {"a": "x"})

"""Builds executors for given functions and runs single calls, for the tests of the executor."""

from nbagent.core.messages import FunctionCall
from nbagent.functions.executor import ToolExecutor
from nbagent.functions.registry import FunctionRegistry


def executor_of(*functions, registry=None, parameters=None, options=None, **settings):
    registry = registry or FunctionRegistry()
    for function in functions:
        name = getattr(function, "__name__", "tool")
        registry.register("tool" if name == "<lambda>" else name, "", function, parameters, **(options or {}))
    return ToolExecutor(registry, **settings)


async def run(executor, name="tool", **arguments):
    return await executor.run(FunctionCall(name, arguments, "call_1"))

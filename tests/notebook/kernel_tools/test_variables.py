"""Every variable is described in one line, which no code of its class can delay, break or flood."""

import functools
import threading

import numpy as np
import pandas as pd
import polars as pl
import pytest

from nbagent.core.messages import FunctionCall
from nbagent.errors import ConfigurationError
from nbagent.functions.executor import ToolExecutor
from nbagent.functions.registry import FunctionRegistry
from nbagent.notebook.kernel_tools.kernel_tools import KernelTools, kernel_tools
from nbagent.notebook.kernel_tools.variables import brief


class Hostile:
    """Every operation raises."""

    def __getattribute__(self, name):
        raise RuntimeError(name)

    def __repr__(self):
        raise RuntimeError("repr")

    def __len__(self):
        raise RuntimeError("len")


class Slow:
    """Like a lazy query, which runs when it is shown or measured."""

    asked = threading.Event()

    def __repr__(self):
        Slow.asked.wait()
        return "slow"

    @property
    def shape(self):
        Slow.asked.wait()


class OddList(list):
    def __len__(self):
        raise RuntimeError("len")

    def __repr__(self):
        raise RuntimeError("repr")


def area(width: float, unit=Hostile(), table=[Slow()], height: float = 1.0) -> float:  # noqa: B006, B008
    """Area."""


#: Created in the tests, since pytest would call their `repr` as parameters.
VARIABLES = {
    "int 42": lambda: 42,
    "str 'text'": lambda: "text",
    "str of length 1000000": lambda: "x" * 10**6,
    "list [1, 'a', None]": lambda: [1, "a", None],
    "list of length 3": lambda: functools.reduce(lambda inner, _: [inner] * 3, range(60), 0),
    "dict of length 1": lambda: {"a": Slow()},
    "OddList": lambda: OddList([1, 2]),
    "Hostile": lambda: Hostile(),
    "Slow": lambda: Slow(),
    "ndarray of shape (100000, 10000)": lambda: np.broadcast_to(np.float64(0), (10**5, 10**4)),
    "DataFrame of shape (2, 1)": lambda: pd.DataFrame({"a": [1, 2]}),
    "DataFrame of shape (2, 2)": lambda: pl.DataFrame({"a": [1, 2], "b": [1, 2]}),
    "LazyFrame": lambda: pl.LazyFrame({"a": [1, 2]}),
    "function (width: float, unit=…, table=…, height: float = 1.0) -> float": lambda: area,
}


@pytest.mark.parametrize("shown", VARIABLES)
def test_a_variable_in_a_line(shown):
    assert brief(VARIABLES[shown]()) == shown


async def _ask(tool, namespace, seconds=5.0, **arguments):
    registry = FunctionRegistry()
    registry.register("tool", "", getattr(KernelTools(namespace), tool), timeout=seconds)
    executor = ToolExecutor(registry)
    return await executor.run(FunctionCall("tool", arguments))


async def test_hostile_variables_are_described_as_far_as_possible():
    namespace = {"bad": OddList([1]), "slow": Slow(), "deep": [[[1] * 10_000] * 10_000] * 10_000, "large": "x" * 10**8}
    assert (await _ask("list_variables", namespace)).content.count("\n") == 3
    bad = await _ask("describe_variable", namespace, name="bad")
    assert "RuntimeError: len" in bad.content
    try:
        slow = await _ask("describe_variable", namespace, seconds=0.1, name="slow")
    finally:
        Slow.asked.set()
    assert "did not return within 0.1 s" in slow.content
    for name in ("deep", "large"):
        outcome = await _ask("describe_variable", namespace, seconds=60, name=name)
        assert len(outcome.content) <= 20_000


def test_a_wide_table_is_peeked_at():
    wide = pd.DataFrame(np.zeros((10, 500)), columns=[f"c{n}" for n in range(500)])
    tools = KernelTools({"wide": wide, "polars": pl.DataFrame({"a": [1, 2, 3]})})
    text = tools.peek_dataframe("wide", rows=2)
    assert text.startswith("DataFrame: 10 rows x 500 columns")
    assert len(text) < 3_000
    text = tools.peek_dataframe("polars", rows=1, columns=["a"])
    assert text.startswith("DataFrame: 3 rows x 1 columns\ndtypes: a: Int64\nfirst 1 rows:")


def test_without_a_notebook_the_tools_need_a_namespace():
    tools = kernel_tools({"a": 1})
    assert [tool.name for tool in tools] == ["list_variables", "describe_variable", "peek_dataframe", "run_code"]
    assert tools[0].func() == "a: int 1"
    assert tools[-1].approve is True


@pytest.mark.parametrize("arguments", [{"namespace": ["a"]}, {"namespace": {}, "seconds": 0}])
def test_wrong_arguments_of_kernel_tools_raise(arguments):
    with pytest.raises(ConfigurationError, match="expected a dict or None|expected a number above 0"):
        kernel_tools(**arguments)

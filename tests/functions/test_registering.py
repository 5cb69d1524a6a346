"""Registering a function that can't be described to a model is an error that says what to do."""

from collections.abc import Callable
from typing import Annotated, Any

import pandas as pd
import pytest
from pydantic import BeforeValidator
from pydantic.json_schema import SkipJsonSchema
from support.tool_runs import executor_of, run

from nbagent import Agent, FunctionRegistry, tool
from nbagent.errors import ConfigurationError
from nbagent.functions.live import as_registry
from nbagent.functions.schema.function_schema import schema_of


class Custom:
    def price(self, item: str) -> float:
        """The price."""


def taking(annotation: Any) -> Callable[..., Any]:
    def plot(data, title: str = ""):
        """Plot."""

    plot.__annotations__["data"] = annotation
    return plot


@pytest.mark.parametrize(
    "annotation", [Callable[[int], int], list[Custom], pd.DataFrame | None, "list[NotDefinedAnywhere]", "1 +"], ids=str
)
def test_a_parameter_without_a_json_form(annotation):
    function = taking(annotation)
    registry = FunctionRegistry()
    for register in (
        lambda: registry.register("plot", "", function),
        lambda: Agent("local", tools=[function]),
        lambda: tool(function),
    ):
        with pytest.raises(ConfigurationError, match=r"tool 'plot': parameter 'data'.*default.*SkipJsonSchema.*RunCon"):
            register()
    assert "plot" not in registry
    registry.register("plot", "", function, {"properties": {"title": {"type": "string"}}})


def test_any_number_of_positional_arguments():
    for parameters in (None, {"properties": {"items": {"type": "array"}}}):
        with pytest.raises(ConfigurationError, match=r"tool 'total': .*items.* make \*?\w+ a list"):
            FunctionRegistry().register("total", "", lambda *items: sum(items), parameters)


async def test_a_parameter_with_a_default_is_omitted():
    def size(title: str, data: pd.DataFrame = pd.DataFrame({"a": [1, 2]})) -> int:  # noqa: B008
        return len(data)

    assert list(schema_of(size).parameters["properties"]) == ["title"]
    assert (await run(executor_of(size), "size", title="x")).value == 2
    assert not (await run(executor_of(size), "size", title="x", data=[])).args_valid


async def test_skip_json_schema_leaves_the_type_to_a_validator():
    frames = {"penguins": pd.DataFrame({"a": [1, 2, 3]})}

    def size(data) -> int:
        return len(data)

    size.__annotations__["data"] = Annotated[pd.DataFrame, BeforeValidator(frames.__getitem__), SkipJsonSchema()]
    assert (await run(executor_of(size), "size", data="penguins")).value == 3


def test_two_tools_with_the_same_name():
    one, two = Custom(), Custom()
    with pytest.raises(ConfigurationError, match=r"two have the name 'price'.*prefix"):
        Agent("local", tools=[one.price, two.price])
    assert as_registry([one.price, one.price]).names() == ["price"]


async def test_given_parameters_are_completed_by_the_signature():
    """A definition as people write it, with `required` left out."""

    def my_tool(param1: str, param2: int) -> dict:
        return {"result": param1 * param2}

    properties = {"param1": {"type": "string"}, "param2": {"type": "integer"}}
    executor = executor_of(my_tool, parameters={"type": "object", "properties": properties, "required": ["param1"]})
    assert (await run(executor, "my_tool", param1="a", param2=2)).value == {"result": "aa"}
    assert "missing a required argument: 'param2'" in (await run(executor, "my_tool", param1="a")).content
    assert (
        "unexpected keyword argument 'param3'"
        in (await run(executor, "my_tool", param1="a", param2=1, param3=1)).content
    )

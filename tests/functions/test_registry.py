"""The registry: lookups, invalid definitions and views."""

import math

import pytest

from nbagent.errors import ConfigurationError
from nbagent.functions.registry import FunctionRegistry


def add(a: int, b: int = 0) -> int:
    """Add two integers."""
    return a + b


def get_weather(city: str) -> dict:
    return {"city": city}


@pytest.fixture
def registry():
    registry = FunctionRegistry()
    registry.register("add", "", add)
    registry.register("get_weather", "获取城市天气信息", get_weather, timeout=3, approve=True)
    return registry


def test_looking_up(registry):
    definition = registry.get_function("get_weather")
    assert (definition.func, definition.timeout, definition.approve) == (get_weather, 3, True)
    assert definition.parameters["required"] == ["city"]
    assert registry.get_function("nothing") is None
    assert registry.has_function("add")
    assert "nothing" not in registry
    assert len(registry) == 2
    assert repr(registry) == "FunctionRegistry(2 functions: add, get_weather)"
    assert FunctionRegistry()  # an empty registry is true, unlike a missing one


def test_given_parameters_are_offered_unchanged():
    registry = FunctionRegistry()
    parameters = {"type": "object", "properties": {"a": {"type": "integer", "title": "X"}}, "$comment": "kept"}
    registry.register("f", "", add, parameters)
    assert registry.list_functions() == [{"name": "f", "description": "Add two integers.", "parameters": parameters}]


def test_registering_again_replaces(registry):
    registry.register("add", "Other", get_weather)
    assert registry.get_function("add").func is get_weather
    assert registry.names() == ["add", "get_weather"]
    registry.unregister("add")
    registry.unregister("add")
    assert registry.names() == ["get_weather"]


def test_names():
    for name in ("", "a b", "a.b", "x" * 65, None):
        with pytest.raises(ConfigurationError, match=r"tool's name.*name="):
            FunctionRegistry().register(name, "", add)
    for name in ("A-b_9", "天气", "x" * 64):
        FunctionRegistry().register(name, "", add)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((5,), {}, "a function, got 5"),
        ((add, {"type": "string"}), {}, "JSON Schema of type object.*'string'"),
        ((add,), {"aprove": True}, "'approve', 'parallel'.* got 'aprove'"),
        ((add,), {"timeout": math.nan}, "timeout: .* got nan"),
    ],
)
def test_invalid_definitions(arguments, options, message):
    with pytest.raises(ConfigurationError, match=message):
        FunctionRegistry().register("f", "", *arguments, **options)


def test_only_is_a_live_view(registry):
    view = registry.only(["get_weather"])
    assert view.get_function("add") is None
    assert "add" not in view
    registry.register("get_weather", "New", add)
    assert view.list_functions()[0]["description"] == "New"
    registry.unregister("get_weather")
    assert view.names() == []
    with pytest.raises(ConfigurationError, match=r"no tool 'ad'; did you mean add\?"):
        registry.only(["ad"])

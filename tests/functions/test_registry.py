"""The registry: what it offers, what it refuses, and views of it."""

import dataclasses
import inspect
import math

import pytest

from nbagent.errors import ConfigurationError
from nbagent.functions.live import tool
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry, ToolOptions


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


def test_list_functions_is_flat(registry):
    assert registry.list_functions() == [
        {
            "name": "add",
            "description": "Add two integers.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 0}},
                "required": ["a"],
                "additionalProperties": False,
            },
        },
        {
            "name": "get_weather",
            "description": "获取城市天气信息",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    ]


def test_looking_up(registry):
    definition = registry.get_function("get_weather")
    assert (definition.name, definition.func, definition.timeout, definition.approve) == (
        "get_weather",
        get_weather,
        3,
        True,
    )
    assert definition.parameters["required"] == ["city"]
    assert registry.get_function("nothing") is None
    assert registry.has_function("add")
    assert not registry.has_function("nothing")
    assert "add" in registry
    assert "nothing" not in registry
    assert 1 not in registry
    assert len(registry) == 2
    assert registry.names() == ["add", "get_weather"]
    assert repr(registry) == "FunctionRegistry(2 functions: add, get_weather)"
    assert repr(FunctionRegistry()) == "FunctionRegistry(0 functions)"
    assert FunctionRegistry()  # an empty registry that was passed is not a missing one


def test_given_parameters_are_offered_as_they_are():
    registry = FunctionRegistry()
    parameters = {"type": "object", "properties": {"x": {"type": "integer", "title": "X"}}, "$comment": "kept"}
    registry.register("f", "", add, parameters)
    (function,) = registry.list_functions()
    assert function["parameters"] == parameters
    assert function["description"] == "Add two integers."
    assert registry.get_function("f").schema is None


def test_registering_again_replaces(registry):
    registry.register("add", "Other", get_weather)
    assert registry.get_function("add").func is get_weather
    assert registry.names() == ["add", "get_weather"]
    registry.unregister("add")
    registry.unregister("add")
    assert registry.names() == ["get_weather"]


@pytest.mark.parametrize("name", ["", "a b", "é", "x" * 65, None])
def test_invalid_names(name):
    with pytest.raises(ConfigurationError, match=r"tool's name.*name="):
        FunctionRegistry().register(name, "", add)


@pytest.mark.parametrize("name", ["A-b_9", "x" * 64])
def test_valid_names(name):
    registry = FunctionRegistry()
    registry.register(name, "", add)
    assert name in registry


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((5,), {}, "a function, got 5"),
        ((add, {"type": "string"}), {}, "JSON Schema of type object.*'string'"),
        ((add, ["city"]), {}, r"\['city'\]"),
        ((add,), {"aprove": True}, "'approve', 'parallel'.* got 'aprove'"),
        ((add,), {"timeout": 0}, "timeout: .* got 0"),
        ((add,), {"cache_ttl": -1}, "cache_ttl: .* got -1"),
        ((add,), {"retries": -1}, "retries: .* got -1"),
        ((add,), {"timeout": math.nan}, "timeout: .* got nan"),
    ],
)
def test_invalid_definitions(arguments, options, message):
    with pytest.raises(ConfigurationError, match=message):
        FunctionRegistry().register("f", "", *arguments, **options)


def test_a_definition_is_a_plain_dataclass():
    definition = FunctionDefinition("add", "Add.", {"properties": {}}, add)
    assert definition.parameters == {"type": "object", "properties": {}}
    assert (definition.approve, definition.parallel, definition.main_thread) == (False, True, False)
    assert (definition.timeout, definition.retries, definition.cache_ttl) == (None, 0, None)


def test_tools_and_definitions_have_the_same_options():
    options = list(ToolOptions.__annotations__)
    assert [name for name in inspect.signature(tool).parameters if name not in ("fn", "name", "description")] == options
    names = [field.name for field in dataclasses.fields(FunctionDefinition)]
    others = ["schema", "source", "pinned", "native", "vendor_options"]
    assert names == ["name", "description", "parameters", "func", *options, *others]


def test_only_is_a_live_view(registry):
    view = registry.only(["get_weather"])
    assert view.names() == ["get_weather"]
    assert view.get_function("add") is None
    assert "add" not in view
    registry.register("get_weather", "New", add)
    assert view.list_functions()[0]["description"] == "New"
    registry.unregister("get_weather")
    assert view.names() == []
    assert view.get_function("get_weather") is None


def test_what_is_registered_in_a_view_stays_there(registry):
    view = registry.only(["add"])
    view.register("more", "More", add)
    view.register("add", "Mine", get_weather)
    assert view.names() == ["more", "add"]
    assert view.get_function("add").func is get_weather
    assert registry.get_function("add").func is add
    assert "more" not in registry
    view.unregister("add")
    assert view.names() == ["more"]
    assert "add" in registry
    assert view.only(["more"]).names() == ["more"]


def test_only_suggests_similar_names(registry):
    with pytest.raises(ConfigurationError, match=r"no tool 'get_wether'; did you mean get_weather\?"):
        registry.only(["get_wether"])
    with pytest.raises(ConfigurationError, match="add, get_weather"):
        registry.only(["zzz"])
    with pytest.raises(ConfigurationError, match="none is registered"):
        FunctionRegistry().only(["zzz"])


def test_a_view_calls_the_hooks_of_its_registry():
    class Counting(FunctionRegistry):
        def __init__(self):
            super().__init__()
            self.seen = []

        def before_call(self, definition, arguments):
            self.seen.append(("before", arguments))

        def after_call(self, definition, arguments, outcome):
            self.seen.append(("after", outcome))

    registry = Counting()
    registry.register("add", "", add)
    view = registry.only(["add"])
    view.before_call(view.get_function("add"), {"a": 1})
    view.after_call(view.get_function("add"), {"a": 1}, "outcome")
    assert registry.seen == [("before", {"a": 1}), ("after", "outcome")]

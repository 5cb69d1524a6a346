"""A model's arguments: accepted, repaired, or rejected with feedback on how to correct them."""

import datetime as dt
import enum
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NotRequired, TypedDict

import pydantic
import pytest
from pydantic import AfterValidator, Field

from nbagent.core.messages import FunctionCall
from nbagent.errors import ConfigurationError, ToolArgumentsError, UnknownToolError
from nbagent.functions.registry import FunctionRegistry
from nbagent.functions.validation import malformed_arguments, unknown_tool, validate_arguments

ADVICE = "Correct the arguments so that every required field is present, every type matches and every constraint holds."


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: float = 0.0


class Range(TypedDict):
    low: int
    high: NotRequired[int]


class Address(pydantic.BaseModel):
    city: str
    zips: list[int] = []


def even(value: int) -> int:
    if value % 2:
        raise ValueError("odd numbers won't do")
    return value


def definition_of(func, parameters=None):
    registry = FunctionRegistry()
    registry.register("file_search", "", func, parameters)
    return registry.get_function("file_search")


def taking(annotation):
    """A definition whose function takes one `value` of this type."""

    def function(value):
        pass

    function.__annotations__["value"] = annotation
    return definition_of(function)


def feedback(definition, arguments):
    with pytest.raises(ToolArgumentsError) as raised:
        validate_arguments(definition, arguments)
    assert raised.value.tool == "file_search"
    return str(raised.value)


def errors(definition, arguments):
    text = feedback(definition, arguments)
    head, _, rest = text.partition("\nErrors:\n")
    assert head == "Tool call arguments are invalid.\nTool: file_search"
    assert f"\n{ADVICE}\nExpected shape:\n" in rest
    return [line.removeprefix("  - ") for line in rest.partition(f"\n{ADVICE}")[0].split("\n")]


def file_search(query: str, limit: int = 20):
    pass


PARAMETERS = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "default": 20}},
    "required": ["query"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("parameters", [None, PARAMETERS], ids=["signature", "given"])
def test_the_exact_feedback(parameters):
    assert feedback(definition_of(file_search, parameters), {"limit": "many"}) == (
        "Tool call arguments are invalid.\n"
        "Tool: file_search\n"
        "Errors:\n"
        "  - query: required field is missing\n"
        '  - limit: must be a valid integer (got "many", type str)\n'
        f"{ADVICE}\n"
        "Expected shape:\n"
        '{"query": "<string>", "limit": 20}'
    )


@pytest.mark.parametrize("parameters", [None, PARAMETERS], ids=["signature", "given"])
def test_unexpected_fields(parameters):
    lines = errors(definition_of(file_search, parameters), {"query": "x", "limits": 1, "color": 2})
    assert lines == ["limits: unexpected field; did you mean limit?", "color: unexpected field"]


ACCEPTED = [
    (float, 5, 5.0),
    (str | None, None, None),
    (tuple[int, str], [1, "a"], (1, "a")),
    (set[int], [1, 1], {1}),
    (list | str, "[1]", "[1]"),
    (int | str, "5", "5"),
    (Literal["a", 1], 1, 1),
    (Color, "red", Color.RED),
    (dt.date, "2026-01-02", dt.date(2026, 1, 2)),
    (dt.date, dt.date(2026, 1, 2), dt.date(2026, 1, 2)),  # a program calls a tool
    (list[Point], [{"x": 1, "y": 2}], [Point(1, 2.0)]),
    (Range, {"low": 1}, {"low": 1}),
    (dt.timedelta, "PT1M", dt.timedelta(seconds=60)),
]
REPAIRED = [
    (dt.timedelta, 1.5, dt.timedelta(seconds=1.5)),
    (int, " -5 ", -5),
    (int, 5.0, 5),
    (float, "1e3", 1000.0),
    (int | None, "5", 5),
    (str, 5, "5"),
    (bool, "true", True),
    (list[list[int]], ["[1]", [2]], [[1], [2]]),
    (dict[str, list[int]], {"a": "[1]"}, {"a": [1]}),
    (Point | None, '{"x": "1"}', Point(1)),
    (Address, {"city": "Köln", "zips": "[1, 2]"}, Address(city="Köln", zips=[1, 2])),
    (Address, {"city": 50667}, Address(city="50667")),
    (Range, '{"low": 1, "high": "2"}', {"low": 1, "high": 2}),
    (Sequence[str], '["a"]', ["a"]),
    (Literal[1, 2], "2", 2),
]


@pytest.mark.parametrize(
    ("annotation", "sent", "value", "repaired"),
    [(*row, False) for row in ACCEPTED] + [(*row, True) for row in REPAIRED],
    ids=str,
)
def test_values(annotation, sent, value, repaired):
    arguments, was_repaired = validate_arguments(taking(annotation), {"value": sent})
    assert arguments == {"value": value}
    assert type(arguments["value"]) is type(value)
    assert was_repaired is repaired


#: The type, what the model sent, and what it reads: which value, and what it must be.
REFUSED = [
    (int, "many", "value", "a valid integer"),
    (int, None, "value", "a valid integer"),
    (int, 2.5, "value", "a valid integer"),
    (bool, 2, "value", "a valid boolean"),
    (str, True, "value", "a valid string"),
    (list[int], '{"a": 1}', "value", "a valid list"),
    (list[int], [1, "x"], "value[1]", "a valid integer"),
    (dict[str, int], {"a": "x"}, "value.a", "a valid integer"),
    (Color, "green", "value", "'red' or 'blue'"),
    (list[Point], [{"x": 1}, {}], "value[1].x", "missing"),
    (Point, {"x": 1, "z": 1}, "value.z", "unexpected"),
    (Address, {"city": "x", "zips": [1, []]}, "value.zips[1]", "a valid integer"),
    (int | list[str], {}, "value", "a valid integer or a valid list"),
    (Annotated[int, Field(ge=1)], 0, "value", "greater than or equal to 1"),
    (Annotated[str, Field(pattern="^a")], "b", "value", "'^a'"),
    (Annotated[int, AfterValidator(even)], 3, "value", "odd numbers won't do (got 3, type int)"),
]


@pytest.mark.parametrize(
    ("annotation", "sent", "path", "wanted"), REFUSED, ids=lambda value: str(value).partition(" at 0x")[0]
)
def test_refusals(annotation, sent, path, wanted):
    (line,) = errors(taking(annotation), {"value": sent})
    assert line.startswith(f"{path}: ")
    assert wanted in line
    listed = errors(taking(list[int]), {"value": ["x" * 1000] * 30})
    assert len(listed) == 20
    assert len(listed[-1]) < 140


def test_a_field_default_is_filled_in():
    def function(a: int = Field(20, ge=1), b: Annotated[int, Field(default=3)] = Field(), c: int = 5, **more):
        pass

    assert validate_arguments(definition_of(function), {}) == ({"a": 20, "b": 3}, False)  # `c` is the function's
    assert validate_arguments(definition_of(function), {"d": [2]})[0]["d"] == [2]


@pytest.mark.parametrize("parameters", [None, {"type": "object", "properties": {"value": {}}}])
def test_the_function_gets_a_copy_of_the_arguments(parameters):
    sent = {"value": [1, {"a": [2]}]}
    arguments, _ = validate_arguments(definition_of(lambda value: 0, parameters), sent)
    arguments["value"][1]["a"].append(3)
    assert sent == {"value": [1, {"a": [2]}]}


GIVEN = [
    ({"type": ["integer", "null"]}, "5", 5, True),
    ({"type": "string"}, 5, "5", True),
    ({"type": "array", "items": {"type": "integer"}}, '["1"]', [1], True),
    ({"anyOf": [{"type": "object"}, {"type": "null"}]}, '{"a": 1}', {"a": 1}, True),
    ({"anyOf": [{"type": "null"}, {"items": {"type": "integer"}}]}, ["1"], [1], True),
    ({"$ref": "#/$defs/count"}, "5", 5, True),
    ({}, "5", "5", False),
]


@pytest.mark.parametrize(("schema", "sent", "value", "repaired"), GIVEN, ids=str)
def test_given_parameters(schema, sent, value, repaired):
    parameters = {"properties": {"value": schema}, "$defs": {"count": {"type": "integer"}}}
    definition = definition_of(lambda value: 0, parameters)
    assert validate_arguments(definition, {"value": sent}) == ({"value": value}, repaired)


@pytest.mark.parametrize(
    ("schema", "sent", "path", "wanted"),
    [
        ({"type": ["integer", "null"]}, "x", "value", "a valid integer or null"),
        ({"enum": ["a", "b"]}, "c", "value", "'a', 'b'"),
        ({"minimum": 1}, 0, "value", "is less than the minimum of 1"),
        ({"type": "array", "items": {"type": "integer"}}, ["x"], "value[0]", "a valid integer"),
        ({"required": ["a", "b"]}, {"a": 1}, "value.b", "missing"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", "value", "must be a valid integer or null"),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1, "b": 1}, "value.b", "unexpected"),
    ],
    ids=str,
)
def test_given_parameters_refuse(schema, sent, path, wanted):
    definition = definition_of(lambda value: 0, {"type": "object", "properties": {"value": schema}})
    (line,) = errors(definition, {"value": sent})
    assert line.startswith(f"{path}: ")
    assert wanted in line


def test_arguments_must_also_fit_the_function():
    definition = definition_of(file_search, {"type": "object"})
    assert errors(definition, {}) == ["arguments: missing a required argument: 'query'"]
    assert errors(definition, {"query": "x", "limits": 5}) == ["arguments: got an unexpected keyword argument 'limits'"]
    takes_more = definition_of(lambda a, *args, **more: 0, {"type": "object"})
    assert validate_arguments(takes_more, {"a": 1, "b": 2})[0] == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "strong"}, r"file_search.*not a JSON Schema.*strong"),
        # nothing is fetched
        ({"$ref": "http://127.0.0.1:9/schema.json"}, r"file_search.*Unresolvable.*http://127\.0\.0\.1:9/schema\.json"),
    ],
)
def test_invalid_json_schemas(schema, told):
    definition = definition_of(lambda value: 0, {"type": "object", "properties": {"value": schema}})
    with pytest.raises(ConfigurationError, match=told):
        validate_arguments(definition, {"value": 1})


def test_the_expected_shape():
    shapes = {
        "list": ({"type": "array", "items": {"type": "string"}}, ["<string>"]),
        "date": ({"type": "string", "format": "date"}, "<string: date>"),
        "any_names": ({"type": "object", "additionalProperties": {"type": "integer"}}, {"<name>": "<integer>"}),
        "optional": ({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}, "<integer>"),
        "choice": ({"enum": ["x", "y"], "type": "string"}, "<one of: x, y>"),
        "constant": ({"const": "x"}, "x"),
        "anything": ({}, "<any value>"),
        "reference": ({"$ref": "#/properties/date"}, "<string: date>"),
        "default": ({"type": "integer", "default": 20}, 20),
    }
    properties = {name: schema for name, (schema, _) in shapes.items()}
    definition = definition_of(lambda **_: 0, {"properties": properties, "required": ["missing"]})
    shown = feedback(definition, {}).rpartition("\n")[2]
    assert json.loads(shown) == {name: shape for name, (_, shape) in shapes.items()}


def test_malformed_arguments():
    for raw, told in (
        ('{"query": "x', "not valid JSON"),
        ("[1]", "must be a JSON object ("),
        (None, "not valid JSON"),
        ("[" * 200 + "]" * 200, "nested at most"),
    ):
        error = malformed_arguments(definition_of(file_search), FunctionCall("file_search", {}, "1", raw=raw))
        assert told in str(error)
        assert "<string>" in str(error)
        assert (error.kind, error.field) == ("json", "arguments")


def test_unknown_tools():
    error = unknown_tool("file_serch", ["file_search", "calculator"])
    assert isinstance(error, UnknownToolError)
    assert "there is no such tool; did you mean file_search?" in str(error)
    assert "Call one of these tools: calculator, file_search" in str(error)
    assert "There are no tools" in str(unknown_tool("x", []))

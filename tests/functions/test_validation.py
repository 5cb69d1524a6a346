"""A model's arguments: accepted, repaired, or answered with feedback that says how to correct them."""

import datetime as dt
import enum
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pydantic
import pytest
from pydantic import Field

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


class Range(typing.TypedDict):
    low: int
    high: typing.NotRequired[int]


class Address(pydantic.BaseModel):
    city: str
    zips: list[int] = []


def definition_of(func, parameters=None):
    registry = FunctionRegistry()
    registry.register("file_search", "", func, parameters)
    return registry.get_function("file_search")


def taking(annotation, default=...):
    """A definition whose function takes one `value` of this type."""

    def function(value):
        pass

    function.__annotations__["value"] = annotation
    if default is not ...:
        function.__defaults__ = (default,)
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
        '  - limit: must be an integer (got "many", type str)\n'
        f"{ADVICE}\n"
        "Expected shape:\n"
        '{"query": "<string>", "limit": 20}'
    )


@pytest.mark.parametrize("parameters", [None, PARAMETERS], ids=["signature", "given"])
def test_unexpected_fields(parameters):
    lines = errors(definition_of(file_search, parameters), {"query": "x", "limits": 1, "color": 2})
    assert lines == ["limits: unexpected field; did you mean limit?", "color: unexpected field"]


ACCEPTED = [
    (str, "5", "5"),
    (int, 5, 5),
    (float, 5, 5.0),
    (bool, True, True),
    (str | None, None, None),
    (list[int], [1], [1]),
    (set[int], [1, 1], {1}),
    (tuple[int, str], [1, "a"], (1, "a")),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (Any, "[1]", "[1]"),
    (str, "[1]", "[1]"),
    (list | str, "[1]", "[1]"),
    (int | str, "5", "5"),
    (Literal["a", 1], 1, 1),
    (Color, "red", Color.RED),
    (dt.date, "2026-01-02", dt.date(2026, 1, 2)),
    (dt.datetime, "2026-01-02T03:04:05Z", dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)),
    (Point, {"x": 1}, Point(1)),
    (list[Point], [{"x": 1, "y": 2}], [Point(1, 2.0)]),
    (Range, {"low": 1}, {"low": 1}),
    (Address, {"city": "Köln"}, Address(city="Köln")),
    (dict[str, Point], {"a": {"x": 1}}, {"a": Point(1)}),
    (Any, {"any": "thing"}, {"any": "thing"}),
    (dt.timedelta, 90, dt.timedelta(seconds=90)),
    (dt.timedelta, 1.5, dt.timedelta(seconds=1.5)),
    (Iterable[int], [1, 2], [1, 2]),
    (Iterable, ["a"], ["a"]),
    (dict[str, Iterable[int]], {"a": [1]}, {"a": [1]}),
]
REPAIRED = [
    (dt.timedelta, "PT1M", dt.timedelta(seconds=60)),
    (int, "5", 5),
    (int, " -5 ", -5),
    (int, 5.0, 5),
    (float, "2.5", 2.5),
    (float, "1e3", 1000.0),
    (int | None, "5", 5),
    (str, 5, "5"),
    (str | None, 2.5, "2.5"),
    (bool, "true", True),
    (list[int], "[1, 2]", [1, 2]),
    (list[int], ["1", "2"], [1, 2]),
    (list[list[int]], ["[1]", [2]], [[1], [2]]),
    (dict, '{"a": 1}', {"a": 1}),
    (dict[str, list[int]], {"a": "[1]"}, {"a": [1]}),
    (Point, '{"x": 1}', Point(1)),
    (Point | None, '{"x": "1"}', Point(1)),
    (list[Point], ['{"x": 1}'], [Point(1)]),
    (Address, {"city": "Köln", "zips": "[1, 2]"}, Address(city="Köln", zips=[1, 2])),
    (Range, '{"low": 1, "high": "2"}', {"low": 1, "high": 2}),
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


REFUSED = [
    (int, "many", 'value: must be an integer (got "many", type str)'),
    (int, 2.5, "value: must be an integer (got 2.5, type float)"),
    (int, None, "value: must be an integer (got null, type NoneType)"),
    (int, "2.5", 'value: must be an integer (got "2.5", type str)'),
    (float, "much", 'value: must be a number (got "much", type str)'),
    (bool, "maybe", 'value: must be true or false (got "maybe", type str)'),
    (bool, 2, "value: must be true or false (got 2, type int)"),
    (str, True, "value: must be a string (got true, type bool)"),
    (str, ["a"], 'value: must be a string (got ["a"], type list)'),
    (list[int], "1, 2", 'value: must be an array (got "1, 2", type str)'),
    (list[int], "[1, 2", 'value: must be an array (got "[1, 2", type str)'),
    (list[int], '{"a": 1}', 'value: must be an array (got "{\\"a\\": 1}", type str)'),
    (list[int], [1, "x"], 'value[1]: must be an integer (got "x", type str)'),
    (set[int], 1, "value: must be an array (got 1, type int)"),
    (dict, [], "value: must be an object (got [], type list)"),
    (dict[str, int], {"a": "x"}, 'value.a: must be an integer (got "x", type str)'),
    (Literal["a", "b"], "c", "value: must be 'a' or 'b' (got \"c\", type str)"),
    (Color, "green", "value: must be 'red' or 'blue' (got \"green\", type str)"),
    (Point, 5, "value: must be an object (got 5, type int)"),
    (Point, {"y": 1}, "value.x: required field is missing"),
    (list[Point], [{"x": 1}, {}], "value[1].x: required field is missing"),
    (Point, {"x": 1, "z": 1}, "value.z: unexpected field"),
    (Range, {"low": "a"}, 'value.low: must be an integer (got "a", type str)'),
    (Address, {"city": "x", "zips": [1, []]}, "value.zips[1]: must be an integer (got [], type list)"),
    (int | list[str], {}, "value: must be an integer or an array (got {}, type dict)"),
    (Point | None, {"y": 1}, "value.x: required field is missing"),
    (Annotated[int, Field(ge=1)], 0, "value: must be greater than or equal to 1 (got 0, type int)"),
    (Annotated[str, Field(min_length=2)], "a", 'value: must have at least 2 characters (got "a", type str)'),
    (Annotated[str, Field(pattern="^a")], "b", "value: must match pattern '^a' (got \"b\", type str)"),
    (
        Annotated[list[int], Field(max_length=1)],
        [1, 2],
        "value: must have at most 1 item after validation, not 2 (got [1, 2], type list)",
    ),
]


@pytest.mark.parametrize(("annotation", "sent", "line"), REFUSED, ids=str)
def test_refusals(annotation, sent, line):
    assert errors(taking(annotation), {"value": sent}) == [line]


def test_long_values_are_shortened_in_the_feedback():
    (line,) = errors(taking(int), {"value": "x" * 1000})
    assert len(line) < 140


def test_a_users_validator_writes_its_own_message():
    def even(value: int) -> int:
        if value % 2:
            raise ValueError("odd numbers won't do")
        return value

    definition = taking(Annotated[int, pydantic.AfterValidator(even)])
    assert errors(definition, {"value": 3}) == ["value: odd numbers won't do (got 3, type int)"]


def test_what_is_not_given_is_left_to_the_function():
    assert validate_arguments(taking(int, 5), {}) == ({}, False)


def test_a_field_default_is_filled_in():
    def function(a: int = Field(20, ge=1), b: Annotated[int, Field(default=3)] = Field()):
        pass

    assert validate_arguments(definition_of(function), {}) == ({"a": 20, "b": 3}, False)


def test_star_kwargs_accept_unknown_fields():
    def function(a: int, **more):
        pass

    assert validate_arguments(definition_of(function), {"a": 1, "b": [2]}) == ({"a": 1, "b": [2]}, False)


def test_python_objects_of_a_direct_caller_are_accepted():
    day = dt.date(2026, 1, 2)
    assert validate_arguments(taking(dt.date), {"value": day}) == ({"value": day}, False)
    assert validate_arguments(taking(Point), {"value": Point(1)}) == ({"value": Point(1)}, False)


@pytest.mark.parametrize("parameters", [None, {"type": "object", "properties": {"value": {}}}])
def test_the_function_gets_a_copy_of_the_arguments(parameters):
    sent = {"value": [1, {"a": [2]}]}
    arguments, _ = validate_arguments(definition_of(lambda value: 0, parameters), sent)
    arguments["value"][1]["a"].append(3)
    assert sent == {"value": [1, {"a": [2]}]}


def test_lone_surrogates_break_nothing():
    assert validate_arguments(taking(str), {"value": "\ud800"})[0] == {"value": "\ud800"}


GIVEN = [
    ({"type": "integer"}, "5", 5, True),
    ({"type": "integer"}, 5, 5, False),
    ({"type": ["integer", "null"]}, "5", 5, True),
    ({"type": "number"}, "2.5", 2.5, True),
    ({"type": "string"}, 5, "5", True),
    ({"type": "string"}, "[1]", "[1]", False),
    ({"type": "array", "items": {"type": "integer"}}, '["1"]', [1], True),
    ({"type": "object"}, '{"a": 1}', {"a": 1}, True),
    ({"anyOf": [{"type": "object"}, {"type": "null"}]}, '{"a": 1}', {"a": 1}, True),
    ({"$ref": "#/$defs/count"}, "5", 5, True),
    ({"enum": ["a", 1]}, 1, 1, False),
    ({}, "5", "5", False),
]


@pytest.mark.parametrize(("schema", "sent", "value", "repaired"), GIVEN, ids=str)
def test_given_parameters(schema, sent, value, repaired):
    parameters = {"properties": {"value": schema}, "$defs": {"count": {"type": "integer"}}}
    definition = definition_of(lambda value: 0, parameters)
    assert validate_arguments(definition, {"value": sent}) == ({"value": value}, repaired)


@pytest.mark.parametrize(
    ("schema", "sent", "line"),
    [
        ({"type": "integer"}, "x", 'value: must be an integer (got "x", type str)'),
        ({"type": ["integer", "null"]}, "x", 'value: must be an integer or null (got "x", type str)'),
        ({"enum": ["a", "b"]}, "c", "value: must be one of 'a', 'b' (got \"c\", type str)"),
        ({"minimum": 1}, 0, "value: must be greater than or equal to 1 (got 0, type int)"),
        ({"pattern": "^a"}, "b", "value: must match pattern '^a' (got \"b\", type str)"),
        ({"type": "array", "items": {"type": "integer"}}, ["x"], 'value[0]: must be an integer (got "x", type str)'),
        ({"required": ["a"]}, {}, "value.a: required field is missing"),
        (
            {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "x",
            'value: must be an integer or null (got "x", type str)',
        ),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, "value.b: unexpected field"),
        ({"uniqueItems": True}, [1, 1], "value: [1, 1] has non-unique elements"),
    ],
    ids=str,
)
def test_given_parameters_refuse(schema, sent, line):
    definition = definition_of(lambda value: 0, {"type": "object", "properties": {"value": schema}})
    assert errors(definition, {"value": sent}) == [line]


def test_invalid_json_schemas():
    definition = definition_of(lambda value: 0, {"type": "object", "properties": {"value": {"type": "strong"}}})
    with pytest.raises(ConfigurationError, match=r"file_search.*not a JSON Schema.*strong"):
        validate_arguments(definition, {"value": 1})


def test_a_schema_never_causes_another_to_be_fetched():
    parameters = {"type": "object", "properties": {"value": {"$ref": "http://127.0.0.1:9/schema.json"}}}
    with pytest.raises(ConfigurationError, match=r"file_search.*Unresolvable.*http://127\.0\.0\.1:9/schema\.json"):
        validate_arguments(definition_of(lambda value: 0, parameters), {"value": 1})


@pytest.mark.parametrize(
    ("parameters", "shape"),
    [
        ({"a": {"type": "array", "items": {"type": "string"}}}, '{"a": ["<string>"]}'),
        ({"a": {"type": "string", "format": "date"}}, '{"a": "<string: date>"}'),
        ({"a": {"type": "object", "additionalProperties": {"type": "integer"}}}, '{"a": {"<name>": "<integer>"}}'),
        ({"a": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}}, '{"a": "<integer>"}'),
        ({"a": {"enum": ["x", "y"], "type": "string"}}, '{"a": "<one of: x, y>"}'),
        ({"a": {"type": "object", "properties": {"b": {"type": "boolean"}}}}, '{"a": {"b": "<boolean>"}}'),
        ({"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}, '{"a": "<integer>"}'),
        (
            {"a": {"const": "x"}, "b": {}, "c": {"type": ["number", "null"]}},
            '{"a": "x", "b": "<any value>", "c": "<number>"}',
        ),
        ({"a": {"$ref": "#/properties/b"}, "b": {"type": "string"}}, '{"a": "<string>", "b": "<string>"}'),
    ],
    ids=str,
)
def test_expected_shape(parameters, shape):
    definition = definition_of(lambda **_: 0, {"properties": parameters, "required": ["missing"]})
    assert feedback(definition, {}).rpartition("\n")[2] == shape


@pytest.mark.parametrize(
    ("raw", "start"), [('{"query": "x', "must be a JSON object, and"), ("[1]", "must be a JSON obj")]
)
def test_malformed_arguments(raw, start):
    call = FunctionCall("file_search", {}, "1", raw=raw)
    text = str(malformed_arguments(definition_of(file_search), call))
    assert text.startswith(f"Tool call arguments are invalid.\nTool: file_search\nErrors:\n  - arguments: {start}")
    assert text.endswith('Expected shape:\n{"query": "<string>", "limit": 20}')


def test_unknown_tools():
    error = unknown_tool("file_serch", ["file_search", "calculator"])
    assert isinstance(error, UnknownToolError)
    assert str(error) == (
        "Tool call is invalid.\nTool: file_serch\nErrors:\n  - there is no such tool; did you mean file_search?\n"
        "Call one of these tools: calculator, file_search"
    )
    assert "There are no tools" in str(unknown_tool("x", []))

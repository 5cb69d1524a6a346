"""JSON Schemas from signatures, type hints and docstrings."""

import datetime as dt
import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pydantic
import pytest
from pydantic import Field

from nbagent.functions.schema.function_schema import schema_of
from nbagent.providers.formats.tool_schema import plain_schema


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    """A place."""

    x: int
    y: float = 0.0
    tags: list[str] = field(default_factory=list)


class Range(TypedDict):
    low: int
    high: NotRequired[float]


class Address(pydantic.BaseModel):
    city: str = Field(description="The city")
    zip: str | None = None


class Custom:
    pass


POINT = {
    "title": "Point",
    "type": "object",
    "description": "A place.",
    "properties": {
        "x": {"type": "integer"},
        "y": {"type": "number", "default": 0.0},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["x"],
    "additionalProperties": False,
}
RANGE = {
    "title": "Range",
    "type": "object",
    "properties": {"low": {"type": "integer"}, "high": {"type": "number"}},
    "required": ["low"],
    "additionalProperties": False,
}
ADDRESS = {
    "title": "Address",
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "The city"},
        "zip": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    },
    "required": ["city"],
}
STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}
PAIR = {"type": "array", "prefixItems": [INTEGER, STRING], "items": {"anyOf": [INTEGER, STRING]}}
PAIR |= {"minItems": 2, "maxItems": 2}
TYPES = [
    (int, INTEGER),
    (list, {"type": "array", "items": {}}),
    (dict, {"type": "object", "additionalProperties": True}),
    (Any, {}),
    (Sequence[str], {"type": "array", "items": STRING}),
    (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
    (tuple[int, str], PAIR),
    (set[str], {"type": "array", "items": STRING, "uniqueItems": True}),
    (Literal[1, "a", None], {"enum": [1, "a", None]}),
    (Color, {"title": "Color", "type": "string", "enum": ["red", "blue"]}),
    (int | list[str], {"anyOf": [INTEGER, {"type": "array", "items": STRING}]}),
    (dt.timedelta, {"type": "string", "format": "duration"}),
    (Path, {"type": "string", "format": "path"}),
    (Point, POINT),
    (dict[str, Range], {"type": "object", "additionalProperties": RANGE}),
    (Address, ADDRESS),
    (Annotated[str, "A name"], STRING | {"description": "A name"}),
    (Custom, {}),
    ("NotDefinedAnywhere", {}),
    (42, {}),
]


@pytest.mark.parametrize(("annotation", "expected"), TYPES, ids=[str(annotation) for annotation, _ in TYPES])
def test_types(annotation, expected):
    def function(value):
        pass

    function.__annotations__["value"] = annotation
    assert plain_schema(schema_of(function).parameters) == {
        "type": "object",
        "properties": {"value": expected},
        "required": ["value"],
        "additionalProperties": False,
    }


def test_golden():
    def file_search(
        query: str,
        root_dir: Annotated[str, Field(description="Where to look")] = ".",
        limit: Annotated[int, Field(ge=1)] = 20,
        kinds: list[Literal["file", "folder"]] | None = None,
        *,
        deep: bool = True,
    ) -> list[str]:
        """Find files by name.

        Args:
            query: What to find.
            root_dir: Not taken: the annotation says it.
            limit: How many.
            unknown: No such parameter.
        """

    schema = schema_of(file_search)
    assert schema.description == "Find files by name."
    assert schema.parameters == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to find."},
            "root_dir": {"type": "string", "default": ".", "description": "Where to look"},
            "limit": {"type": "integer", "default": 20, "minimum": 1, "description": "How many."},
            "kinds": {
                "anyOf": [{"type": "array", "items": {"type": "string", "enum": ["file", "folder"]}}, {"type": "null"}],
                "default": None,
            },
            "deep": {"type": "boolean", "default": True},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_a_default_of_none_makes_a_parameter_nullable():
    def function(a: int = None, b: Annotated[int, Field(ge=1, description="B")] = None):  # noqa: RUF013
        pass

    assert schema_of(function).parameters["properties"] == {
        "a": {"anyOf": [INTEGER, NULL], "default": None},
        "b": {"anyOf": [INTEGER | {"minimum": 1}, NULL], "default": None, "description": "B"},
    }

"""Schemas of callables of every kind, and of types that are defined later or change."""

import functools
from dataclasses import dataclass

import pytest

from nbagent.functions.schema.function_schema import schema_of


@dataclass
class Point:
    """A place."""

    x: int
    y: float = 0.0


INTEGER = {"type": "integer"}


class Shop:
    """The shop."""

    def price(self, item: str) -> float:
        """The price."""

    @classmethod
    def open(cls, name: str):
        """Open."""

    @staticmethod
    def tax(rate: float):
        """Tax."""

    def __call__(self, order: int):
        """Order."""


@pytest.mark.parametrize(
    ("func", "names", "description"),
    [
        (Shop().price, ["item"], "The price."),
        (Shop.open, ["name"], "Open."),
        (Shop.tax, ["rate"], "Tax."),
        (Shop(), ["order"], "Order."),
        (functools.partial(Shop().price, item="x"), [], "The price."),
        (functools.lru_cache(Shop.tax), ["rate"], "Tax."),
        (Point, ["x", "y"], "A place."),
        (len, ["obj"], "Return the number of items in a container."),
    ],
)
def test_callables(func, names, description):
    schema = schema_of(func)
    assert list(schema.parameters["properties"]) == names
    assert schema.description == description


def test_string_annotations_resolve_where_the_function_was_defined():
    namespace = {"Point": Point}
    exec("from __future__ import annotations\ndef f(p: Point, n: list[Later]): pass\n", namespace)
    schema = schema_of(namespace["f"]).parameters
    assert list(schema["$defs"]["Point"]["properties"]) == ["x", "y"]
    assert schema["properties"]["n"] == {}
    for later, described in ((int, "integer"), (str, "string")):
        namespace["Later"] = later
        items = schema_of(namespace["f"]).parameters["properties"]["n"]["items"]
        assert items == {"type": described}


@pytest.mark.parametrize("attribute", ["__code__", "__defaults__", "__doc__", "__annotations__", "__kwdefaults__"])
def test_a_change_in_place_updates_the_schema(attribute):
    def function(a: int, b: int = 1, *, c: int = 1):
        """Old."""

    def other(x: str, b: str = "2", *, c: str = "2"):
        """New."""

    before = schema_of(function)
    setattr(function, attribute, getattr(other, attribute))
    after = schema_of(function)
    assert (before.description, before.parameters) != (after.description, after.parameters)

"""Schemas of callables of every kind, of types that are defined later, and the cache of schemas."""

import functools
import subprocess
import sys
from dataclasses import dataclass, field

import pydantic
import pytest

from nbagent.functions.schema.function_schema import schema_of
from nbagent.functions.schema.introspection import name_of, underlying


@dataclass
class Point:
    """A place."""

    x: int
    y: float = 0.0
    tags: list[str] = field(default_factory=list)


POINT = {
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
STRING, INTEGER = {"type": "string"}, {"type": "integer"}


class Shop:
    """The shop."""

    def price(self, item: str) -> float:
        """The price.

        Args:
            item: The item.
        """

    @classmethod
    def open(cls, name: str):
        """Open."""

    @staticmethod
    def tax(rate: float):
        """Tax."""

    def __call__(self, order: int):
        """Order."""


def _wrapping(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize(
    ("func", "names", "description"),
    [
        (Shop().price, ["item"], "The price."),
        (Shop.open, ["name"], "Open."),
        (Shop.tax, ["rate"], "Tax."),
        (Shop(), ["order"], "Order."),
        (functools.partial(Shop().price), ["item"], "The price."),
        (functools.partial(Shop().price, "x"), [], "The price."),
        (functools.partial(Shop().price, item="x"), [], "The price."),
        (_wrapping(Shop.tax), ["rate"], "Tax."),
        (functools.lru_cache(Shop.tax), ["rate"], "Tax."),
        (Point, ["x", "y", "tags"], "A place."),
        (len, ["obj"], "Return the number of items in a container."),
    ],
)
def test_callables(func, names, description):
    schema = schema_of(func)
    assert list(schema.parameters["properties"]) == names
    assert schema.description == description


def _hiding(function, *others, doc=None):
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs), others

    wrapper.__doc__ = doc
    return wrapper


def test_a_decorator_without_wraps_is_seen_through():
    hidden = _hiding(_hiding(Shop.tax))
    assert (name_of(hidden), underlying(hidden)) == ("tax", Shop.tax)
    assert list(schema_of(hidden).parameters["properties"]) == ["rate"]


def test_a_documented_function_is_not_taken_for_a_wrapper():
    assert name_of(_hiding(Shop.tax, doc="It has a docstring.")) == "wrapper"
    helper, other = Shop.tax, _wrapping

    def takes_one(*args, **kwargs):
        return helper, other

    def closes_over_nothing(*args, **kwargs):
        return None

    assert [name_of(each) for each in (takes_one, closes_over_nothing)] == ["takes_one", "closes_over_nothing"]


def _defined(source, namespace=None):
    namespace = {} if namespace is None else namespace
    exec(source, namespace)
    return namespace


def test_string_annotations_resolve_where_the_function_was_defined():
    source = "from __future__ import annotations\ndef f(p: Point, n: list[Later]): pass\n"
    namespace = _defined(source, {"Point": Point})
    function = namespace["f"]
    assert schema_of(function).parameters["properties"] == {"p": POINT, "n": {}}
    namespace["Later"] = int
    assert schema_of(function).parameters["properties"]["n"] == {"type": "array", "items": INTEGER}
    namespace["Later"] = str
    assert schema_of(function).parameters["properties"]["n"] == {"type": "array", "items": STRING}


def test_local_types_resolve_through_the_closure():
    class Local(pydantic.BaseModel):
        a: int

    def function(value: "Local"):
        return Local

    assert schema_of(function).parameters["properties"]["value"]["properties"] == {"a": INTEGER}


def test_a_type_that_the_closure_does_not_have_yet():
    def function(value: "Later"):
        return Later

    assert schema_of(function).parameters["properties"] == {"value": {}}

    class Later(pydantic.BaseModel):
        a: int

    assert schema_of(function).parameters["properties"]["value"]["properties"] == {"a": INTEGER}


def test_an_unknown_type_does_not_affect_the_others():
    def function(a: "Nowhere", b: int):  # noqa: F821
        pass

    assert schema_of(function).parameters["properties"] == {"a": {}, "b": INTEGER}


def test_the_schema_is_cached():
    def function(query: str, limit: int = 20, kinds: list[str] | None = None):
        """Find."""

    assert schema_of(function) is schema_of(function)


@pytest.mark.parametrize("attribute", ["__code__", "__defaults__", "__doc__", "__annotations__", "__kwdefaults__"])
def test_a_change_in_place_renews_the_schema(attribute):
    def function(a: int, b: int = 1, *, c: int = 1):
        """Old."""

    def other(x: str, b: str = "2", *, c: str = "2"):
        """New."""

    before = schema_of(function)
    setattr(function, attribute, getattr(other, attribute))
    after = schema_of(function)
    assert (before.description, before.parameters) != (after.description, after.parameters)


def test_the_cache_keeps_no_function_alive():
    import gc
    import weakref

    def function(a: int):
        pass

    schema_of(function)
    gone = weakref.ref(function)
    del function
    gc.collect()
    assert gone() is None


def test_objects_without_weak_references():
    class Slotted:
        __slots__ = ()

        def __call__(self, a: int):
            """Call."""

    assert schema_of(Slotted()).description == "Call."


def test_importing_the_layer_loads_no_heavy_package():
    heavy = "pydantic jsonschema pandas numpy IPython openai anthropic httpx"
    code = (
        "import sys, nbagent.functions.executor, nbagent.functions.live, nbagent.functions.discovery\n"
        "from nbagent.functions.live import tool, live, as_registry\n"
        "@tool\ndef f(a: int): 'F'\n"
        "assert 'f' in live and len(as_registry([f])) == 1\n"
        f"print([name for name in {heavy.split()} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

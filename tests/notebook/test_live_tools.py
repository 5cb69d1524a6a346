"""Live tools in a real kernel: each request offers what the cells have defined, redefined, deleted or shadowed."""

import json
import os
import time

import pytest

pytestmark = pytest.mark.kernel

HELPERS = """
import json
async def call(name, /, **arguments):
    "What the model reads, and what the trace keeps."
    agent.provider = ScriptedProvider([FunctionCall(name, arguments, "c"), "done"])
    return (await agent.chat("go")).function_calls[0]["result"]

def offered():
    "Each tool with its description and the names of its parameters."
    functions = agent.function_registry.list_functions()
    print(json.dumps({f["name"]: [f["description"], [*f["parameters"]["properties"]]] for f in functions}))

def schema(name, parameter):
    print(json.dumps(agent.function_registry.get_function(name).parameters["properties"][parameter]))
"""


@pytest.fixture
def kernel(shared):
    shared.ok("nbagent.live._entries.clear()\nagent = Agent(tools=nbagent.live)")
    return shared


def define(kernel, *cells):
    """Run cells. Returns the tools that are offered afterwards."""
    for cell in cells:
        kernel.ok(cell)
    return json.loads(kernel.ok("offered()").stdout)


def call(kernel, name, /, **arguments):
    return kernel.ok(f"print(await call({name!r}, **{arguments!r}))").stdout.rstrip("\n")


def test_shadowed_by_data_and_back(kernel):
    assert define(kernel, "@tool(approve=True)\ndef size(n: int):\n    'Old.'") == {"size": ["Old.", ["n"]]}
    assert define(kernel, "size = 5") == {}
    assert define(kernel, "from shutil import rmtree as size") == {}
    assert define(kernel, "def size(m: int):\n    'New.'") == {"size": ["New.", ["m"]]}
    assert kernel.ok("agent.function_registry.get_function('size').approve").result == "True"
    assert define(kernel, "length = size; del size") == {}


def test_a_cell_that_is_edited_leaves_the_old_name_until_it_is_deleted(kernel):
    kernel.ok("@tool\ndef size(n: int):\n    'Size.'", cell_id="a")
    kernel.ok("@tool\ndef length(n: int):\n    'Length.'", cell_id="a")
    assert list(define(kernel)) == ["size", "length"]
    assert list(define(kernel, "del size")) == ["length"]


SHOP = """
class Shop:
    def price(self, {item}: str) -> str:
        "{word} price."
        return "{word}"
    @staticmethod
    def tax({item}: float) -> str:
        "{word} tax."
        return "{word}"
"""


def test_methods_go_by_the_variable_that_holds_their_object(kernel):
    kernel.ok(SHOP.format(item="item", word="Old"))
    tools = define(kernel, "shop = Shop()\n%agent tools add shop.price Shop.tax")
    assert tools == {"shop_price": ["Old price.", ["item"]], "Shop_tax": ["Old tax.", ["item"]]}
    tools = define(kernel, SHOP.format(item="thing", word="New"))
    assert tools["shop_price"] == ["Old price.", ["item"]], "the object still has the old class, as in Python"
    assert tools["Shop_tax"] == ["New tax.", ["thing"]]
    assert call(kernel, "shop_price", item="tea") == "Old"
    assert define(kernel, "shop = Shop()")["shop_price"] == ["New price.", ["thing"]]
    assert call(kernel, "shop_price", thing="tea") == "New"
    assert "shop_price" not in define(kernel, "shop = None")


def test_partials_lambdas_and_callable_objects_go_by_their_variable(kernel):
    kernel.ok("""
import functools
def power(base: int, exp: int) -> int: return base ** exp
class Adder:
    def __init__(self, n): self.n = n
    def __call__(self, a: int) -> int: return a + self.n
square, twice, adder = functools.partial(power, exp=2), lambda x: 2 * x, Adder(1)
for name in ('square', 'twice', 'adder'): tool(name=name)(globals()[name])
""")
    parameters = {name: parameters for name, (_, parameters) in define(kernel).items()}
    assert parameters == {"square": ["base"], "twice": ["x"], "adder": ["a"]}
    kernel.ok("square, twice, adder = functools.partial(power, exp=3), lambda y: 3 * y, Adder(5)")
    assert [call(kernel, "square", base=3), call(kernel, "twice", y=1), call(kernel, "adder", a=1)] == ["27", "3", "6"]
    assert define(kernel, "import os\nsquare = functools.partial(os.system, 'true')\nadder = 5\ndel twice") == {}


TYPES = """
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, TypedDict
import pydantic
@dataclass
class Point:
    {0}: int
class Color(Enum):
    {0} = "{0}"
class Order(pydantic.BaseModel):
    {0}: int
class Row(TypedDict):
    {0}: int
"""
USES_TYPES = """
@tool
def use(point: Point, color: Color, order: Annotated[Order, "An order."], rows: list[Row], more: Point | None = None):
    'Use them.'
    return [isinstance(point, Point), isinstance(color, Color), isinstance(order, Order), rows, isinstance(more, Point)]
"""


@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"], ids=["types", "texts"])
def test_annotations_refer_to_the_current_types_of_their_names(kernel, future):
    """`from __future__ import annotations` affects all later cells, so the test resets it."""
    kernel.ok(TYPES.format("old"))
    kernel.ok(future + USES_TYPES)
    try:
        for word in ("old", "new"):
            kernel.ok(TYPES.format(word))
            given = {word: 1}
            result = call(kernel, "use", point=given, color=word, order=given, rows=[given], more=given)
            assert json.loads(result) == [True, True, True, [given], True]
            assert json.loads(kernel.ok("schema('use', 'color')").stdout) == {"enum": [word], "type": "string"}
    finally:
        kernel.ok("import __future__\nget_ipython().compile.flags &= ~__future__.annotations.compiler_flag")


MODULE = """
class Shop:
    def price(self, {0}: {1}) -> str:
        "{0} price."
        return "{0}"

def area({0}: {1}) -> str:
    "{0} area."
    return "{0}"
"""


def test_autoreload_of_a_module_on_disk(kernel, tmp_path):
    module = tmp_path / "toolbox.py"
    module.write_text(MODULE.format("old", "str"))
    kernel.ok(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n%load_ext autoreload\n%autoreload 2")
    kernel.ok("import toolbox\nfrom toolbox import area\nbox = toolbox.Shop()\ntool(area)")
    kernel.ok("%agent tools add box.price")
    try:
        for moment, (name, kind, wanted) in enumerate([("old", "str", "string"), ("new", "int", "integer")]):
            module.write_text(MODULE.format(name, kind))
            os.utime(module, (stamp := time.time() + 10 * moment, stamp))
            assert define(kernel) == {"area": [f"{name} area.", [name]], "box_price": [f"{name} price.", [name]]}
            for tool in ("area", "box_price"):
                assert json.loads(kernel.ok(f"schema({tool!r}, {name!r})").stdout) == {"type": wanted}
                assert call(kernel, tool, **{name: 1}) == name
        versions = "agent.trace.tool_calls.groupby('name')['function_version'].nunique().tolist()"
        assert kernel.value(versions) == [2, 2]
    finally:
        kernel.ok("%autoreload 0")


def test_the_trace_knows_version_and_cell_of_each_tool(kernel):
    def ask(**arguments):
        kernel.ok(f"agent.provider = ScriptedProvider([FunctionCall('size', {arguments!r}, 'c'), 'done'])")
        kernel.ok("%%agent\ngo", cell_id="asking")
        columns = "['function_version', 'cell_id_of_definition', 'cell_id']"
        row = kernel.ok(f"print(agent.trace.tool_calls[{columns}].iloc[-1].to_json())").stdout
        return tuple(json.loads(row).values())

    source = "@tool\ndef size(n: int) -> int:\n    return n"
    kernel.ok(source, cell_id="first")
    first = ask(n=1)
    assert first[1:] == ("first", "asking")
    kernel.ok("def size(n: int) -> int:\n    return -n", cell_id="second")
    second = ask(n=1)
    assert second[1:] == ("second", "asking")
    assert second[0] != first[0]
    assert ask(n="wrong")[:2] == second[:2], "a call with wrong arguments counts for the same version"
    kernel.ok("%%capture\n" + source, cell_id="third")
    assert ask(n=1)[:2] == (first[0], "third"), "the same source is the same version"
    kernel.ok("def size(n: int) -> int:\n    return n + 1")
    assert ask(n=1)[1] is None, "a front end that sends no cell ids"

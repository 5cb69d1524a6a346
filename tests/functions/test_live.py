"""Live tools: effects of redefining or deleting a function, or redefining a type, in another cell."""

import functools
import gc
import linecache
import weakref
from datetime import date

import pytest

from nbagent.core.messages import FunctionCall
from nbagent.errors import ConfigurationError
from nbagent.functions.discovery import agent_callable, settings_of
from nbagent.functions.executor import ToolExecutor
from nbagent.functions.live import as_registry, live, tool


@pytest.fixture(autouse=True)
def _clean():
    before = dict(live._entries), dict(live._bindings)
    live._entries.clear()
    live._bindings.clear()
    yield
    live._entries, live._bindings = before


@pytest.fixture
def cell():
    """Runs source as a cell does: each in the same namespace, each with a file of its own."""
    namespace = {"tool": tool, "__name__": "__main__"}

    def run(source):
        filename = f"<cell {len(linecache.cache)}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        exec(compile(source, filename, "exec"), namespace)
        return namespace

    return run


async def call(registry, name, **arguments):
    return await ToolExecutor(registry).execute(name, arguments)


async def test_a_redefinition_is_live(cell):
    cell("@tool\ndef f(a: int):\n    'Old.'\n    return a")
    assert live.list_functions()[0]["description"] == "Old."
    assert await call(live, "f", a=1) == 1
    cell("def f(b: str):\n    'New.'\n    return b * 2")
    (function,) = live.list_functions()
    assert function["description"] == "New."
    assert list(function["parameters"]["properties"]) == ["b"]
    assert await call(live, "f", b="x") == "xx"


async def test_a_redefinition_with_the_same_code_object(cell):
    """Code objects of two cells compare equal where only a default or an annotation differs."""
    cell("@tool\ndef f(a: int = 1):\n    return a")
    executor = ToolExecutor(live)
    first = await executor.run(FunctionCall("f", {}))
    cell("@tool\ndef f(a: int = 2):\n    return a")
    second = await executor.run(FunctionCall("f", {}))
    assert (first.value, second.value) == (1, 2)
    assert first.function_version != second.function_version


def test_options_survive_an_undecorated_redefinition(cell):
    cell("@tool(name='find', approve=True, timeout=3, description='Mine.')\ndef f(a: int): 'Old.'")
    cell("def f(b: int): 'New.'")
    assert live.names() == ["find"]
    definition = live.get_function("find")
    assert (definition.approve, definition.timeout, definition.description) == (True, 3, "Mine.")
    assert list(definition.parameters["properties"]) == ["b"]


def test_the_latest_tool_replaces_an_earlier_one(cell):
    cell("@tool(approve=True)\ndef f(): 'Old.'")
    cell("@tool\ndef f(): 'New.'\n@tool(name='f')\ndef g(): 'Other.'")
    assert live.names() == ["f"]
    assert not live.get_function("f").approve
    assert live.get_function("f").description == "Other."


@pytest.mark.parametrize("gone", ["del f", "f = 5", "import shutil; f = shutil.rmtree", "f = print"])
def test_a_name_that_no_longer_refers_to_the_function_is_not_offered(cell, gone):
    cell("@tool(approve=True)\ndef f(): 'Old.'")
    assert live.names() == ["f"]
    cell(gone)
    assert live.list_functions() == []
    assert live.get_function("f") is None
    assert "f" not in live
    cell("async def f(): 'Back.'")
    assert live.list_functions()[0]["description"] == "Back."
    assert live.get_function("f").approve


def test_a_type_redefined_in_another_cell(cell):
    cell("from dataclasses import dataclass\n@dataclass\nclass Point:\n    x: int")
    cell("from __future__ import annotations\n@tool\ndef f(p: Point): 'F.'")
    assert list(live.get_function("f").parameters["$defs"]["Point"]["properties"]) == ["x"]
    cell("@dataclass\nclass Point:\n    y: int")
    assert list(live.get_function("f").parameters["$defs"]["Point"]["properties"]) == ["y"]


class Counter:
    def __init__(self):
        self.n = 0

    def up(self, by: int) -> int:
        """Count."""
        self.n += by
        return self.n


async def test_functions_without_a_variable_stay_tools():
    def inner():
        return counter

    counter = Counter()
    tool(inner)
    tool(counter.up)
    tool(name="lam")(lambda a: a + 1)
    tool(name="part")(functools.partial(Counter.up, counter, by=10))
    tool(name="builtin")(len)
    assert live.names() == ["inner", "up", "lam", "part", "builtin"]
    assert await call(live, "up", by=2) == 2
    assert await call(live, "lam", a=1) == 2
    assert await call(live, "part") == 12


@pytest.mark.parametrize("nameless", [lambda: 1, functools.partial(len, [])])
def test_a_function_without_a_name_is_refused(nameless):
    with pytest.raises(ConfigurationError, match=r"Pass name=\.\.\."):
        tool(nameless)


def test_unregister_and_only(cell):
    cell("@tool\ndef f(): 'F.'\n@tool\ndef g(): 'G.'")
    view = live.only(["f"])
    cell("def f(): 'New.'")
    assert view.list_functions()[0]["description"] == "New."
    cell("del f")
    assert view.names() == []
    live.unregister("g")
    assert live.names() == []


# -- as_registry ------------------------------------------------------------------------------------------------------


def test_as_registry_looks_functions_up_live(cell):
    namespace = cell("def f(a: int): 'Old.'\ndef g(): 'G.'")
    registry = as_registry([namespace["f"], namespace["g"]])
    assert live.names() == []
    cell("def f(b: int): 'New.'")
    assert [function["description"] for function in registry.list_functions()] == ["New.", "G."]
    assert as_registry(namespace["g"]).names() == ["g"]
    assert as_registry(registry) is registry
    assert len(as_registry(None)) == 0


def test_as_registry_keeps_the_options_of_a_tool(cell):
    namespace = cell("@tool(approve=True, name='remove')\ndef f(): 'F.'")
    registry = as_registry([namespace["f"]])
    cell("def f(): 'New.'")
    assert as_registry([namespace["f"]]).get_function("remove").approve
    assert registry.get_function("remove").approve
    assert registry.get_function("remove").description == "New."
    other = cell("@tool(approve=True)\ndef other() -> int:\n    return 1")["other"]
    cell("def make():\n    @tool\n    def other() -> int:\n        return 2\nmake()")
    assert as_registry(other).get_function("other").approve is True, "even if another tool takes its name"
    store = cell("class Store:\n    def wipe(self): 'W.'\nstore = Store()\ntool(store.wipe, approve=True)")["store"]
    cell("@tool\ndef wipe(): 'Another.'")
    assert as_registry(store.wipe).get_function("wipe").approve is True, "a method too"
    old = weakref.ref(store)
    cell("store = Store()\ntool(store.wipe)")
    del store
    gc.collect()
    assert old() is None, "a replaced object is freed"


def test_tool_leaves_the_mark_for_discovery_alone():
    @agent_callable(approve=True)
    def pay(dollars: int) -> None: ...

    assert as_registry(tool(pay, name="pay_now")).names() == ["pay_now"]
    assert settings_of(pay)["approve"] is True
    assert as_registry(tool(date, name="a_date")).names() == ["a_date"]


@pytest.mark.parametrize("wrong", [["mean"], "mean", [5]])
def test_as_registry_refuses_other_values(wrong):
    with pytest.raises(ConfigurationError, match="expected functions, .* got"):
        as_registry(wrong)


def test_a_method_without_its_object_is_refused():
    told = r"Shop.price is a method without an object .* tool\(my_object.price\)"
    with pytest.raises(ConfigurationError, match=told):

        class Shop:
            @tool
            def price(self, item: str) -> float: ...

    properties = as_registry([str.upper]).list_functions()[0]["parameters"]["properties"]
    assert list(properties) == ["self"]

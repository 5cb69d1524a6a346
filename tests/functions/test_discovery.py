"""Discovery: which functions of objects, classes and modules become tools."""

import functools
import types

import pytest

from nbagent.errors import ConfigurationError
from nbagent.functions.discovery import (
    agent_callable,
    auto_discover_and_register,
    register_class_methods,
    register_instance_methods,
    register_module_functions,
)
from nbagent.functions.registry import FunctionRegistry


class Base:
    def inherited(self, x: int):
        """Inherited."""

    def replaced(self):
        """Old."""

    def dropped(self):
        pass


class DatabaseManager(Base):
    limit = 5
    evaluated: list = []  # noqa: RUF012

    def __init__(self):
        self.callback = lambda: 1

    def get_daily_records(self, day: str) -> list:
        """Records of a day."""
        return [day]

    async def save(self, record: dict):
        """Save."""

    def replaced(self):
        """New."""

    dropped = None

    @property
    def session(self):
        self.evaluated.append("session")
        return lambda: 1

    @functools.cached_property
    def engine(self):
        self.evaluated.append("engine")
        return lambda: 1

    @classmethod
    def open(cls, url: str):
        """Open."""
        return cls.__name__, url

    @staticmethod
    def version() -> str:
        """Version."""
        return "1"

    @functools.lru_cache  # noqa: B019
    def cached(self, key: str) -> str:
        """Cached."""
        return key

    @agent_callable(name="delete", description="Delete a record.", approve=True)
    def _delete(self, key: str):
        pass

    @agent_callable
    def create_tables(self):
        """Create the tables."""

    def get_session(self):
        pass

    def _private(self):
        pass

    def __call__(self):
        pass

    class Inner:
        pass


@pytest.fixture
def registry():
    return FunctionRegistry()


PUBLIC = ["inherited", "replaced", "get_daily_records", "save", "open", "version", "cached", "delete", "create_tables"]


def test_instance_methods(registry):
    names = register_instance_methods(registry, DatabaseManager(), prefix="db_")
    assert names == [f"db_{name}" for name in PUBLIC]
    assert registry.names() == names
    assert DatabaseManager.evaluated == []
    described = {function["name"]: function for function in registry.list_functions()}
    assert described["db_replaced"]["description"] == "New."
    assert list(described["db_get_daily_records"]["parameters"]["properties"]) == ["day"]
    assert list(described["db_open"]["parameters"]["properties"]) == ["url"]
    assert described["db_delete"]["description"] == "Delete a record."
    assert registry.get_function("db_delete").approve
    assert registry.get_function("db_get_daily_records").func("1 May") == ["1 May"]
    assert registry.get_function("db_cached").func("k") == "k"


def test_the_exclude_list_can_be_changed(registry):
    names = register_instance_methods(registry, DatabaseManager(), exclude=["save", "create_tables"])
    assert "save" not in names
    assert "get_session" in names
    assert "create_tables" in names  # its mark takes precedence


def test_class_methods_without_an_instance(registry):
    assert register_class_methods(registry, DatabaseManager, prefix="db_") == ["db_open", "db_version"]
    assert registry.get_function("db_open").func("x") == ("DatabaseManager", "x")


def test_class_methods_with_an_instance(registry):
    assert register_class_methods(registry, DatabaseManager, instance=DatabaseManager()) == PUBLIC
    assert register_class_methods(registry, Base, instance=DatabaseManager()) == ["inherited", "replaced"]


def make_module():
    module = types.ModuleType("shop_functions")
    source = """
import functools
from os.path import join
from nbagent.functions.discovery import agent_callable

def price(item: str) -> float:
    "Price."

async def order(item: str): pass

@functools.lru_cache
def cached(item: str): pass

@functools.wraps(price)
def wrapped(item): pass

def _private(): pass

@agent_callable(name="secret")
def _marked(): pass

def create_tables(): pass

class Shop:
    def method(self): pass

instance = Shop()
constant = 5
"""
    exec(source, vars(module))
    return module


def test_module_functions(registry):
    names = register_module_functions(registry, make_module(), prefix="shop_")
    assert names == ["shop_price", "shop_order", "shop_cached", "shop_wrapped", "shop_secret"]
    assert registry.names() == names


def test_module_functions_filtered(registry):
    names = register_module_functions(registry, make_module(), filter_func=lambda function: "r" in function.__name__)
    assert names == ["price", "order", "wrapped", "secret"]


def test_auto_discovery_accepts_targets_of_every_kind(registry):
    @agent_callable(description="查询顾客信息")
    def get_customer(name: str) -> dict:
        """根据名称查询顾客信息。"""
        return {"name": name}

    def plain(x: int):
        """Plain."""

    targets = [
        get_customer,
        (plain, "my_"),
        (Base(), "base_"),
        (DatabaseManager, "cls_"),
        (make_module(), "mod_"),
        DatabaseManager().get_daily_records,
        len,
    ]
    names = auto_discover_and_register(registry, targets)
    assert names == [
        "get_customer",
        "my_plain",
        "base_inherited",
        "base_replaced",
        "base_dropped",
        "cls_open",
        "cls_version",
        "mod_price",
        "mod_order",
        "mod_cached",
        "mod_wrapped",
        "mod_secret",
        "get_daily_records",
        "len",
    ]
    assert registry.list_functions()[0]["description"] == "查询顾客信息"


def test_auto_discovery_passes_exclude_on(registry):
    assert auto_discover_and_register(registry, [Base()], exclude=["inherited"]) == ["replaced", "dropped"]


@pytest.mark.parametrize(
    ("register", "target", "words"),
    [
        (register_instance_methods, FunctionRegistry, r"not a class, got .*Pass FunctionRegistry\(\.\.\.\)"),
        (register_class_methods, 5, "cls: expected a class, got 5"),
        (register_module_functions, "json", "module: .* got 'json'. Import"),
        (auto_discover_and_register, "json", "targets: expected a list, got 'json'"),
        (auto_discover_and_register, functools, "targets: expected a list, got module .*functools"),
        (auto_discover_and_register, ["json"], "a function, module.* got 'json'.*without quotes"),
    ],
)
def test_invalid_targets(registry, register, target, words):
    with pytest.raises(ConfigurationError, match=words):
        register(registry, target)
    assert len(registry) == 0


def test_a_mark_changes_and_registers_nothing():
    def function():
        return 5

    marked = agent_callable(name="x", parameters={"type": "object", "properties": {}}, timeout=3)(function)
    assert marked is function
    assert agent_callable(function) is function
    assert function() == 5


def test_a_mark_with_an_unknown_option():
    with pytest.raises(ConfigurationError, match="agent_callable: option: .*got 'aprove'"):
        agent_callable(aprove=True)


def test_marks_give_parameters_and_options(registry):
    parameters = {"type": "object", "properties": {"q": {"type": "string"}}}

    @agent_callable(name="ask", parameters=parameters, timeout=3)
    def function(**kwargs):
        """Ask."""

    assert auto_discover_and_register(registry, [function]) == ["ask"]
    definition = registry.get_function("ask")
    assert (definition.parameters, definition.timeout, definition.description) == (parameters, 3, "Ask.")

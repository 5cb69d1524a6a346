"""Discovery: functions of objects, classes and modules as tools."""

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


class DatabaseManager(Base):
    limit = 5
    evaluated: list = []  # noqa: RUF012

    def get_daily_records(self, day: str) -> list:
        """Records of a day."""
        return [day]

    def replaced(self):
        """New."""

    @property
    def session(self):
        self.evaluated.append("session")
        return lambda: 1

    @classmethod
    def open(cls, url: str):
        """Open."""
        return cls.__name__, url

    @staticmethod
    def version() -> str:
        """Version."""

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


@pytest.fixture
def registry():
    return FunctionRegistry()


PUBLIC = ["inherited", "replaced", "get_daily_records", "open", "version", "delete", "create_tables"]


def test_instance_methods(registry):
    names = register_instance_methods(registry, DatabaseManager(), prefix="db_")
    assert registry.names() == names == [f"db_{name}" for name in PUBLIC]
    assert DatabaseManager.evaluated == []
    described = {function["name"]: function for function in registry.list_functions()}
    assert described["db_replaced"]["description"] == "New."
    assert list(described["db_open"]["parameters"]["properties"]) == ["url"]
    assert described["db_delete"]["description"] == "Delete a record."
    assert registry.get_function("db_delete").approve
    assert registry.get_function("db_get_daily_records").func("1 May") == ["1 May"]
    exclude = ["version", "create_tables"]
    names = register_instance_methods(FunctionRegistry(), DatabaseManager(), exclude=exclude)
    assert set(names) - set(PUBLIC) == {"get_session"}
    assert set(PUBLIC) - set(names) == {"version"}  # a mark takes precedence


def test_class_methods(registry):
    assert register_class_methods(registry, DatabaseManager, prefix="db_") == ["db_open", "db_version"]
    assert registry.get_function("db_open").func("x") == ("DatabaseManager", "x")
    assert register_class_methods(registry, DatabaseManager, instance=DatabaseManager()) == PUBLIC


def make_module():
    module = types.ModuleType("shop_functions")
    source = """
from os.path import join
from nbagent.functions.discovery import agent_callable

def price(item: str) -> float:
    "Price."

async def order(item: str): pass

def _private(): pass

@agent_callable(name="secret")
def _marked(): pass

def create_tables(): pass

class Shop:
    def method(self): pass
"""
    exec(source, vars(module))
    return module


def test_module_functions(registry):
    names = register_module_functions(registry, make_module(), prefix="shop_")
    assert registry.names() == names == ["shop_price", "shop_order", "shop_secret"]
    with_r = register_module_functions(registry, make_module(), filter_func=lambda function: "r" in function.__name__)
    assert with_r == ["price", "order", "secret"]


def test_auto_discovery_accepts_targets_of_every_kind(registry):
    @agent_callable(description="查询顾客信息", timeout=3)
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
    names = auto_discover_and_register(registry, targets, exclude=["replaced"])
    assert names == [
        *("get_customer", "my_plain", "base_inherited", "cls_open", "cls_version"),
        *("mod_price", "mod_order", "mod_secret", "mod_create_tables", "get_daily_records", "len"),
    ]
    customer = registry.get_function("get_customer")
    assert (customer.description, customer.timeout) == ("查询顾客信息", 3)


@pytest.mark.parametrize(
    ("register", "target", "words"),
    [
        (register_instance_methods, FunctionRegistry, r"not a class, got .*Pass FunctionRegistry\(\.\.\.\)"),
        (register_class_methods, 5, "cls: expected a class, got 5"),
        (register_module_functions, "json", "module: .* got 'json'. Import"),
        (auto_discover_and_register, "json", "targets: expected a list, got 'json'"),
        (auto_discover_and_register, ["json"], "a function, module.* got 'json'.*without quotes"),
    ],
)
def test_invalid_targets(registry, register, target, words):
    with pytest.raises(ConfigurationError, match=words):
        register(registry, target)
    assert len(registry) == 0

"""Offers Python functions to a model as tools, and runs the calls that the model makes.

`registry` holds the functions, `schema` describes them, `validation` checks a model's arguments, `executor` runs the
calls, `formatting` writes results for the model. `discovery` finds functions, `live` follows their redefinition.
"""

from nbagent.functions.allowances import Allow
from nbagent.functions.discovery import (
    agent_callable,
    auto_discover_and_register,
    register_class_methods,
    register_instance_methods,
    register_module_functions,
)
from nbagent.functions.executor import ToolExecutor
from nbagent.functions.live import live, tool
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry

__all__ = [
    "Allow",
    "FunctionDefinition",
    "FunctionRegistry",
    "ToolExecutor",
    "agent_callable",
    "auto_discover_and_register",
    "live",
    "register_class_methods",
    "register_instance_methods",
    "register_module_functions",
    "tool",
]

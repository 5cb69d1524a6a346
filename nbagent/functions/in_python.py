"""Equivalent Python code for a tool call, from the part of the tool's docstring after "In Python:".

>>> def size_of(by: str) -> dict:
...     \"\"\"How many orders each group has.
...
...     In Python: orders.groupby(by).size()
...     \"\"\"
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from inspect import cleandoc
from typing import Any

from nbagent.functions.registry import FunctionDefinition

#: The code is on the same line, or indented below.
_IN_PYTHON = re.compile(r"^In Python:[ \t]*(.*(?:\n(?:[ \t]+.*|[ \t]*$))*)", re.MULTILINE)


def python_of(definition: FunctionDefinition, arguments: Mapping[str, Any]) -> str | None:
    """A call's code with these JSON values in place of the tool's parameters; None if there is none.

    Only your own tools have one: text from a server or a skill must not become code that somebody runs.
    """
    said = None if definition.source else _IN_PYTHON.search(definition.description)
    if said is None:
        return None
    properties = (definition.parameters or {}).get("properties", {})
    values = {name: about.get("default") for name, about in properties.items()} | dict(arguments)
    try:
        return ast.unparse(_Filled(values).visit(ast.parse(cleandoc(said[1]))))
    except SyntaxError:
        return None


class _Filled(ast.NodeTransformer):
    """Replaces names by values."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A value as a literal."""
        if node.id not in self._values or not isinstance(node.ctx, ast.Load):
            return node
        return ast.parse(repr(self._values[node.id]), mode="eval").body

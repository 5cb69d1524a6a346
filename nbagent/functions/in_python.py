"""Generates equivalent Python code for a tool call, from the part of the tool's docstring after "In Python:".

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
    """Return the Python code for a call with these JSON arguments, or None if the tool's docstring has no such code.

    Only the user's own tools can have such code: text from a server or a skill must not become code that somebody runs.
    """
    found = None if definition.source else _IN_PYTHON.search(definition.description)
    if found is None:
        return None
    properties = (definition.parameters or {}).get("properties", {})
    values = {name: schema.get("default") for name, schema in properties.items()} | dict(arguments)
    try:
        return ast.unparse(_Substitution(values).visit(ast.parse(cleandoc(found[1]))))
    except SyntaxError:
        return None


class _Substitution(ast.NodeTransformer):
    """Replaces names with values."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a name with a literal."""
        if node.id not in self._values or not isinstance(node.ctx, ast.Load):
            return node
        return ast.parse(repr(self._values[node.id]), mode="eval").body

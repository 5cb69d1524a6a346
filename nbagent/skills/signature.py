"""Reads the JSON Schema of a skill's function from its source, without running it.

The function has either one parameter whose type is a pydantic model from the same file, or plain parameters. Types may
use basic builtins, names from pydantic and a few standard modules, and models and aliases from the same file. The
schema omits other types; the call checks them.
"""

from __future__ import annotations

import ast
import importlib
import warnings
from collections.abc import Iterable
from contextlib import suppress
from types import ModuleType
from typing import Annotated, Any, ClassVar, Literal, Union, get_origin

from pydantic import BaseModel, Field, FiniteFloat, TypeAdapter, create_model

from nbagent.functions.schema.function_schema import UntitledJsonSchema

#: The modules whose types a file may use. No others are imported.
_MODULES = {"typing", "collections.abc", "datetime", "decimal", "pathlib", "uuid", "pydantic"}
#: Raised for imports, annotations and defaults that can't be read.
_UNREADABLE = (TypeError, ValueError, LookupError, AttributeError, ImportError, SyntaxError)
#: How many types are read from one file. Aliases that double each other would otherwise fill the memory.
MAX_TYPES = 2_000


def read_signature(source: str, function: str) -> tuple[dict[str, Any], str] | None:
    """Return the JSON Schema of a function's arguments and its docstring, or None if there is no such function.

    Raises TypeError for `*args`, since models pass arguments by name.

    >>> read_signature("def run(count: int = 1): 'Count.'", "run")
    ({'type': 'object', 'properties': {'count': {'default': 1, 'type': 'integer'}}}, 'Count.')
    """
    with warnings.catch_warnings(action="ignore"):
        try:
            file = _File(ast.parse(source))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        node = file.nodes.get(function)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return None
        if node.args.vararg:
            raise TypeError(f"{function} accepts *{node.args.vararg.arg}: make it a list parameter")
        try:
            schema = file.arguments(node.args).model_json_schema(schema_generator=UntitledJsonSchema)
            schema.pop("title", None)
        except Exception:  # noqa: BLE001  pydantic raises errors of many kinds
            schema = {}
        return {"type": "object", "properties": {}} | schema, ast.get_docstring(node) or ""


class _File:
    """A file whose types are read. `nodes` maps its names to their definitions."""

    def __init__(self, module: ast.Module) -> None:
        self.nodes: dict[str, ast.AST] = {}
        #: Known types, and modules with types, by name.
        self._known: dict[str, Any] = {kind.__name__: kind for kind in (bool, dict, float, int, list, set, str, tuple)}
        self._types_left = MAX_TYPES
        for node in module.body:
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    self.nodes[name] = node
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.nodes[name] = value
                case ast.Import(names=names):
                    found = (alias for alias in names if alias.name in _MODULES)
                    self._known |= {alias.asname or alias.name: importlib.import_module(alias.name) for alias in found}
                case ast.ImportFrom(module=str(source), names=names) if source in _MODULES:
                    for alias in names:
                        with suppress(*_UNREADABLE):
                            value = getattr(importlib.import_module(source), alias.name)
                            self._known[alias.asname or alias.name] = value

    def arguments(self, signature: ast.arguments) -> type[BaseModel]:
        """A function's arguments as a model."""
        plain = [*signature.posonlyargs, *signature.args]
        defaults: list[ast.expr | None] = [*[None] * (len(plain) - len(signature.defaults)), *signature.defaults]
        found = [*zip(plain, defaults, strict=True), *zip(signature.kwonlyargs, signature.kw_defaults, strict=True)]
        only = self._type(found[0][0].annotation) if len(found) == 1 else None
        if isinstance(only, type) and issubclass(only, BaseModel):
            return only
        return create_model("Arguments", **self._fields((arg.arg, arg.annotation, value) for arg, value in found))

    def _fields(self, found: Iterable[tuple[str, ast.expr | None, ast.expr | None]]) -> dict[str, Any]:
        """Names, annotations and defaults as fields for pydantic."""
        fields: dict[str, Any] = {}
        for name, annotation, default in found:
            kind = self._type(annotation)
            try:
                TypeAdapter(kind).json_schema()
            except Exception:  # noqa: BLE001  as above
                kind = kind if get_origin(kind) is ClassVar else Any
            fields[name] = (kind, self._field(default))
        return fields

    def _type(self, node: ast.AST | None) -> Any:
        """The type that an annotation names, or `Any` if it is unknown."""
        self._types_left -= 1
        if self._types_left < 0:
            return Any
        with suppress(*_UNREADABLE):
            match node:
                case ast.Constant(value=str(text)):
                    return self._type(ast.parse(text, mode="eval").body)
                case ast.Constant(value=None):
                    return None
                case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                    kinds = self._type(left), self._type(right)
                    is_number = kinds in ((int, float), (int, FiniteFloat))  # integers are numbers to a model
                    return kinds[1] if is_number else Union[kinds]  # noqa: UP007  some types don't know `|`
                case ast.Attribute(value=ast.Name(id=module), attr=name) if isinstance(self._known[module], ModuleType):
                    return getattr(self._known[module], name)
                case ast.Name(id=name) if name in self._known:
                    return self._known[name]
                case ast.Name(id=name):
                    node = self.nodes.get(name)
                    return self._model(node) if isinstance(node, ast.ClassDef) else self._type(node)
                case ast.Subscript(value=value, slice=inner):
                    kind, parts = self._type(value), inner.elts if isinstance(inner, ast.Tuple) else [inner]
                    if kind is Literal:
                        return Literal[tuple(map(self._value, parts))]
                    if kind is Annotated:
                        fields = (self._field(part) for part in parts[1:] if self._is_field(part))
                        return Annotated[(self._type(parts[0]), *fields)]
                    types = tuple(map(self._type, parts))
                    return kind[types if len(types) > 1 else types[0]]
        return Any

    def _model(self, node: ast.ClassDef) -> Any:
        """A model of the file, without its code, or `Any` for another class."""
        self._known[node.name] = Any  # it may be recursive
        bases = tuple(map(self._type, node.bases))
        if bases and all(isinstance(base, type) and issubclass(base, BaseModel) for base in bases):
            found = ((line.target, line) for line in node.body if isinstance(line, ast.AnnAssign))
            named = ((name.id, line.annotation, line.value) for name, line in found if isinstance(name, ast.Name))
            fields = self._fields(field for field in named if not field[0].startswith(("_", "model_")))
            self._known[node.name] = create_model(node.name, __base__=bases, **fields)
        return self._known[node.name]

    def _is_field(self, node: ast.AST | None) -> bool:
        return isinstance(node, ast.Call) and self._type(node.func) is Field

    def _field(self, default: ast.expr | None) -> Any:
        """A default or a `Field(…)` as a field for pydantic."""
        options = {} if default is None else {"default": default}
        if isinstance(default, ast.Call) and self._is_field(default):
            options = {str(keyword.arg): keyword.value for keyword in default.keywords}
            options |= {"default": default.args[0]} if default.args else {}
        values: dict[str, Any] = {}
        for name, value in options.items():
            with suppress(*_UNREADABLE):
                values[name] = self._value(value)
        if not options.keys().isdisjoint(("default", "default_factory")) and "default" not in values:
            values["default_factory"] = dict  # makes it optional; a schema doesn't show factories
        return Field(**values)

    def _value(self, node: ast.expr) -> Any:
        """A literal or a constant of the file. Raises one of `_UNREADABLE` for anything else."""
        return ast.literal_eval(self.nodes.get(node.id, node) if isinstance(node, ast.Name) else node)

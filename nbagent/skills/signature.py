"""Reads from a skill's source what its function takes, as a JSON Schema, without running it.

The function takes one pydantic model of the same file, or plain parameters. Of a type that is more than names of Python
and typing, and models and aliases of the same file, the schema says nothing: the call itself checks it.
"""

from __future__ import annotations

import ast
import json
import sys
import warnings
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TypeGuard

_PLAIN = {
    "str": "string", "int": "integer", "float": "number", "FiniteFloat": "number", "bool": "boolean", "dict": "object",
    "list": "array", "tuple": "array", "set": "array", "Sequence": "array", "Mapping": "object",
}  # fmt: skip
#: What `Field(…)` calls the keywords of JSON Schema.
_KEYWORDS = {
    "description": "description", "default": "default", "pattern": "pattern", "multiple_of": "multipleOf",
    "ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum",
}  # fmt: skip
_SIZES = {
    "string": {"min_length": "minLength", "max_length": "maxLength"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
}
#: Classes below these are no models, nor are classes below none, such as dataclasses.
_NO_MODELS = {"Enum", "StrEnum", "IntEnum", "TypedDict", "NamedTuple"}

Schema = dict[str, Any]
#: A name, its annotation and its default.
_Parameter = tuple[str, ast.expr | None, ast.expr | None]


def read_signature(source: str, function: str) -> tuple[Schema, str] | None:
    """The JSON Schema of a function's arguments, and its docstring; None if there is no such function.

    >>> read_signature("def run(count: int = 1): 'Count.'", "run")
    ({'type': 'object', 'properties': {'count': {'type': 'integer', 'default': 1}}, 'required': []}, 'Count.')
    """
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError), warnings.catch_warnings(action="ignore"):
        source_names = _Names(ast.parse(source))
        if isinstance(node := source_names.get(function), ast.FunctionDef | ast.AsyncFunctionDef):
            return source_names.arguments(node.args), ast.get_docstring(node) or ""
    return None


class _Names(dict[str, ast.AST]):
    """The functions, classes and aliases of a file."""

    def __init__(self, module: ast.Module) -> None:
        #: What is imported from Python's own library, which has no models.
        self._of_python: set[str] = set()
        for node in module.body:
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    self[name] = node
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self[name] = value
                case ast.Import() | ast.ImportFrom():
                    source = node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name
                    if source.partition(".")[0] in sys.stdlib_module_names:
                        self._of_python |= {each.asname or each.name.partition(".")[0] for each in node.names}

    def arguments(self, given: ast.arguments) -> Schema:
        plain = [*given.posonlyargs, *given.args]
        defaults: list[ast.expr | None] = [*[None] * (len(plain) - len(given.defaults)), *given.defaults]
        found = [*zip(plain, defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
        kind = found[0][0].annotation if len(found) == 1 else None
        if isinstance(kind, ast.Name | ast.Attribute) and self._may_be_model(kind):
            return self._model(self.get(kind.id) if isinstance(kind, ast.Name) else None)
        return self._object((each.arg, each.annotation, default) for each, default in found)

    def _may_be_model(self, kind: ast.Name | ast.Attribute) -> bool:
        """Whether a type is a model; one from elsewhere may be."""
        name = _name(kind.value if isinstance(kind, ast.Attribute) else kind)
        if isinstance(known := self.get(name), ast.ClassDef):
            return bool(known.bases) and _NO_MODELS.isdisjoint(map(_name, known.bases))
        return _name(kind) not in _PLAIN and name not in self._of_python

    def _model(self, node: ast.AST | None) -> Schema:
        """A class of fields; one that has them elsewhere may be any object."""
        if not _is_model(node):
            return {"type": "object", "properties": {}}
        found = (each for each in node.body if isinstance(each, ast.AnnAssign))
        fields = ((_name(each.target), each.annotation, each.value) for each in found)
        return self._object(each for each in fields if not each[0].startswith("_") and not _is_of_class(each[1]))

    def _object(self, parameters: Iterable[_Parameter]) -> Schema:
        properties: dict[str, Schema] = {}
        required: list[str] = []
        for own_name, annotation, default in parameters:
            name = _alias(default) or own_name
            schema = properties[name] = {}
            with suppress(ValueError, SyntaxError):
                schema |= self._type(annotation)
            if isinstance(default, ast.Call) and _name(default.func) == "Field":
                is_optional = not {"default", "default_factory"}.isdisjoint(self._add(schema, default))
            elif is_optional := default is not None:
                with suppress(ValueError):
                    schema["default"] = self._value(default)
            required += [] if is_optional else [name]
        return {"type": "object", "properties": properties, "required": required}

    def _add(self, schema: Schema, field: ast.Call) -> set[str]:
        """Add what `Field(…)` says. Returns the names of its arguments."""
        given = {"default": field.args[0]} if field.args else {}
        given |= {each.arg: each.value for each in field.keywords if each.arg}
        if isinstance(default := given.get("default"), ast.Constant) and default.value is ...:
            del given["default"]
        keywords = _KEYWORDS | _SIZES.get(schema.get("type", ""), {})
        for name in keywords.keys() & given.keys():
            with suppress(ValueError):
                schema[keywords[name]] = self._value(given[name])
        return set(given)

    def _value(self, node: ast.expr) -> Any:
        """A literal or a constant of the file, as JSON data. Raises ValueError for anything else."""
        try:
            return json.loads(json.dumps(ast.literal_eval(self.get(_name(node), node))))
        except (TypeError, SyntaxError, MemoryError, RecursionError) as error:
            raise ValueError(str(error)) from None

    def _type(self, node: ast.AST | None) -> Schema:
        match node:
            case ast.Constant(value=None):
                return {"type": "null"}
            case ast.Constant(value=str(text)):
                return self._type(ast.parse(text, mode="eval").body)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return _either([self._type(left), self._type(right)])
            case ast.Subscript(value=value, slice=inner):
                return self._of(_name(value), inner.elts if isinstance(inner, ast.Tuple) else [inner])
            case ast.Name(id=name) if name in self:
                known = self.pop(name)  # a type may hold itself
                try:
                    if isinstance(known, ast.ClassDef):  # an Enum is no object
                        return self._model(known) if _is_model(known) else {}
                    return self._type(known)
                finally:
                    self[name] = known
            case ast.Name() | ast.Attribute() if _name(node) in _PLAIN:
                return {"type": _PLAIN[_name(node)]}
        return {}

    def _of(self, name: str, parts: list[ast.expr]) -> Schema:
        match name:
            case "Literal":
                values = [self._value(each) for each in parts]
                return {"enum": values} | ({"type": "string"} if all(isinstance(each, str) for each in values) else {})
            case "Optional" | "Union":
                null = [{"type": "null"}] if name == "Optional" else []
                return _either([*map(self._type, parts), *null])
            case "Annotated":
                schema = self._type(parts[0])
                for each in parts[1:]:
                    if isinstance(each, ast.Call) and _name(each.func) == "Field":
                        self._add(schema, each)
                return schema
        schema = self._type(ast.Name(name))
        if schema.get("type") == "array" and (len(parts) == 1 or name != "tuple"):
            return schema | {"items": self._type(parts[0])}
        if schema.get("type") == "object" and len(parts) == 2:
            return schema | {"additionalProperties": self._type(parts[1])}
        return schema


def _either(schemas: list[Schema]) -> Schema:
    """Any of these; to a model, integers are numbers like others."""
    return schemas[1] if schemas == [{"type": "integer"}, {"type": "number"}] else {"anyOf": schemas}


def _is_model(node: ast.AST | None) -> TypeGuard[ast.ClassDef]:
    return isinstance(node, ast.ClassDef) and list(map(_name, node.bases)) == ["BaseModel"]


def _is_of_class(annotation: ast.expr) -> bool:
    return _name(annotation.value if isinstance(annotation, ast.Subscript) else annotation) == "ClassVar"


def _alias(default: ast.expr | None) -> str | None:
    """The name that `Field(…)` says arguments have."""
    if not isinstance(default, ast.Call) or _name(default.func) != "Field":
        return None
    given = {each.arg: each.value for each in default.keywords}
    alias = given.get("validation_alias", given.get("alias"))
    return alias.value if isinstance(alias, ast.Constant) and isinstance(alias.value, str) else None


def _name(node: ast.AST | None) -> str:
    """`date` of `datetime.date`; "" of anything that is no name."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""

"""Builds a function's tool schema: what a model is told, and the pydantic model that checks a model's arguments.

Importing this module loads pydantic, so it is imported when the first schema is needed.

Schemas are cached and follow changes of their function. An entry is compared with the function's code, defaults,
docstring and annotations, and with the objects that the names in its annotations stand for. So a schema is rebuilt
after the function or one of its types is redefined, in any cell, and after `%autoreload` patches the function.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import logging
import operator
import sys
import types
import typing
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ForwardRef

import typing_extensions
from pydantic import ConfigDict, Field, TypeAdapter, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from nbagent.functions.schema.docstrings import parse_docstring
from nbagent.functions.schema.introspection import (
    annotations_of,
    closure_of,
    docstring_of,
    patched_annotations,
    signature_of,
    underlying,
)
from nbagent.functions.schema.json_schema import tidy

logger = logging.getLogger("nbagent")


@dataclass(frozen=True, slots=True)
class FunctionSchema:
    """Description, JSON Schema and pydantic model of a function's parameters.

    `fields` maps the model's field names to parameter names: a parameter may be called `json` or `_x`, which pydantic
    does not accept as a field name. `positional` names the positional-only parameters, `model_defaults` those whose
    default, if any, only the model knows (`limit: int = Field(20)`). `resolved` is False if a type could not be found
    (yet); such a parameter accepts anything.
    """

    description: str
    parameters: dict[str, Any]
    model: Any
    fields: dict[str, str]
    positional: tuple[str, ...]
    model_defaults: frozenset[str]
    resolved: bool

    def arguments_of(self, instance: Any) -> dict[str, Any]:
        """A validated instance of `model` as arguments. What was not given is left to the function's default."""
        given = instance.model_fields_set
        items = self.fields.items()
        arguments = {name: getattr(instance, key) for key, name in items if key in given or name in self.model_defaults}
        return arguments | (instance.model_extra or {})


# -- the cache --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    ref: weakref.ref[Any]
    names: tuple[str, ...]
    fingerprint: tuple[Any, ...]
    schema: FunctionSchema


_CACHE: dict[int, _Entry] = {}


def schema_of(func: Callable[..., Any]) -> FunctionSchema:
    """The schema of any callable. Never raises: a type that can't be resolved or described becomes "anything".

    >>> def area(width: float, height: float = 1.0): "Area of a rectangle."
    >>> schema_of(area).parameters["required"]
    ['width']
    """
    entry = _CACHE.get(id(func))
    target = underlying(func)
    if entry is not None and entry.ref() is func:
        now = _fingerprint(target, entry.names)
        if len(now) == len(entry.fingerprint) and all(map(operator.is_, now, entry.fingerprint)):
            return entry.schema
    return _rebuild(func, target)


def _rebuild(func: Callable[..., Any], target: Any) -> FunctionSchema:
    patched = patched_annotations(target)
    annotations = {**annotations_of(target), **patched} if hasattr(target, "__code__") else {}
    found = (name for annotation in annotations.values() for name in _names(annotation, target.__globals__))
    names = tuple(dict.fromkeys(found))
    # taken before building: a change in between makes the entry stale, not wrong
    fingerprint = _fingerprint(target, names)
    schema = _build(func, target, patched)
    key = id(func)
    _CACHE.pop(key, None)
    if schema.resolved:
        with suppress(TypeError):  # no weak reference to an object with slots: its schema is built each time
            _CACHE[key] = _Entry(weakref.ref(func, lambda _: _CACHE.pop(key, None)), names, fingerprint, schema)
    return schema


def _fingerprint(target: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    """All that a schema is made of, to be compared by identity."""
    if not hasattr(target, "__code__"):
        return ()
    annotations = annotations_of(target)
    marks = (target.__code__, target.__defaults__, target.__kwdefaults__, target.__doc__)
    found = map(target.__globals__.get, names) if names else ()
    return (*marks, *annotations, *annotations.values(), *found)


# -- from signature to schema -----------------------------------------------------------------------------------------


def _build(func: Callable[..., Any], target: Any, patched: Mapping[str, Any]) -> FunctionSchema:
    """The schema of `func`, whose underlying plain function is `target`; `patched` annotations replace its own."""
    docstring = parse_docstring(docstring_of(func))
    try:
        parameters = list(signature_of(func).parameters.values())
    except (ValueError, TypeError):  # a builtin without a signature accepts anything
        parameters = [inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)]
    is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    bound = _bound_keywords(func)
    named = [
        parameter.replace(annotation=patched.get(parameter.name, parameter.annotation))
        for parameter in parameters
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) and parameter.name not in bound
    ]
    fields: dict[str, Any] = {}
    resolved = True
    for number, parameter in enumerate(named):
        annotation, found = _resolve(parameter, target)
        resolved = resolved and found
        fields[f"p{number}"] = _field(parameter, annotation, docstring.parameters.get(parameter.name))
    config = ConfigDict(extra="allow" if is_open else "forbid", coerce_numbers_to_str=True)
    model = create_model(getattr(target, "__name__", "tool"), __config__=config, **fields)
    return FunctionSchema(
        description=docstring.description,
        parameters=tidy(model.model_json_schema(schema_generator=_Generator)),
        model=model,
        fields={f"p{number}": parameter.name for number, parameter in enumerate(named)},
        positional=tuple(p.name for p in named if p.kind is p.POSITIONAL_ONLY),
        model_defaults=frozenset(p.name for p in named if p.default is p.empty or isinstance(p.default, FieldInfo)),
        resolved=resolved,
    )


def _bound_keywords(func: Any) -> set[str]:
    """Parameters that a partial has set, which the model does not get to choose."""
    bound: set[str] = set()
    while isinstance(func, functools.partial):
        bound |= set(func.keywords)
        func = func.func
    return bound


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, without warnings; what JSON Schema can't describe becomes "anything"."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        return {}

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Leave out a default that is not JSON, silently."""


def _field(parameter: inspect.Parameter, annotation: Any, description: str | None) -> tuple[Any, Any]:
    """A parameter in the form that `create_model` expects."""
    options: dict[str, Any] = {"alias": parameter.name}
    if isinstance(parameter.default, FieldInfo):  # `limit: int = Field(20, ge=1)`
        annotation = _describable(typing.Annotated[annotation, parameter.default])
        if annotation is Any:  # the constraint does not fit the type
            options["default"] = parameter.default.get_default(call_default_factory=False)
            description = parameter.default.description or description
    elif parameter.default is None:
        options["default"] = None
        annotation = _nullable(annotation)
    elif parameter.default is not parameter.empty:
        options["default"] = parameter.default
    if text := _annotated_description(annotation) or description:
        options["description"] = text
    return annotation, Field(**options)


def _nullable(annotation: Any) -> Any:
    """`limit: int = None` means `int | None`."""
    if typing.get_origin(annotation) is typing.Annotated:
        inner, *metadata = typing.get_args(annotation)
        return typing.Annotated[(_nullable(inner), *metadata)]
    return annotation if annotation is Any else annotation | None


def _annotated_description(annotation: Any) -> str | None:
    """The description in `Annotated[T, Field(description=...)]`, `Annotated[T, Doc(...)]` or `Annotated[T, "..."]`."""
    if typing.get_origin(annotation) is not typing.Annotated:
        return None
    for item in reversed(typing.get_args(annotation)[1:]):
        text = item if isinstance(item, str) else getattr(item, "description", getattr(item, "documentation", None))
        if isinstance(text, str):
            return text
    return None


# -- types ------------------------------------------------------------------------------------------------------------


def _resolve(parameter: inspect.Parameter, target: Any) -> tuple[Any, bool]:
    """The parameter's type, looked up where the function was defined, and whether it was found."""
    if parameter.annotation is parameter.empty:
        return Any, True
    holder = types.SimpleNamespace(__annotations__={"value": parameter.annotation})
    namespace = getattr(target, "__globals__", vars(builtins))
    # besides globals, annotations can name the function's type parameters and what it closes over
    local_names = {parameter.__name__: parameter for parameter in getattr(target, "__type_params__", ())}
    if hasattr(target, "__code__"):
        local_names |= closure_of(target)
    try:
        hints = typing.get_type_hints(holder, namespace, local_names, include_extras=True)
        return _describable(_latest(hints["value"], namespace)), True
    except Exception:  # evaluating an annotation runs the user's code; the tool is offered all the same
        logger.debug("parameter %s of %s takes anything", parameter.name, target, exc_info=True)
        return Any, False


def _names(annotation: Any, namespace: Mapping[str, Any]) -> Iterator[str]:
    """The global names in an annotation whose meaning can change: those in strings, and types of the same namespace."""
    text = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
    if isinstance(text, str):
        with suppress(SyntaxError):
            yield from compile(text, "<annotation>", "eval").co_names
    elif _is_defined_in(annotation, namespace):
        yield annotation.__name__
    else:
        for inner in typing.get_args(annotation):
            yield from _names(inner, namespace)


def _is_defined_in(annotation: Any, namespace: Mapping[str, Any]) -> bool:
    """Whether it is a type that was defined at the top level of the module, script or notebook of this namespace."""
    is_type = isinstance(annotation, type) and not typing.get_args(annotation)
    return is_type and annotation.__module__ == namespace.get("__name__") and annotation.__qualname__.isidentifier()


def _latest(annotation: Any, namespace: Mapping[str, Any]) -> Any:
    """The annotation with the types that its names stand for now: another cell may have redefined one."""
    if not _is_defined_in(annotation, namespace):
        return _map_inner(annotation, lambda inner: _latest(inner, namespace))
    now = namespace.get(annotation.__name__)
    return now if _is_defined_in(now, namespace) else annotation


def _describable(annotation: Any) -> Any:
    """The annotation if pydantic supports it, else "anything"."""
    annotation = _with_new_typed_dicts(annotation)
    try:
        TypeAdapter(annotation)
    except Exception:  # pydantic calls hooks of the user's class; the tool is offered all the same
        logger.debug("no schema for %r", annotation, exc_info=True)
        return Any
    return annotation


def _with_new_typed_dicts(annotation: Any) -> Any:
    """Before Python 3.12 pydantic supports only the `TypedDict` of typing_extensions: the same type, made again."""
    if sys.version_info >= (3, 12):
        return annotation
    if typing.is_typeddict(annotation):
        hints = typing.get_type_hints(annotation, include_extras=True)
        items: dict[str, Any] = {}
        for name, hint in hints.items():
            is_required = name in annotation.__required_keys__
            marker: Any = typing_extensions.Required if is_required else typing_extensions.NotRequired
            items[name] = marker[_with_new_typed_dicts(hint)]
        make: Any = typing_extensions.TypedDict  # called, not subclassed: the fields are known only now
        again = make(annotation.__name__, items)
        again.__doc__, again.__module__ = annotation.__doc__, annotation.__module__
        return again
    return _map_inner(annotation, _with_new_typed_dicts)


def _map_inner(annotation: Any, change: Callable[[Any], Any]) -> Any:
    """The annotation with each type inside it changed: `list[T]`, `T | None`, `Annotated[T, …]`."""
    inner, origin = typing.get_args(annotation), typing.get_origin(annotation)
    if not inner or origin is typing.Literal:
        return annotation
    if origin is typing.Annotated:
        return typing.Annotated[(change(inner[0]), *inner[1:])]
    changed = tuple(map(change, inner))
    if all(new is old for new, old in zip(changed, inner, strict=True)):
        return annotation
    if isinstance(annotation, types.UnionType):
        return functools.reduce(operator.or_, changed)
    return annotation.copy_with(changed) if hasattr(annotation, "copy_with") else origin[changed]

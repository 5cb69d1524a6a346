"""Builds a function's tool schema: what a model is told, and the pydantic model that checks a model's arguments.

Importing this module loads pydantic, so it is imported when the first schema is needed.

Schemas are cached and follow changes of their function. An entry is compared with the function's code, defaults,
docstring and annotations, and with the objects that the names in its annotations stand for. So a schema is rebuilt
after the function or one of its types is redefined, in any cell, and after `%autoreload` patches the function.
"""

from __future__ import annotations

import builtins
import collections.abc
import datetime as dt
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
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, SkipJsonSchema

from nbagent.core.run_context import RunContext
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
    default, if any, only the model knows (`limit: int = Field(20)`). `run_contexts` names those that get a
    `RunContext`. `problems` says which parameters can't be described to a model; they accept anything. `resolved` is
    False if a type could not be found (yet).
    """

    description: str
    parameters: dict[str, Any]
    model: Any
    fields: dict[str, str]
    positional: tuple[str, ...]
    model_defaults: frozenset[str]
    run_contexts: tuple[str, ...]
    problems: tuple[str, ...]
    resolved: bool

    def arguments_of(self, instance: Any) -> dict[str, Any]:
        """A validated instance of `model` as arguments. What was not given is left to the function's default."""
        given = instance.model_fields_set
        items = self.fields.items()
        arguments = {name: getattr(instance, key) for key, name in items if key in given or name in self.model_defaults}
        return arguments | (instance.model_extra or {})


# -- the cache --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _CachedSchema:
    ref: weakref.ref[Any]
    names: tuple[str, ...]
    fingerprint: tuple[Any, ...]
    schema: FunctionSchema


_CACHE: dict[int, _CachedSchema] = {}


def schema_of(func: Callable[..., Any]) -> FunctionSchema:
    """The schema of any callable. Never raises: registering a function looks at `problems`.

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
            forget = functools.partial(_CACHE.pop, key, None)  # not by name: globals are gone when the interpreter ends
            _CACHE[key] = _CachedSchema(weakref.ref(func, lambda _: forget()), names, fingerprint, schema)
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
    bound = _bound_keywords(func)
    named = [
        parameter.replace(annotation=patched.get(parameter.name, parameter.annotation))
        for parameter in _with_types_of_the_first(func, parameters)
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) and parameter.name not in bound
    ]
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    run_contexts, problems, resolved = [], [], True
    for number, parameter in enumerate(named):
        annotation, found = _resolve(parameter, target)
        resolved = resolved and found
        if _is_run_context(annotation):
            run_contexts.append(parameter.name)
            continue
        field = _field(parameter, annotation, docstring.parameters.get(parameter.name))
        if field[0] is _Unknown:
            if not _is_required(parameter):
                continue  # the function's default is all that it can have
            offered = _without_type(annotation)
            if offered is _Unknown:
                problems.append(_problem(parameter, found))
                offered = Any
            field = (offered, field[1])
        fields[f"p{number}"] = field
        names[f"p{number}"] = parameter.name
    problems += [f"*{p.name} can't be described: make it a list" for p in parameters if p.kind is p.VAR_POSITIONAL]
    base = _model_base(next((p for p in parameters if p.kind is p.VAR_KEYWORD), None), target)
    model = create_model(getattr(target, "__name__", "tool"), __base__=base, **fields)
    first = (named[0].name,) if named and hasattr(func, "registry") and hasattr(func, "dispatch") else ()
    return FunctionSchema(
        description=docstring.description,
        parameters=tidy(model.model_json_schema(schema_generator=_Generator)),
        model=model,
        fields=names,
        positional=first or tuple(p.name for p in named if p.kind is p.POSITIONAL_ONLY),
        model_defaults=frozenset(p.name for p in named if p.default is p.empty or isinstance(p.default, FieldInfo)),
        run_contexts=tuple(run_contexts),
        problems=tuple(problems),
        resolved=resolved,
    )


def _model_base(others: inspect.Parameter | None, target: Any) -> type[BaseModel]:
    """The base of a function's model: it refuses unknown fields, or takes those of `**others` with their type."""

    class Closed(BaseModel):
        model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)

    if others is None:
        return Closed
    annotation, _ = _resolve(others, target)
    kind = _describable(annotation)

    class Open(BaseModel):
        model_config = ConfigDict(extra="allow", coerce_numbers_to_str=True)
        # pydantic reads the type of `**others` from this annotation alone, and it is known only at run time
        __pydantic_extra__: dict[str, Any if kind is _Unknown else kind]  # type: ignore[valid-type]  # no type checker can know it

    return Open


def _is_required(parameter: inspect.Parameter) -> bool:
    default = parameter.default
    return default is parameter.empty or (isinstance(default, FieldInfo) and default.is_required())


def _is_run_context(annotation: Any) -> bool:
    """`RunContext`, `RunContext | None`, `Annotated[RunContext, …]`."""
    return annotation is RunContext or RunContext in typing.get_args(annotation)


def _without_type(annotation: Any) -> Any:
    """`Annotated[T, SkipJsonSchema()]`: anything, for a validator that knows what to make of it. Others: `_Unknown`."""
    skip: Any = SkipJsonSchema
    metadata = getattr(annotation, "__metadata__", ())
    rest = [item for item in metadata if not (item is skip or isinstance(item, skip))]
    if len(rest) == len(metadata):
        return _Unknown
    return typing.Annotated[(Any, *rest)] if rest else Any


def _problem(parameter: inspect.Parameter, found: bool) -> str:
    text = inspect.formatannotation(parameter.annotation)
    why = f"{text} has no JSON form" if found else f"{text} can't be found where the function is defined"
    return f"parameter {parameter.name!r} can't be described: {why}"


def _with_types_of_the_first(func: Any, parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """The first parameter without an annotation, where the function tells its type in another way.

    `singledispatch` has the types it knows, and a method that is not bound to an object has its class.
    """
    if not parameters or parameters[0].annotation is not inspect.Parameter.empty:
        return parameters
    annotation: Any = inspect.Parameter.empty
    if hasattr(func, "registry") and hasattr(func, "dispatch"):
        known = [kind for kind in func.registry if kind is not object]
        annotation = functools.reduce(operator.or_, known) if known else Any
    elif parameters[0].name == "self":
        annotation = getattr(func, "__objclass__", None) or _class_of(func) or annotation
    return [parameters[0].replace(annotation=annotation), *parameters[1:]]


def _class_of(func: Any) -> Any:
    """The class in whose body a function was defined; a text that names it if it can't be found; None for none."""
    path = getattr(func, "__qualname__", "").split(".")[:-1]
    if not isinstance(func, types.FunctionType) or not path or path[-1] == "<locals>":
        return None
    found: Any = func.__globals__.get(path[0])
    for name in path[1:]:
        found = getattr(found, name, None)
    return found if isinstance(found, type) else path[-1]


def _bound_keywords(func: Any) -> set[str]:
    """Parameters that a partial has set, which the model does not get to choose."""
    bound: set[str] = set()
    while isinstance(func, functools.partial):
        bound |= set(func.keywords)
        func = func.func
    return bound


class _Unknown:
    """Stands for a type that has no JSON form."""


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, without warnings. Durations are numbers, which models write better than ISO 8601."""

    def timedelta_schema(self, schema: Any) -> JsonSchemaValue:
        return {"type": "number", "description": "seconds"}

    def is_subclass_schema(self, schema: Any) -> JsonSchemaValue:
        return self.handle_invalid_for_json_schema(schema, "a class")

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Leave out a default that is not JSON, silently."""


def _field(parameter: inspect.Parameter, annotation: Any, description: str | None) -> tuple[Any, Any]:
    """A parameter in the form that `create_model` expects."""
    options: dict[str, Any] = {"alias": parameter.name}
    if isinstance(parameter.default, FieldInfo):  # `limit: int = Field(20, ge=1)`
        annotation = typing.Annotated[annotation, parameter.default]
    elif parameter.default is None:
        options["default"] = None
        annotation = _nullable(annotation)
    elif parameter.default is not parameter.empty:
        options["default"] = parameter.default
    if text := _annotated_description(annotation) or description:
        options["description"] = text
    return _describable(annotation), Field(**options)


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
        return _latest(hints["value"], namespace), True
    except Exception:  # evaluating an annotation runs the user's code
        logger.debug("parameter %s of %s takes anything", parameter.name, target, exc_info=True)
        return _Unknown, False


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
    """The annotation if pydantic supports it and it has a JSON form, else `_Unknown`."""
    annotation = _with_new_typed_dicts(_as_sent(annotation))
    if annotation is _Unknown:
        return annotation
    try:
        TypeAdapter(annotation).json_schema(schema_generator=_Generator)
    except Exception:  # pydantic calls hooks of the user's class
        logger.debug("no schema for %r", annotation, exc_info=True)
        return _Unknown
    return annotation


def _duration(value: Any) -> Any:
    """A number of seconds as a duration: strictly, pydantic reads durations from text only."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    try:
        return dt.timedelta(seconds=value)
    except OverflowError:
        raise ValueError("must be a smaller number of seconds") from None


def _as_sent(annotation: Any) -> Any:
    """The annotation for what a model sends: a list for any iterable, and a number of seconds for a duration.

    Of an iterable, pydantic would make an iterator that it checks only later.
    """
    if annotation is dt.timedelta:
        return typing.Annotated[annotation, BeforeValidator(_duration)]
    if (typing.get_origin(annotation) or annotation) in (collections.abc.Iterable, collections.abc.Iterator):
        items = typing.get_args(annotation)
        return types.GenericAlias(list, (_as_sent(items[0]),)) if items else list
    return _map_inner(annotation, _as_sent)


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

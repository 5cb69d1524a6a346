"""Builds a function's schema: the description for the model, and the pydantic adapter that checks its arguments.

Importing this module loads pydantic, so the module is imported only when the first schema is needed.

Schemas are cached until their function changes. The cache compares the function's code, defaults, docstring and
annotations, and the objects that its annotations name, with those from which the schema was built. A schema is
therefore rebuilt after the function or one of its types is redefined in any cell, and after `%autoreload` patches the
function.
"""

from __future__ import annotations

import builtins
import collections.abc
import functools
import inspect
import logging
import operator
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from inspect import Parameter
from typing import Any, ForwardRef
from weakref import WeakKeyDictionary

import typing_extensions
from pydantic import ConfigDict, Field, TypeAdapter
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

logger = logging.getLogger("nbagent")


@dataclass(frozen=True, slots=True)
class FunctionSchema:
    """A function's description, and the JSON Schema and pydantic adapter for its parameters.

    `adapter` validates arguments by name, and fills in `defaults` for missing arguments. `positional` lists the
    positional-only parameters, `run_contexts` those that receive a `RunContext`, and `problems` says why others can't
    be described to a model.
    """

    description: str
    parameters: dict[str, Any]
    adapter: TypeAdapter[Any]
    defaults: dict[str, Any]
    positional: tuple[str, ...]
    run_contexts: tuple[str, ...]
    problems: tuple[str, ...]

    def arguments_of(self, validated: dict[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
        """The validated arguments, without the defaults that the function itself fills in."""
        return {
            name: value
            for name, value in validated.items()
            if name in sent or isinstance(self.defaults.get(name), FieldInfo) or name not in self.defaults
        }


#: By function: the names in its annotations, the fingerprint, and the schema.
_CACHE: WeakKeyDictionary[Any, tuple[tuple[str, ...], tuple[Any, ...], FunctionSchema]] = WeakKeyDictionary()


def schema_of(func: Callable[..., Any]) -> FunctionSchema:
    """Return the schema of any callable. Never raises an error. The registry checks `problems` when a function is
    registered.

    >>> def area(width: float, height: float = 1.0): "Area of a rectangle."
    >>> schema_of(area).parameters["required"]
    ['width']
    """
    target = underlying(func)
    with suppress(TypeError):  # a callable without a hash or weak references: its schema is built each time
        if (entry := _CACHE.get(func)) is not None:
            now = _fingerprint(target, entry[0])
            if len(now) == len(entry[1]) and all(map(operator.is_, now, entry[1])):
                return entry[2]
    return _rebuild(func, target)


def _rebuild(func: Callable[..., Any], target: Any) -> FunctionSchema:
    patched = patched_annotations(target)
    annotations = {**annotations_of(target), **patched} if hasattr(target, "__code__") else {}
    found = (name for annotation in annotations.values() for name in _names(annotation, target.__globals__))
    names = tuple(dict.fromkeys(found))
    # taken before building, so a change in between makes the entry stale, not wrong
    fingerprint = _fingerprint(target, names)
    schema, is_resolved = _build(func, target, patched)
    with suppress(TypeError):
        _CACHE.pop(func, None)
        if is_resolved:
            _CACHE[func] = names, fingerprint, schema
    return schema


def _fingerprint(target: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Everything that a schema depends on, for comparison by identity."""
    if not hasattr(target, "__code__"):
        return ()
    annotations = annotations_of(target)
    marks = (target.__code__, target.__defaults__, target.__kwdefaults__, target.__doc__)
    found = map(target.__globals__.get, names) if names else ()
    return (*marks, *annotations, *annotations.values(), *found)


class UntitledJsonSchema(GenerateJsonSchema):
    """Pydantic's schema generator, but without titles, and without warnings about defaults that are not JSON. Raises an
    error for classes.
    """

    ignored_warning_kinds: set[Any] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  as pydantic declares it

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False: a field's title would only repeat its name."""
        return False

    def is_subclass_schema(self, schema: Any) -> JsonSchemaValue:
        """Raise pydantic's error for a class."""
        return self.handle_invalid_for_json_schema(schema, "a class")


def _build(func: Callable[..., Any], target: Any, patched: Mapping[str, Any]) -> tuple[FunctionSchema, bool]:
    """Return the schema of `func`, and whether all its types were found.

    `target` is the plain function behind it. `patched` annotations replace its own.
    """
    description, texts = parse_docstring(docstring_of(func))
    try:
        parameters = list(signature_of(func).parameters.values())
    except (ValueError, TypeError):  # a builtin without a signature accepts anything
        parameters = [Parameter("kwargs", Parameter.VAR_KEYWORD)]
    bound = _bound_keywords(func)
    offered, run_contexts, problems, is_resolved = [], [], [], True
    for original in parameters:
        parameter = original.replace(annotation=patched.get(original.name, original.annotation))
        name, kind = parameter.name, parameter.kind
        if kind is Parameter.VAR_POSITIONAL:
            problems.append(f"*{name} can't be described: make it a list, and use functools.wraps in decorators")
        elif name not in bound:
            annotation, problem, is_found = _type_of(parameter, target)
            is_resolved = is_resolved and is_found
            if _is_run_context(annotation):
                run_contexts.append(name)
            elif not problem or kind is Parameter.VAR_KEYWORD or _is_required(parameter):
                problems += [problem] if problem and kind is not Parameter.VAR_KEYWORD else []
                offered.append(_as_keyword(parameter, annotation, texts.get(name)))
    adapter = _adapter(offered)
    dispatched = tuple(p.name for p in parameters[:1] if hasattr(func, "dispatch") and hasattr(func, "registry"))
    schema = FunctionSchema(
        description=description,
        parameters={"type": "object", "properties": {}} | adapter.json_schema(schema_generator=UntitledJsonSchema),
        adapter=adapter,
        defaults={p.name: p.default for p in offered if p.default is not p.empty},
        positional=dispatched or tuple(p.name for p in parameters if p.kind is p.POSITIONAL_ONLY),
        run_contexts=tuple(run_contexts),
        problems=tuple(problems),
    )
    return schema, is_resolved


def _adapter(parameters: list[Parameter]) -> TypeAdapter[Any]:
    """Validates a dict of arguments for these parameters: pydantic calls a function that returns them."""

    def returned(**validated: Any) -> dict[str, Any]:
        return validated

    arguments: Any = returned
    arguments.__signature__ = inspect.Signature(parameters)
    arguments.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return TypeAdapter(arguments, config=ConfigDict(coerce_numbers_to_str=True, extra="forbid"))


def _bound_keywords(func: Any) -> set[str]:
    """Parameters already set by a partial, which the model can't choose."""
    bound: set[str] = set()
    while isinstance(func, functools.partial):
        bound |= set(func.keywords)
        func = func.func
    return bound


def _is_required(parameter: Parameter) -> bool:
    default = parameter.default
    return default is parameter.empty or (isinstance(default, FieldInfo) and default.is_required())


def _as_keyword(parameter: Parameter, annotation: Any, text: str | None) -> Parameter:
    """The parameter, described by the last text in `Annotated[T, "…"]` or `Annotated[T, Doc("…")]`, else by `text`."""
    inner, *metadata = typing.get_args(annotation) if _is_annotated(annotation) else (annotation,)
    if parameter.default is None and inner is not Any:  # `limit: int = None` means `int | None`
        inner = inner | None
    for item in metadata:
        documentation = getattr(item, "documentation", item)
        text = documentation if isinstance(documentation, str) else text
    if text:
        metadata.insert(0, Field(description=text))
    kind = parameter.kind if parameter.kind is Parameter.VAR_KEYWORD else Parameter.KEYWORD_ONLY
    return parameter.replace(annotation=typing.Annotated[(inner, *metadata)] if metadata else inner, kind=kind)


def _type_of(parameter: Parameter, target: Any) -> tuple[Any, str, bool]:
    """Return a parameter's type, the reason if it can't be described to a model, and whether it was found."""
    text = inspect.formatannotation(parameter.annotation)
    problem = f"parameter {parameter.name!r} can't be described: {text}"
    try:
        annotation = _resolved(parameter.annotation, target)
    except Exception:  # evaluating an annotation runs the user's code, which may raise anything
        logger.debug("parameter %s of %s accepts anything", parameter.name, target, exc_info=True)
        return Any, f"{problem} can't be found where the function is defined", False
    try:
        if not _is_run_context(annotation):
            TypeAdapter(annotation).json_schema(schema_generator=UntitledJsonSchema)
    except Exception as error:  # noqa: BLE001  a hook of the user's class may raise anything
        skip: Any = SkipJsonSchema
        metadata = getattr(annotation, "__metadata__", ())
        rest = [item for item in metadata if not (item is skip or isinstance(item, skip))]
        if len(rest) < len(metadata):  # its own validator can handle anything
            return typing.Annotated[(Any, *rest)] if rest else Any, "", True
        return Any, f"{problem} has no JSON form ({str(error).partition(chr(10))[0]})", True
    return annotation, "", True


def _resolved(annotation: Any, target: Any) -> Any:
    """A type, looked up where the function was defined."""
    if annotation is Parameter.empty:
        return Any
    holder = types.SimpleNamespace(__annotations__={"value": annotation})
    namespace = getattr(target, "__globals__", vars(builtins))
    # annotations can also name the function's type parameters and closure variables
    local_names = {parameter.__name__: parameter for parameter in getattr(target, "__type_params__", ())}
    if hasattr(target, "__code__"):
        local_names |= closure_of(target)
    return _latest(typing.get_type_hints(holder, namespace, local_names, include_extras=True)["value"], namespace)


def _is_run_context(annotation: Any) -> bool:
    """`RunContext`, `RunContext | None`, `Annotated[RunContext, …]`."""
    return annotation is RunContext or RunContext in typing.get_args(annotation)


def _is_annotated(annotation: Any) -> bool:
    return typing.get_origin(annotation) is typing.Annotated


def _names(annotation: Any, namespace: Mapping[str, Any]) -> Iterator[str]:
    """The names in an annotation whose meaning can change: names in strings, and types of the same namespace."""
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
    """Whether a value is a type defined at the top level of the module, script or notebook with this namespace."""
    is_type = isinstance(annotation, type) and not typing.get_args(annotation)
    return is_type and annotation.__module__ == namespace.get("__name__") and annotation.__qualname__.isidentifier()


class _TypedDict(typing.TypedDict):
    """An example of `typing`'s kind of TypedDict, which pydantic rejects before Python 3.12."""


def _with_typing_extensions(annotation: Any, namespace: Mapping[str, Any]) -> Any:
    """Convert a `TypedDict` of `typing` to one of `typing_extensions`."""
    fields: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(annotation, include_extras=True).items():
        is_marked = typing.get_origin(hint) in (typing.Required, typing.NotRequired)
        mark: Any = typing.Required if name in annotation.__required_keys__ else typing.NotRequired
        inner = _latest(hint, namespace)
        fields[name] = inner if is_marked else mark[inner]
    make: Any = typing_extensions.TypedDict  # called, since the fields are known only now
    converted = make(annotation.__name__, fields)
    converted.__doc__, converted.__module__ = annotation.__doc__, annotation.__module__
    return converted


def _latest(annotation: Any, namespace: Mapping[str, Any]) -> Any:
    """The annotation with the current types for its names, and a list for any iterable.

    Another cell may have redefined a type. For an iterable, pydantic would create an iterator that it validates later.
    """
    if _is_defined_in(annotation, namespace):
        latest = namespace.get(annotation.__name__)
        annotation = latest if _is_defined_in(latest, namespace) else annotation
    inner, origin = typing.get_args(annotation), typing.get_origin(annotation)
    if annotation in (collections.abc.Iterable, collections.abc.Iterator):
        return list
    if sys.version_info < (3, 12) and type(annotation) is type(_TypedDict):
        return _with_typing_extensions(annotation, namespace)
    if not inner or origin is typing.Literal:
        return annotation
    if _is_annotated(annotation):
        return typing.Annotated[(_latest(inner[0], namespace), *inner[1:])]
    changed = tuple(_latest(part, namespace) for part in inner)
    if origin in (collections.abc.Iterable, collections.abc.Iterator):
        return types.GenericAlias(list, changed)
    if all(new is old for new, old in zip(changed, inner, strict=True)):
        return annotation
    if isinstance(annotation, types.UnionType):
        return functools.reduce(operator.or_, changed)
    return annotation.copy_with(changed) if hasattr(annotation, "copy_with") else origin[changed]

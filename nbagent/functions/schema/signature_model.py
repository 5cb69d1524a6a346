"""Builds a `FunctionSchema` with pydantic. Loaded when a schema is first needed, since pydantic takes its time."""

from __future__ import annotations

import builtins
import functools
import inspect
import logging
import operator
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, ForwardRef

import typing_extensions
from pydantic import ConfigDict, Field, TypeAdapter, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from nbagent.functions.schema.docstrings import parse_docstring
from nbagent.functions.schema.introspection import FunctionSchema, closure_of, docstring_of, signature_of
from nbagent.functions.schema.json_schema import tidy

logger = logging.getLogger("nbagent")


def build_schema(func: Callable[..., Any], target: Any, rewritten: Mapping[str, Any]) -> FunctionSchema:
    """The schema of `func`, whose underlying plain function is `target`; `rewritten` annotations beat its own."""
    docstring = parse_docstring(docstring_of(func))
    try:
        parameters = list(signature_of(func).parameters.values())
    except (ValueError, TypeError):  # builtins without a signature take whatever comes
        parameters = [inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)]
    is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    bound = _bound_keywords(func)
    named = [
        parameter.replace(annotation=rewritten.get(parameter.name, parameter.annotation))
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
        filled=frozenset(p.name for p in named if p.default is p.empty or isinstance(p.default, FieldInfo)),
        resolved=resolved,
    )


def _bound_keywords(func: Any) -> set[str]:
    """Parameters that a partial has given a value: not for the model to choose."""
    bound: set[str] = set()
    while isinstance(func, functools.partial):
        bound |= set(func.keywords)
        func = func.func
    return bound


class _Generator(GenerateJsonSchema):
    """Pydantic's generator that describes as "anything" what JSON Schema can't, and warns of nothing."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        return {}

    def emit_warning(self, kind: Any, detail: str) -> None:
        """A default that is not JSON is left out silently."""


# -- types ------------------------------------------------------------------------------------------------------------


def names_in(annotations: Iterable[Any], namespace: Mapping[str, Any]) -> tuple[str, ...]:
    """The global names that annotations refer to, so that a change of what they stand for is noticed: those in texts,
    and those of types that were defined in the same `namespace`.
    """
    return tuple(dict.fromkeys(name for annotation in annotations for name in _names(annotation, namespace)))


def _names(annotation: Any, namespace: Mapping[str, Any]) -> Iterator[str]:
    text = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
    if isinstance(text, str):
        with suppress(SyntaxError):
            yield from compile(text, "<annotation>", "eval").co_names
    elif _is_at_home(annotation, namespace):
        yield annotation.__name__
    else:
        for inner in typing.get_args(annotation):
            yield from _names(inner, namespace)


def _is_at_home(annotation: Any, namespace: Mapping[str, Any]) -> bool:
    """Whether it is a type that was defined at the top level of the module, script or notebook of this namespace."""
    is_type = isinstance(annotation, type) and not typing.get_args(annotation)
    return is_type and annotation.__module__ == namespace.get("__name__") and annotation.__qualname__.isidentifier()


def _newest(annotation: Any, namespace: Mapping[str, Any]) -> Any:
    """The annotation with the types that its names stand for now: a type may be redefined in a cell of its own."""
    if not _is_at_home(annotation, namespace):
        return _with_inner(annotation, lambda inner: _newest(inner, namespace))
    now = namespace.get(annotation.__name__)
    return now if _is_at_home(now, namespace) else annotation


def _resolve(parameter: inspect.Parameter, target: Any) -> tuple[Any, bool]:
    """The parameter's type, and whether it could be found; it is looked up where the function was defined."""
    if parameter.annotation is parameter.empty:
        return Any, True
    holder = types.SimpleNamespace(__annotations__={"value": parameter.annotation})
    namespace = getattr(target, "__globals__", vars(builtins))
    try:
        hints = typing.get_type_hints(holder, namespace, _locals(target), include_extras=True)
        return _describable(_newest(hints["value"], namespace)), True
    except Exception:  # of an annotation, which is evaluated: the tool is offered all the same
        logger.debug("parameter %s of %s takes anything", parameter.name, target, exc_info=True)
        return Any, False


def _locals(target: Any) -> dict[str, Any]:
    """What the function's annotations can name besides globals: its closure and its type parameters."""
    found = {parameter.__name__: parameter for parameter in getattr(target, "__type_params__", ())}
    return {**found, **closure_of(target)} if hasattr(target, "__code__") else found


def _describable(annotation: Any) -> Any:
    """The annotation if pydantic can take it, else "anything"."""
    annotation = _with_new_typed_dicts(annotation)
    try:
        TypeAdapter(annotation)
    except Exception:  # of a class's hook, which pydantic calls: the tool is offered all the same
        logger.debug("no schema for %r", annotation, exc_info=True)
        return Any
    return annotation


def _with_new_typed_dicts(annotation: Any) -> Any:
    """Before Python 3.12 pydantic takes `TypedDict` only as that of typing_extensions: the same type, made again."""
    if sys.version_info >= (3, 12):
        return annotation
    if typing.is_typeddict(annotation):
        hints = typing.get_type_hints(annotation, include_extras=True)
        required = {name: typing_extensions.Required[_with_new_typed_dicts(hint)] for name, hint in hints.items()}
        optional = {name: typing_extensions.NotRequired[_with_new_typed_dicts(hint)] for name, hint in hints.items()}
        items = {name: (required if name in annotation.__required_keys__ else optional)[name] for name in hints}
        make: Any = typing_extensions.TypedDict  # called, not subclassed: the fields are known only now
        again = make(annotation.__name__, items)
        again.__doc__, again.__module__ = annotation.__doc__, annotation.__module__
        return again
    return _with_inner(annotation, _with_new_typed_dicts)


def _with_inner(annotation: Any, change: Callable[[Any], Any]) -> Any:
    """The annotation with each type inside of it changed: `list[T]`, `T | None`, `Annotated[T, …]`."""
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


# -- fields -----------------------------------------------------------------------------------------------------------


def _field(parameter: inspect.Parameter, annotation: Any, description: str | None) -> tuple[Any, Any]:
    """A parameter as `create_model` takes it."""
    options: dict[str, Any] = {"alias": parameter.name}
    if isinstance(parameter.default, FieldInfo):  # `limit: int = Field(20, ge=1)`
        annotation = _describable(typing.Annotated[annotation, parameter.default])
        if annotation is Any:  # a constraint that its type can't have
            options["default"] = parameter.default.get_default(call_default_factory=False)
            description = parameter.default.description or description
    elif parameter.default is None:
        options["default"] = None
        annotation = _nullable(annotation)
    elif parameter.default is not parameter.empty:
        options["default"] = parameter.default
    if said := _annotated_description(annotation) or description:
        options["description"] = said
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
        said = item if isinstance(item, str) else getattr(item, "description", getattr(item, "documentation", None))
        if isinstance(said, str):
            return said
    return None

"""Validates a model's arguments before a tool runs: repairs what it can without loss, else answers with feedback.

The feedback is written for the model: what is wrong, field by field, and the expected shape.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from nbagent.core.messages import FunctionCall, fault_in
from nbagent.errors import ConfigurationError, ToolArgumentsError, UnknownToolError
from nbagent.functions.formatting import short_repr
from nbagent.functions.registry import FunctionDefinition
from nbagent.functions.schema.introspection import signature_of
from nbagent.functions.schema.json_schema import example, repair
from nbagent.text import did_you_mean, shortened

_MISSING = object()
_FEEDBACK = """\
Tool call arguments are invalid.
Tool: {tool}
Errors:
{errors}
Correct the arguments so that every required field is present, every type matches and every constraint holds.
Expected shape:
{shape}"""
_MAX_PROBLEMS = 20
_MAX_VALUE_CHARS = 80

#: What a value must be, by JSON type.
_KINDS = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "string": "a string",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
#: The JSON type for the first word of a pydantic error type (`int_parsing`, `model_attributes_type`).
_PYDANTIC = {
    "int": "integer", "float": "number", "bool": "boolean", "string": "string", "list": "array", "tuple": "array",
    "set": "array", "frozen": "array", "dict": "object", "model": "object", "dataclass": "object", "none": "null",
}  # fmt: skip
_PYDANTIC_KIND = re.compile(r"([a-z]+?)_(?:\w+_)?(?:type|parsing|parsing_size|from_float|required)")


@dataclass(frozen=True, slots=True)
class ArgumentProblem:
    """One invalid value: its path (`filters[0].name`), what is wrong, and the value that the model sent."""

    path: str
    text: str
    got: Any = _MISSING
    kind: str = "value"

    def __str__(self) -> str:
        if self.got is _MISSING:
            return f"{self.path}: {self.text}"
        shown = shortened(json.dumps(self.got, ensure_ascii=False, default=repr), _MAX_VALUE_CHARS)
        return f"{self.path}: {self.text} (got {shown}, type {type(self.got).__name__})"


def validate_arguments(definition: FunctionDefinition, arguments: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """`(arguments to call with, whether they were repaired)`. The given dict is neither passed on nor changed.

    Raises `ToolArgumentsError`, whose text is the feedback for the model.
    """
    if definition.schema is not None:
        return _validate_by_model(definition, arguments)
    parameters = definition.parameters or {}
    repaired = repair(arguments, parameters, parameters)
    if problems := _schema_problems(definition, repaired) or _signature_problems(definition, repaired):
        raise _feedback(definition, problems)
    return _copied(repaired), repaired is not arguments


def malformed_arguments(definition: FunctionDefinition, call: FunctionCall) -> ToolArgumentsError:
    """The feedback for a call whose arguments did not arrive as a JSON object."""
    raw = call.raw or ""
    try:
        text = fault_in(raw) or "must be a JSON object"
    except ValueError as error:
        text = f"must be a JSON object, and are not valid JSON, cut off perhaps: {error}"
    return _feedback(definition, [ArgumentProblem("arguments", text, raw, "json")])


def invalid_arguments(
    definition: FunctionDefinition, details: list[Any], arguments: dict[str, Any]
) -> ToolArgumentsError:
    """The feedback for arguments that a pydantic model of the tool itself has refused, by its errors."""
    known = (definition.parameters or {}).get("properties", {})
    return _feedback(definition, _model_problems(details, arguments, known))


def unknown_tool(name: str, names: Iterable[str]) -> UnknownToolError:
    """The feedback for a call of a tool that does not exist; it lists those that do."""
    known = sorted(names)
    advice = f"Call one of these tools: {', '.join(known)}" if known else "There are no tools. Answer without them."
    errors = f"  - there is no such tool{did_you_mean(name, known)}"
    return UnknownToolError(f"Tool call is invalid.\nTool: {name}\nErrors:\n{errors}\n{advice}", tool=name)


def _feedback(definition: FunctionDefinition, problems: list[ArgumentProblem]) -> ToolArgumentsError:
    parameters = definition.parameters or {}
    errors = "\n".join(f"  - {problem}" for problem in problems[:_MAX_PROBLEMS])
    shape = json.dumps(example(parameters, parameters), ensure_ascii=False, default=str)
    text = _FEEDBACK.format(tool=definition.name, errors=errors, shape=shape)
    return ToolArgumentsError(text, tool=definition.name, kind=problems[0].kind, field=problems[0].path)


def as_json_data(arguments: dict[str, Any]) -> dict[str, Any]:
    """Validated arguments as JSON data, all of it new. What JSON can't hold, from a direct caller, is its `repr`.

    Bytes are text, or base64 if any of them are not.

    >>> import datetime as dt
    >>> as_json_data({"day": dt.date(2026, 3, 1), "count": 7})
    {'day': '2026-03-01', 'count': 7}
    """
    from pydantic_core import to_jsonable_python

    convert = partial(to_jsonable_python, arguments, timedelta_mode="float", fallback=short_repr)
    data: dict[str, Any]
    try:
        data = convert()
    except UnicodeDecodeError:
        data = convert(bytes_mode="base64")
    return data


def _copied(value: Any) -> Any:
    """A copy of JSON containers: a function that modifies its argument must not modify the conversation."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _unexpected(path: str, known: Iterable[str]) -> ArgumentProblem:
    text = f"unexpected field{did_you_mean(path.rpartition('.')[2], known)}"
    return ArgumentProblem(path, text, kind="unexpected")


# -- by the pydantic model of the signature ---------------------------------------------------------------------------


def _validate_by_model(definition: FunctionDefinition, arguments: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Strictly as JSON first. What is accepted only after a repair or by the lax rules counts as repaired."""
    from pydantic import ValidationError

    schema = definition.schema
    assert schema is not None
    try:
        text = json.dumps(arguments)
    except (TypeError, ValueError):  # Python objects, from a caller that is not a model
        text = None
    try:
        if text is not None:
            return schema.arguments_of(schema.adapter.validate_json(text, strict=True), arguments), False
    except ValidationError:
        pass  # the lax rules decide
    parameters = definition.parameters or {}
    repaired = repair(arguments, parameters, parameters)
    try:
        values = schema.arguments_of(schema.adapter.validate_python(_copied(repaired)), repaired)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False)
        raise _feedback(definition, _model_problems(details, repaired, parameters.get("properties", ()))) from None
    return values, text is not None or repaired is not arguments


def _model_problems(details: Iterable[Any], arguments: dict[str, Any], known: Iterable[str]) -> list[ArgumentProblem]:
    """Pydantic's errors as problems; those of the branches of one union are joined into one."""
    problems: dict[str, ArgumentProblem] = {}
    for detail in details:
        kind = detail["type"]
        path = _path(detail["loc"], arguments, kind.startswith("missing"))
        if kind.startswith("missing"):
            problem = ArgumentProblem(path, "required field is missing", kind="missing")
        elif kind in ("extra_forbidden", "unexpected_keyword_argument"):
            problem = _unexpected(path, known)
        else:
            is_type = _PYDANTIC_KIND.fullmatch(kind) is not None
            problem = ArgumentProblem(
                path, _phrase(kind, detail["msg"]), detail["input"], "type" if is_type else "value"
            )
        before = problems.get(path)
        if before is not None and problem.text not in before.text:
            problem = ArgumentProblem(
                path, f"{before.text} or {problem.text.removeprefix('must be ')}", before.got, before.kind
            )
        problems[path] = problem
    return list(problems.values())


def _phrase(kind: str, message: str) -> str:
    match = _PYDANTIC_KIND.fullmatch(kind)
    if match and match[1] in _PYDANTIC:
        return f"must be {_KINDS[_PYDANTIC[match[1]]]}"
    message = re.sub(r"^[A-Z]\w* should ", "must ", message)
    return message.removeprefix("Value error, ").removeprefix("Assertion failed, ")


def _path(loc: tuple[int | str, ...], data: Any, is_missing: bool) -> str:
    """`("filters", 0, "Range", "low")` -> `filters[0].low`: the names of union branches are not part of the path."""
    path = ""
    for number, step in enumerate(loc):
        items: Any = dict(enumerate(data)) if isinstance(data, list) else data
        if isinstance(items, dict) and step in items:
            data = items[step]
        elif not is_missing or number < len(loc) - 1:
            continue
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path.lstrip(".") or "arguments"


# -- by jsonschema, for given parameters ------------------------------------------------------------------------------

_COMPARISONS = {
    "minimum": "must be greater than or equal to {}",
    "maximum": "must be less than or equal to {}",
    "exclusiveMinimum": "must be greater than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "pattern": "must match pattern {!r}",
    "format": "must be a valid {}",
    "const": "must be {!r}",
}


def _schema_problems(definition: FunctionDefinition, arguments: dict[str, Any]) -> list[ArgumentProblem]:
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    from nbagent.core.json_schema import jsonschema

    parameters = definition.parameters or {}
    validator = jsonschema.validators.validator_for(parameters, default=jsonschema.Draft202012Validator)
    try:
        validator.check_schema(parameters)
        # an empty registry: a schema never makes this process fetch another one
        found = list(validator(parameters, registry=Registry()).iter_errors(arguments))
    except (jsonschema.SchemaError, Unresolvable) as broken:
        reason = getattr(broken, "message", broken)
        raise ConfigurationError(
            f"the parameters of tool {definition.name!r} are not a JSON Schema: {reason}. Correct them."
        ) from None
    found.sort(key=lambda error: error.validator != "required")
    problems: dict[str, ArgumentProblem] = {}
    for error in found:
        for problem in _problems_of(error):
            problems.setdefault(problem.path, problem)
    return list(problems.values())


def _signature_problems(definition: FunctionDefinition, arguments: dict[str, Any]) -> list[ArgumentProblem]:
    """What the given parameters allow and the function can't be called with, such as a field missing in `required`."""
    from nbagent.functions.schema.function_schema import schema_of

    try:
        parameters = signature_of(definition.func).parameters
    except (ValueError, TypeError):  # a builtin without a signature
        return []
    kinds = {parameter.kind for parameter in parameters.values()}
    filled = schema_of(definition.func).run_contexts
    named = {
        name: parameter
        for name, parameter in parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) and name not in filled
    }
    missing = [name for name, parameter in named.items() if parameter.default is parameter.empty]
    problems = [ArgumentProblem(name, "required field is missing") for name in missing if name not in arguments]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        problems += [_unexpected(name, named) for name in arguments if name not in named]
    return problems


def _problems_of(error: Any) -> list[ArgumentProblem]:
    """One error of jsonschema as problems."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path).lstrip(".")
    value, instance = error.validator_value, error.instance
    where, inside = path or "arguments", f"{path}." if path else ""
    if error.validator == "required":
        missing = [name for name in value if name not in instance]
        return [ArgumentProblem(f"{inside}{name}", "required field is missing", kind="missing") for name in missing]
    if error.validator == "additionalProperties" and value is False:
        known = error.schema.get("properties", {})
        return [_unexpected(f"{inside}{name}", known) for name in instance if name not in known]
    if error.validator == "type":
        kinds = [value] if isinstance(value, str) else value
        return [ArgumentProblem(where, f"must be {' or '.join(_KINDS[kind] for kind in kinds)}", instance, "type")]
    if error.validator == "enum":
        return [ArgumentProblem(where, f"must be one of {', '.join(map(repr, value))}", instance)]
    if error.validator in ("anyOf", "oneOf") and error.context:
        texts = [found.text.removeprefix("must be ") for inner in error.context for found in _problems_of(inner)]
        return [ArgumentProblem(where, f"must be {' or '.join(dict.fromkeys(texts))}", instance)]
    if error.validator in _COMPARISONS:
        return [ArgumentProblem(where, _COMPARISONS[error.validator].format(value), instance)]
    return [ArgumentProblem(where, error.message)]

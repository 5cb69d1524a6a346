"""Validates a model's arguments before a tool runs, and repairs invalid ones if nothing is lost.

Otherwise, the model receives feedback: the error in each field, and the expected shape.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, cast

from nbagent.core.messages import FunctionCall, fault_in
from nbagent.errors import ConfigurationError, ToolArgumentsError, UnknownToolError
from nbagent.functions.formatting import short_repr
from nbagent.functions.registry import FunctionDefinition
from nbagent.functions.schema.introspection import signature_of
from nbagent.functions.schema.json_schema import example
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
#: How deep JSON text may be nested in JSON.
_LAYERS = 5

#: Pydantic's errors for a value of the wrong type.
_TYPE_ERROR = re.compile(r"\w+_(?:type|parsing|parsing_size|from_float|required)")
#: By pydantic's error: the types that a value repaired from text, or to text, may have.
_JSON_TYPES = {"int_type": (int,), "float_type": (int, float), "bool_type": (bool,), "string_type": (str,)}


@dataclass(frozen=True, slots=True)
class ArgumentProblem:
    """An invalid value: its path (`filters[0].name`), the error, and the model's value."""

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
    """Return the arguments to call with, and whether they were repaired. The dict `arguments` itself is neither changed
    nor passed to the function.

    Raises `ToolArgumentsError`, whose message is the feedback for the model.
    """
    if definition.schema is not None:
        return _validate_by_signature(definition, arguments)
    return _validate_by_schema(definition, arguments)


def malformed_arguments(definition: FunctionDefinition, call: FunctionCall) -> ToolArgumentsError:
    """The feedback for a call whose arguments did not arrive as a JSON object."""
    raw = call.raw or ""
    try:
        text = fault_in(raw) or "must be a JSON object"
    except ValueError as error:
        text = f"must be a JSON object, but are not valid JSON and may be cut off: {error}"
    return _feedback(definition, [ArgumentProblem("arguments", text, raw, "json")])


def invalid_arguments(
    definition: FunctionDefinition, details: list[Any], arguments: dict[str, Any]
) -> ToolArgumentsError:
    """Turn pydantic's errors into feedback for arguments that the tool's own pydantic model rejected."""
    known = (definition.parameters or {}).get("properties", {})
    return _feedback(definition, _model_problems(details, arguments, known))


def unknown_tool(name: str, names: Iterable[str]) -> UnknownToolError:
    """The feedback for a call to a tool that does not exist. It lists the existing tools."""
    known = sorted(names)
    advice = f"Call one of these tools: {', '.join(known)}" if known else "There are no tools. Answer without them."
    errors = f"  - there is no such tool{did_you_mean(name, known)}"
    return UnknownToolError(f"Tool call is invalid.\nTool: {name}\nErrors:\n{errors}\n{advice}", tool=name)


def _feedback(definition: FunctionDefinition, problems: list[ArgumentProblem]) -> ToolArgumentsError:
    parameters = definition.parameters or {}
    lines = [*map(str, problems[:_MAX_PROBLEMS])]
    errors = "\n".join(f"  - {line}" for line in lines)
    shape = json.dumps(example(parameters, parameters), ensure_ascii=False, default=str)
    text = _FEEDBACK.format(tool=definition.name, errors=errors, shape=shape)
    kind, path = problems[0].kind, problems[0].path
    return ToolArgumentsError(text, tool=definition.name, kind=kind, field=path, problems=lines)


def as_json_data(arguments: dict[str, Any]) -> dict[str, Any]:
    """Convert validated arguments to new JSON data. Values that can't be converted are replaced by their `repr`.

    Bytes become text, or base64 if they are not valid text.

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
    """A copy of JSON data. A function that modifies its argument must not modify the conversation."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _unexpected(path: str, known: Iterable[str]) -> ArgumentProblem:
    text = f"unexpected field{did_you_mean(path.rpartition('.')[2], known)}"
    return ArgumentProblem(path, text, kind="unexpected")


def _is_repaired(data: dict[str, Any], steps: Sequence[int | str], is_expected: Callable[[Any], bool]) -> bool:
    """Try to replace JSON text with the expected value, or a number with text. Returns whether that worked."""
    if not steps:
        return False
    *above, last = steps
    container = reduce(lambda inner, step: inner[step], above, cast("Any", data))
    value = container[last]
    if isinstance(value, str):
        try:
            value = json.loads(value, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return False
    elif type(value) in (int, float):
        value = str(value)
    if fits := value is not container[last] and is_expected(value):
        container[last] = value
    return fits


def _refuse(constant: str) -> None:
    raise ValueError(f"JSON has no {constant}")


def _validate_by_signature(definition: FunctionDefinition, arguments: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Validate strictly as JSON, then leniently. Leniently accepted values count as repaired."""
    from pydantic import ValidationError

    schema = definition.schema
    assert schema is not None
    try:
        text = json.dumps(arguments)
    except (TypeError, ValueError):  # Python objects, from a caller that is not a model
        text = None
    if text is not None:
        with suppress(ValidationError):
            return schema.arguments_of(schema.adapter.validate_json(text, strict=True), arguments), False
    data, is_repaired = _copied(arguments), text is not None
    for _ in range(_LAYERS):
        try:
            return schema.arguments_of(schema.adapter.validate_python(data), data), is_repaired
        except ValidationError as error:
            details = error.errors(include_url=False, include_context=False)
        if not sum(_is_repaired(data, _steps(item["loc"], data), partial(_is_accepted, item)) for item in details):
            break
        is_repaired = True
    raise _feedback(definition, _model_problems(details, data, (definition.parameters or {}).get("properties", ())))


def _is_accepted(detail: Any, value: Any) -> bool:
    """Whether a value has the type, or is one of the values, that this pydantic error expects."""
    kind = detail["type"]
    if kind in ("enum", "literal_error"):
        return repr(value) in re.findall(r"'[^']*'|[^\s,]+", detail["msg"])
    return type(value) in _JSON_TYPES.get(kind, (dict, list) if kind.endswith(("_type", "sequence_str")) else ())


def _model_problems(details: Iterable[Any], arguments: dict[str, Any], known: Iterable[str]) -> list[ArgumentProblem]:
    """Pydantic's errors as problems. Errors in the branches of a union are joined."""
    problems: dict[str, ArgumentProblem] = {}
    for detail in details:
        kind, steps = detail["type"], _steps(detail["loc"], arguments)
        if kind.startswith("missing"):
            path = _path([*steps, detail["loc"][-1]])
            problem = ArgumentProblem(path, "required field is missing", kind="missing")
        elif kind in ("extra_forbidden", "unexpected_keyword_argument"):
            problem = _unexpected(_path(steps), known)
        else:
            text = re.sub(r"^[A-Z]\w* should ", "must ", detail["msg"]).partition(", unable to parse")[0]
            text = text.removeprefix("Value error, ").removeprefix("Assertion failed, ")
            is_type = _TYPE_ERROR.fullmatch(kind) is not None
            problem = ArgumentProblem(_path(steps), text, detail["input"], "type" if is_type else "value")
        before = problems.get(problem.path)
        if before is not None and problem.text not in before.text:
            text = f"{before.text} or {problem.text.removeprefix('must be ')}"
            problem = replace(before, text=text)
        problems[problem.path] = problem
    return list(problems.values())


def _steps(loc: tuple[int | str, ...], data: Any) -> list[int | str]:
    """Omit union branches, which are not in the data: `("filters", 0, "Range", "low")` -> `["filters", 0, "low"]`."""
    steps = []
    for step in loc:
        items: Any = dict(enumerate(data)) if isinstance(data, list) else data
        if isinstance(items, dict) and step in items:
            data = items[step]
            steps.append(step)
    return steps


def _path(steps: Iterable[int | str]) -> str:
    """`["filters", 0, "low"]` -> `filters[0].low`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.lstrip(".") or "arguments"


def _validate_by_schema(definition: FunctionDefinition, arguments: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    from referencing.exceptions import Unresolvable

    data, is_repaired = _copied(arguments), False
    validator = check_parameters(definition)
    try:
        for _ in range(_LAYERS):
            errors = sorted(validator.iter_errors(data), key=lambda error: error.validator != "required")
            if not sum(_is_error_repaired(data, error, validator) for error in errors):
                break
            is_repaired = True
    except Unresolvable as error:
        raise _not_a_schema(definition, error) from None
    problems = [problem for error in errors for problem in _problems_of(error)] or _call_problems(definition, data)
    if problems:
        raise _feedback(definition, list({problem.path: problem for problem in problems}.values()))
    return data, is_repaired


def check_parameters(definition: FunctionDefinition) -> Any:
    """Return the validator for a tool's `parameters`. Raises `ConfigurationError` if they are not a JSON Schema."""
    from nbagent.core.json_schema import jsonschema, validator_of

    try:
        return validator_of(definition.parameters)
    except (jsonschema.SchemaError, RecursionError) as error:
        raise _not_a_schema(definition, getattr(error, "message", error)) from None


def _not_a_schema(definition: FunctionDefinition, reason: object) -> ConfigurationError:
    return ConfigurationError(f"tool {definition.name!r}: parameters are not a JSON Schema: {reason}. Correct them.")


def _is_error_repaired(data: dict[str, Any], error: Any, validator: Any) -> bool:
    """Try to repair the value, or one inside it that a branch of a union rejects. Returns whether that worked."""
    kinds = _kinds(error)
    if _is_repaired(data, error.absolute_path, lambda value: any(validator.is_type(value, kind) for kind in kinds)):
        return True
    return any(_is_error_repaired(data, inner, validator) for inner in error.context or ())


def _kinds(error: Any) -> list[str]:
    """The expected JSON types of a type error, else none."""
    if error.validator == "type":
        return [error.validator_value] if isinstance(error.validator_value, str) else list(error.validator_value)
    return [kind for inner in error.context or () if inner.instance is error.instance for kind in _kinds(inner)]


def _problems_of(error: Any) -> list[ArgumentProblem]:
    """One of jsonschema's errors as problems."""
    steps, value = list(error.absolute_path), error.instance
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in value]
        return [ArgumentProblem(_path([*steps, name]), "required field is missing", kind="missing") for name in missing]
    if error.validator == "additionalProperties" and error.validator_value is False:
        known = error.schema.get("properties", {})
        return [_unexpected(_path([*steps, name]), known) for name in value if name not in known]
    kinds = list(dict.fromkeys(_kinds(error)))
    text = f"must be a valid {' or '.join(kinds)}" if kinds else error.message.removeprefix(repr(value)).lstrip()
    return [ArgumentProblem(_path(steps), text, value, "type" if kinds else "value")]


def _call_problems(definition: FunctionDefinition, arguments: dict[str, Any]) -> list[ArgumentProblem]:
    """Problems of arguments that fit the given parameters but not the function: `required` may lack a field."""
    from nbagent.functions.schema.function_schema import schema_of

    schema = schema_of(definition.func)
    named = {**arguments, **dict.fromkeys(schema.run_contexts)}
    positional = [named.pop(name) for name in schema.positional if name in named]
    try:
        signature_of(definition.func).bind(*positional, **named)
    except ValueError:  # a builtin without a signature
        return []
    except TypeError as error:
        return [ArgumentProblem("arguments", str(error))]
    return []

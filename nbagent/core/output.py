"""`Output`: the expected type of an answer. It provides a JSON Schema and instructions for the model, and checks the
answer.

Types are cached, because a batch uses the same type thousands of times.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from nbagent.core.answer_json import json_in
from nbagent.core.checking import SentBackError
from nbagent.core.results import AgentResult
from nbagent.core.run_context import RunContext
from nbagent.errors import ConfigurationError, ExtractionError
from nbagent.text import shortened

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_ERRORS_SHOWN = 10
_CACHED_TYPES = 128
_INSTRUCTIONS = """\
Your final answer must be JSON alone: no explanation, no code block. It must be valid against this JSON Schema:
{schema}"""
_CORRECT = """\
This answer is not valid:
{problem}
Answer again, with the corrected JSON alone."""


@dataclass(frozen=True, eq=False, slots=True)
class Output:
    """The expected type of an answer. `output_of` creates it.

    - `type_name`: the type as written in code, such as `list[Person]`
    - `schema`: the JSON Schema, which always describes an object. If the type is not an object, the schema wraps it in
      an object with the field `result`. An empty schema is not sent.
    - `name`: the schema's name, which consists of letters, digits and `_`
    - `fields`: the field names of the pydantic model, which may be the item type of a list
    - `instructions`: the text that is added after the system prompt
    - `adapter`: pydantic's adapter, which reads and writes values of the type
    """

    type_name: str
    name: str
    schema: dict[str, Any]
    fields: tuple[str, ...]
    instructions: str
    adapter: TypeAdapter[Any]
    _is_wrapped: bool

    def check(self, result: AgentResult, _context: RunContext) -> None:
        """Set `data` to the value in the answer. See `AnswerCheck`."""
        try:
            result.data = self.read(result.content)
        except ValueError as problem:
            text = f"Expected {self.type_name} in the model's answer: {problem}; the model did not correct it."
            error = ExtractionError(text, answer=result.content)
            raise SentBackError(_CORRECT.format(problem=problem), error) from None

    def read(self, text: str) -> Any:
        """Read the value in an answer. If that fails, raises ValueError with a description for the model."""
        from pydantic import ValidationError

        try:
            data = json_in(text)
        except ValueError:
            if self._is_wrapped and (word := text.strip()) and not re.search(r"[\[{`]", word):
                with suppress(ValidationError):  # an unconstrained model may answer with a bare word
                    return self.adapter.validate_json(json.dumps(word))
            raise
        if self._is_wrapped and isinstance(data, dict) and set(data) == {"result"}:
            data = data["result"]
        try:
            return self.adapter.validate_json(json.dumps(data))
        except ValidationError as error:
            raise ValueError(_problems(error)) from None


def output_of(shape: Any) -> Output:
    """Return the `Output` for a type: a pydantic model, `list[Model]`, or another type that pydantic supports.

    Raises `ConfigurationError` for other types.

    >>> output_of(list[int]).read('{"result": [1, 2]}')
    [1, 2]
    """
    if isinstance(shape, Output):
        return shape
    try:
        hash(shape)
    except TypeError:  # the arguments of `Annotated` may be unhashable
        return _new_output(shape)
    return _cached_output(shape)


def _new_output(shape: Any) -> Output:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(shape)
        schema = adapter.json_schema()
    except (PydanticUserError, TypeError) as error:
        raise ConfigurationError(
            f"output: expected a pydantic model, list[Model], or another type that pydantic supports, got {shape!r} "
            f"({str(error).splitlines()[0]})."
        ) from None
    is_wrapped = schema.get("type") != "object"  # providers require an object at the top level
    if is_wrapped:
        definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
        schema = {"type": "object", "properties": {"result": schema}, "required": ["result"], **definitions}
    return Output(
        type_name=_type_name(shape),
        name=re.sub(r"\W+", "_", getattr(shape, "__name__", str(shape))).strip("_")[:60] or "result",
        schema=schema,
        fields=_field_names(shape),
        instructions=_INSTRUCTIONS.format(schema=json.dumps(schema, ensure_ascii=False)),
        adapter=adapter,
        _is_wrapped=is_wrapped,
    )


_cached_output = lru_cache(_CACHED_TYPES)(_new_output)


def _problems(error: Any) -> str:
    """Pydantic's errors, one line each: `- people[0].age: Input should be a valid integer (got "old")`."""
    lines = []
    for detail in error.errors(include_url=False)[:_ERRORS_SHOWN]:
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in detail["loc"]).lstrip(".")
        got = "" if detail["type"] == "missing" else f" (got {shortened(json.dumps(detail['input'], default=str), 80)})"
        lines.append(f"- {steps or 'the value'}: {detail['msg']}{got}")
    return "\n".join(lines)


def _type_name(shape: Any) -> str:
    arguments = getattr(shape, "__args__", None)
    name = getattr(shape, "__name__", None) or str(shape)
    return f"{name}[{', '.join(map(_type_name, arguments))}]" if arguments else name


def _field_names(shape: Any) -> tuple[str, ...]:
    item = next(iter(getattr(shape, "__args__", None) or ()), shape)
    return tuple(getattr(item, "model_fields", ()) or ())

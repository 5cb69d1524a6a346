"""Structured output: a text becomes pydantic objects, or a list of records.

The conversation does not change: a side agent without tools asks the model, and records into the same trace. If the
vendor can constrain its answer to a JSON Schema, it gets the schema (`LLMProvider.output_options`). Every answer is
validated, and the model gets to correct what is wrong.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack

from nbagent.checks import check_type, invalid
from nbagent.core.render.control_chars import show_control_chars
from nbagent.core.render.markdown import NO_TEX
from nbagent.core.request_options import RunOptions
from nbagent.core.results import AgentResult
from nbagent.errors import BadRequestError, ConfigurationError, ContextLengthError, ExtractionError
from nbagent.providers.base import LLMProvider
from nbagent.text import shortened

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
log = logging.getLogger("nbagent")

#: How often the model may correct its answer.
CORRECTIONS = 2
#: Combinations of server, model and schema that were refused: from then on, the schema is only in the prompt.
_REFUSED: set[str] = set()
_ERRORS_SHOWN = 10
#: Rows that a notebook shows.
ROWS = 60
_CODE_BLOCK = re.compile(r"```[\w-]*[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_BETWEEN_LINES = re.compile(r"(?:```\w*|[\s,])*")
_EXTRACT = """\
Extract what the user's text says as JSON. Answer with the JSON alone: no explanation, no code block.
Copy values from the text. If the text says nothing about an optional field, leave the field out.
The JSON must be valid against this JSON Schema:
{schema}"""
_RECORDS = """\
Extract the records in the user's message as a JSON array of flat objects: one object for each record, all with the
same keys. Answer with the JSON array alone: no explanation, no code block. If there is no record, answer []."""
_CORRECT = """\
This answer is not valid:
{problem}
Answer again, with the corrected JSON alone."""


class SideAgent(Protocol):
    """What `Agent.side_agent` makes."""

    async def chat(self, message: Any, **options: Unpack[RunOptions]) -> AgentResult:
        """Ask one question."""
        ...


#: Makes a side agent with the given system prompt.
MakeSideAgent = Callable[[str], SideAgent]


class Records(list[T]):
    """The objects that `Agent.extract` found for `list[Model]`; `to_frame` turns the list into a table."""

    def __init__(self, items: Sequence[T], fields: Sequence[str]) -> None:
        super().__init__(items)
        self._fields = fields

    def to_frame(self) -> pd.DataFrame:
        """One row for each object and one column for each field, even if there are no rows."""
        import pandas as pd

        rows = [item.model_dump() if hasattr(item, "model_dump") else item for item in self]
        return pd.DataFrame(rows, columns=list(self._fields) or None)

    def _repr_html_(self) -> str:
        """What a notebook shows: the objects as a table."""
        page: str = self.to_frame().to_html(notebook=True, max_rows=ROWS, classes=NO_TEX)
        return show_control_chars(page)


async def extract(make_side_agent: MakeSideAgent, provider: LLMProvider, text: str, shape: Any, **options: Any) -> Any:
    """See `Agent.extract`."""
    from pydantic import TypeAdapter, ValidationError
    from pydantic.errors import PydanticUserError

    if not isinstance(text, str) or not text.strip():
        raise invalid("text", text, "a text to extract from")
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(shape)
        schema = adapter.json_schema()
    except (PydanticUserError, TypeError) as error:
        raise ConfigurationError(
            f"shape: expected a pydantic model, list[Model], or another type that pydantic supports, got {shape!r} "
            f"({str(error).splitlines()[0]})."
        ) from None
    wrapped = schema.get("type") != "object"  # vendors require an object at the top level
    if wrapped:
        definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
        schema = {"type": "object", "properties": {"result": schema}, "required": ["result"], **definitions}

    def check(data: Any) -> Any:
        if wrapped and isinstance(data, dict) and set(data) == {"result"}:
            data = data["result"]
        try:
            return adapter.validate_json(json.dumps(data))
        except ValidationError as error:
            raise ValueError(_problems(error)) from None

    system = _EXTRACT.format(schema=json.dumps(schema, ensure_ascii=False))
    side_agent, output_type = make_side_agent(system), _type_name(shape)
    schema_options = _schema_options(provider, shape, schema)
    try:
        value = await _ask(side_agent, text, check, output_type, {**schema_options, **options})
    except BadRequestError as error:
        if not schema_options or isinstance(error, ContextLengthError):
            raise
        log.info("%s refuses a JSON Schema for its answer: asking without one. %s", provider.model_name, error)
        value = await _ask(make_side_agent(system), text, check, output_type, options)
        _REFUSED.add(_refusal_key(provider, schema))
    return Records(value, _field_names(shape)) if isinstance(value, list) else value


def _schema_options(provider: LLMProvider, shape: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """The request options that constrain the answer to the schema; none if the vendor has none or refused this one."""
    if _refusal_key(provider, schema) in _REFUSED:
        return {}
    name = re.sub(r"\W+", "_", getattr(shape, "__name__", str(shape))).strip("_")[:60] or "result"
    return provider.output_options(name, schema)


def _refusal_key(provider: LLMProvider, schema: dict[str, Any]) -> str:
    return json.dumps([provider.vendor, getattr(provider, "base_url", ""), provider.model_name, schema])


async def parse_message(
    make_side_agent: MakeSideAgent, system_prompt: str | None, sender: str, timestamp: Any, content: str
) -> list[dict[str, Any]]:
    """See `Agent.parse_message`."""

    def check(data: Any) -> list[dict[str, Any]]:
        if isinstance(data, dict):  # a single record, or {"records": [...]}
            lists = [value for value in data.values() if isinstance(value, list)]
            data = lists[0] if len(data) == 1 and lists else [data]
        if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
            raise ValueError("expected a JSON array of objects")
        return data

    check_type("content", content, str)
    if not content.strip():
        return []
    side_agent = make_side_agent("\n\n".join(filter(None, (system_prompt, _RECORDS))))
    return await _ask(side_agent, f"Sender: {sender}\nTime: {timestamp}\n\n{content}", check, "list[dict]", {})


async def _ask(
    side_agent: SideAgent, message: str, check: Callable[[Any], T], output_type: str, options: dict[str, Any]
) -> T:
    """Ask until `check` accepts the JSON of the answer. Raises `ExtractionError` if it never does."""
    origin = {"source": "extract", "output_type": output_type}
    for _ in range(CORRECTIONS + 1):
        result = await side_agent.chat(message, origin=origin, **options)
        if result.status_reason:  # part of an answer never passes for the whole
            problem = f"there is no whole answer. {result.status_reason}"
            break
        try:
            return check(json_in(result.content))
        except ValueError as error:
            problem = f"{error}; the model did not correct it."
            message = _CORRECT.format(problem=error)
    raise ExtractionError(f"Expected {output_type} in the model's answer: {problem}", answer=result.content)


def json_in(text: str) -> Any:
    """The JSON value in a model's answer, taken out of a Markdown code block or the prose around it.

    Objects in a row (JSON Lines) become a list. Raises ValueError if there is no value, if a value is incomplete, or if
    several could be meant: a part is never taken for the whole.

    >>> json_in('Here you are:\\n```json\\n[{"city": "Paris"}]\\n```')
    [{'city': 'Paris'}]
    """
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    blocks: list[Any] = []
    for block in _CODE_BLOCK.findall(text):
        with suppress(ValueError, RecursionError):
            value = json.loads(block)
            blocks += [] if value in blocks else [value]
    found = [] if blocks else _scan(text)
    values = blocks or [value for _, _, value in found]
    if not values:
        shown = shortened(text.strip(), 200)
        raise ValueError(f"found no complete JSON value in {shown!r}" if shown else "the answer is empty")
    with_objects = [value for value in values if _holds_object(value)]
    if len(with_objects) < 2:
        return with_objects[0] if with_objects else max(values, key=lambda value: len(json.dumps(value)))
    rest = text
    for start, end, _ in reversed(found):
        rest = rest[:start] + rest[end:]
    if blocks or not _BETWEEN_LINES.fullmatch(rest):
        raise ValueError(f"expected one JSON value, found {len(with_objects)}")
    return values


def _scan(text: str) -> list[tuple[int, int, Any]]:
    """`(start, end, value)` of the JSON objects and arrays in a text. Raises ValueError for a broken one."""
    found: list[tuple[int, int, Any]] = []
    longest, position = 0, 0
    while opening := re.compile(r"[\[{]").search(text, position):
        start, position = opening.span()
        try:
            value, position = json.JSONDecoder().raw_decode(text, start)
        except json.JSONDecodeError as error:
            begun = text[position : error.pos].strip()
            if len(begun) > longest:  # its inner values are only a part of what was requested
                raise ValueError(f"the JSON breaks off after {begun[-40:]!r}: {error.msg}") from None
        except RecursionError:  # nested too deeply, and so is the rest
            break
        else:
            found.append((start, position, value))
            longest = max(longest, position - start)
    return found


def _holds_object(value: Any) -> bool:
    """Whether there is an object in it, unlike in a footnote's [1]."""
    return bool(value) and (isinstance(value, dict) or (isinstance(value, list) and any(map(_holds_object, value))))


def _problems(error: Any) -> str:
    """Pydantic's errors, one line each: `- people[0].age: Input should be a valid integer (got "old")`."""
    lines = []
    for detail in error.errors(include_url=False)[:_ERRORS_SHOWN]:
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in detail["loc"]).lstrip(".")
        got = "" if detail["type"] == "missing" else f" (got {shortened(json.dumps(detail['input'], default=str), 80)})"
        lines.append(f"- {steps or 'the value'}: {detail['msg']}{got}")
    return "\n".join(lines)


def _type_name(shape: Any) -> str:
    """The type as a user writes it: `Person`, `list[Person]`."""
    arguments = getattr(shape, "__args__", None)
    name = getattr(shape, "__name__", None) or str(shape)
    return f"{name}[{', '.join(map(_type_name, arguments))}]" if arguments else name


def _field_names(shape: Any) -> tuple[str, ...]:
    """The field names of the model in `list[Model]`."""
    item = next(iter(getattr(shape, "__args__", None) or ()), None)
    return tuple(getattr(item, "model_fields", ()) or ())

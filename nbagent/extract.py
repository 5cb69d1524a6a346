"""Structured output: a text becomes pydantic objects, or a list of records, checked and asked for again if wrong.

The conversation is left alone: the model is asked aside, without tools, in the same trace. Where the vendor can hold
the answer to a JSON Schema it is told to (`LLMProvider.output_options`); everywhere the answer is validated, and what
is wrong with it goes back to the model.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from nbagent.errors import BadRequestError, ConfigurationError, ContextLengthError, ExtractionError

if TYPE_CHECKING:
    import pandas as pd

    from nbagent.agent import Agent
    from nbagent.providers.base import LLMProvider

T = TypeVar("T")
log = logging.getLogger("nbagent")

#: How often the model may correct its answer.
CORRECTIONS = 2
#: The servers, models and schemas that did not go together: they are asked in words alone from then on.
_REFUSED: set[str] = set()
_ERRORS_SHOWN = 10
_CODE_BLOCK = re.compile(r"```[\w-]*[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_BETWEEN_LINES = re.compile(r"(?:```\w*|[\s,])*")
_EXTRACT = """\
Extract what the user's text says as JSON. Answer with the JSON alone: no explanation, no code block.
Take values from the text as they are there; where it says nothing about an optional field, leave the field out.
The JSON must be valid against this JSON Schema:
{schema}"""
_RECORDS = """\
Extract the records in the user's message as a JSON array of flat objects, one object for each record, with the same
keys in all. Answer with the JSON array alone: no explanation, no code block. If there is no record, answer []."""
_AGAIN = """\
This is not what was asked for:
{problem}
Answer again, with the corrected JSON alone."""


class Records(list[T]):
    """The objects that `Agent.extract` found for `list[Model]`: a list that `to_frame` makes a table of."""

    def __init__(self, items: Sequence[T], fields: Sequence[str]) -> None:
        super().__init__(items)
        self._fields = fields

    def to_frame(self) -> pd.DataFrame:
        """One row for each object and one column for each field, also where there are no rows."""
        import pandas as pd

        rows = [item.model_dump() if hasattr(item, "model_dump") else item for item in self]
        return pd.DataFrame(rows, columns=list(self._fields) or None)


async def extract(agent: Agent, text: str, shape: Any, **options: Any) -> Any:
    """See `Agent.extract`."""
    from pydantic import TypeAdapter, ValidationError
    from pydantic.errors import PydanticUserError

    if not isinstance(text, str) or not text.strip():
        raise ConfigurationError(f"extract() needs a text to extract from, got {text!r}")
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(shape)
        schema = adapter.json_schema()
    except (PydanticUserError, TypeError) as error:
        raise ConfigurationError(
            f"{shape!r} can't be extracted: pass a pydantic model, list[Model], or another type that pydantic knows "
            f"({str(error).splitlines()[0]})"
        ) from None
    wrapped = schema.get("type") != "object"  # vendors want an object at the top
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
    held = _held(agent.provider, shape, schema)
    try:
        value = await _ask(agent, system, text, check, _spelled(shape), {**held, **options})
    except BadRequestError as error:
        if not held or isinstance(error, ContextLengthError):
            raise
        log.info("%s takes no JSON Schema for its answer: asking without. %s", agent.provider.model_name, error)
        value = await _ask(agent, system, text, check, _spelled(shape), options)
        _REFUSED.add(_about(agent.provider, schema))
    return Records(value, _fields(shape)) if isinstance(value, list) else value


def _held(provider: LLMProvider, shape: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """The options that hold the answer to the schema; none where the vendor has none, or refused this one before."""
    if _about(provider, schema) in _REFUSED:
        return {}
    name = re.sub(r"\W+", "_", getattr(shape, "__name__", str(shape))).strip("_")[:60] or "result"
    return provider.output_options(name, schema)


def _about(provider: LLMProvider, schema: dict[str, Any]) -> str:
    return json.dumps([provider.vendor, getattr(provider, "base_url", ""), provider.model_name, schema])


async def parse_message(agent: Agent, sender: str, timestamp: Any, content: str) -> list[dict[str, Any]]:
    """See `Agent.parse_message`."""

    def check(data: Any) -> list[dict[str, Any]]:
        if isinstance(data, dict):  # one record alone, or records under a name
            lists = [value for value in data.values() if isinstance(value, list)]
            data = lists[0] if len(data) == 1 and lists else [data]
        if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
            raise ValueError("it must be a JSON array of objects")
        return data

    if not isinstance(content, str):
        raise ConfigurationError(f"parse_message() needs the text of a message, got {content!r}")
    if not content.strip():
        return []
    system = "\n\n".join(filter(None, (agent.system_prompt, _RECORDS)))
    return await _ask(agent, system, f"Sender: {sender}\nTime: {timestamp}\n\n{content}", check, "list[dict]", {})


async def _ask(
    agent: Agent, system: str, message: str, check: Callable[[Any], T], output_type: str, options: dict[str, Any]
) -> T:
    """Ask aside until `check` takes the JSON of the answer. Raises ExtractionError where it never does."""
    aside = agent.aside(system)
    origin = {"source": "extract", "output_type": output_type}
    for _ in range(CORRECTIONS + 1):
        result = await aside.chat(message, origin=origin, **options)
        try:
            return check(json_in(result.content))
        except ValueError as error:
            problem = str(error)
        if result.status != "ok" or result.finish_reason == "length":
            break
        message = _AGAIN.format(problem=problem)
    ending = "it did not correct itself"
    if result.limit_reason:
        ending = f"a limit ended the run ({result.limit_reason})"
    elif result.finish_reason == "length":
        ending = "it was cut off: raise max_tokens, or extract from a shorter text"
    raise ExtractionError(f"no {output_type} in the model's answer: {problem}; {ending}", answer=result.content)


def json_in(text: str) -> Any:
    """The JSON value in a model's answer, unwrapped from a Markdown code block or from prose around it.

    Objects one after the other (JSON Lines) are a list. Raises ValueError where there is no value, where there is the
    beginning of one, and where several could be meant: a part is never taken for the whole.

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
    found = [] if blocks else _scanned(text)
    values = blocks or [value for _, _, value in found]
    if not values:
        shown = text.strip()[:200]
        raise ValueError(f"it holds no whole JSON value: {shown!r}" if shown else "it is empty")
    telling = [value for value in values if _tells(value)]
    if len(telling) < 2:
        return telling[0] if telling else max(values, key=lambda value: len(json.dumps(value)))
    around = text
    for start, end, _ in reversed(found):
        around = around[:start] + around[end:]
    if blocks or not _BETWEEN_LINES.fullmatch(around):
        raise ValueError(f"it holds {len(telling)} JSON values, and which one is meant is not clear: give one alone")
    return values


def _scanned(text: str) -> list[tuple[int, int, Any]]:
    """`(start, end, value)` of the JSON objects and arrays in a text. Raises ValueError for one that is broken."""
    found: list[tuple[int, int, Any]] = []
    longest, position = 0, 0
    while opening := re.compile(r"[\[{]").search(text, position):
        start, position = opening.span()
        try:
            value, position = json.JSONDecoder().raw_decode(text, start)
        except json.JSONDecodeError as error:
            begun = text[position : error.pos].strip()
            if len(begun) > longest:  # the values in it are but a part of what was asked for
                raise ValueError(f"it is JSON no further than {begun[-40:]!r}: {error.msg}") from None
        except RecursionError:  # nested too deep, and so at each of the next brackets
            break
        else:
            found.append((start, position, value))
            longest = max(longest, position - start)
    return found


def _tells(value: Any) -> bool:
    """Whether it holds an object, which a footnote's [1] does not."""
    return bool(value) and (isinstance(value, dict) or (isinstance(value, list) and any(map(_tells, value))))


def _problems(error: Any) -> str:
    """Pydantic's errors, a line each: `- people[0].age: Input should be a valid integer (got "old")`."""
    lines = []
    for detail in error.errors(include_url=False)[:_ERRORS_SHOWN]:
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in detail["loc"]).lstrip(".")
        got = "" if detail["type"] == "missing" else f" (got {json.dumps(detail['input'], default=str)[:80]})"
        lines.append(f"- {steps or 'the value'}: {detail['msg']}{got}")
    return "\n".join(lines)


def _spelled(shape: Any) -> str:
    """`Person`, `list[Person]`: the type as a user writes it."""
    arguments = getattr(shape, "__args__", None)
    name = getattr(shape, "__name__", None) or str(shape)
    return f"{name}[{', '.join(map(_spelled, arguments))}]" if arguments else name


def _fields(shape: Any) -> tuple[str, ...]:
    """The field names of the model in `list[Model]`."""
    item = next(iter(getattr(shape, "__args__", None) or ()), None)
    return tuple(getattr(item, "model_fields", ()) or ())

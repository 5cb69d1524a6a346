"""`Agent.extract` and `Agent.parse_message`: prompts outside the conversation whose answers are data.

Each method sends one prompt with `output` to a `side_agent`, whose runs are recorded in the agent's trace.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from nbagent.checks import check_type, invalid
from nbagent.core.output import Output, output_of
from nbagent.core.render.control_chars import show_control_chars
from nbagent.core.render.markdown import NO_TEX
from nbagent.core.results import AgentResult
from nbagent.errors import ExtractionError

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
Ask = Callable[..., Awaitable[AgentResult]]

#: How many rows a notebook shows.
ROWS = 60
#: The system prompt of an extraction.
EXTRACT = """\
Extract what the user's message says as JSON. Copy values from it. If it says nothing about an optional field, leave
the field out."""
#: Follows the system prompt when a message is parsed.
RECORDS = """\
Extract the records in the user's message as a JSON array of flat objects: one object for each record, all with the
same keys. Answer with the JSON array alone: no explanation, no code block. If there is no record, answer []."""


class Records(list[T]):
    """The list that `Agent.extract` returns for `list[Model]`.

    `run_id` is the run's id in the trace. `cost` is in US dollars, or None if a price is unknown.
    """

    def __init__(self, items: Sequence[T], fields: Sequence[str], run_id: str = "", cost: float | None = None) -> None:
        super().__init__(items)
        self._fields = fields
        self.run_id = run_id
        self.cost = cost

    def to_frame(self) -> pd.DataFrame:
        """Return a DataFrame with a row for each object and a column for each field, even if it has no rows."""
        import pandas as pd

        rows = [item.model_dump() if hasattr(item, "model_dump") else item for item in self]
        return pd.DataFrame(rows, columns=list(self._fields) or None)

    def _repr_html_(self) -> str:
        """The objects as a table, for notebooks."""
        page: str = self.to_frame().to_html(notebook=True, max_rows=ROWS, classes=NO_TEX)
        return show_control_chars(page)


async def extract(ask: Ask, message: Any, shape: Any) -> Any:
    """See `Agent.extract`."""
    if message is None or (isinstance(message, str) and not message.strip()):
        raise invalid("message", message, "text, or another message that chat() accepts")
    output = output_of(shape)
    result = await ask(message, origin={"source": "extract"}, output=output)
    value = _data(result, output.type_name)
    return Records(value, output.fields, result.run_id, result.cost) if isinstance(value, list) else value


def _data(result: AgentResult, type_name: str) -> Any:
    """Return the result's data. Raises `ExtractionError` if the answer is incomplete."""
    if result.status_reason:
        text = f"Expected {type_name}, got an incomplete answer. {result.status_reason}"
        error = ExtractionError(text, answer=result.content)
        error.partial = result
        raise error
    return result.data


async def parse_message(ask: Ask, sender: str, timestamp: Any, content: str) -> list[dict[str, Any]]:
    """See `Agent.parse_message`."""
    check_type("content", content, str)
    if not content.strip():
        return []
    message = f"Sender: {sender}\nTime: {timestamp}\n\n{content}"
    result = await ask(message, origin={"source": "extract"}, output=_records())
    records: list[dict[str, Any]] = _data(result, _records().type_name)
    return records


@cache
def _records() -> Output:
    """Return the output type: any objects, without a schema, because the system prompt describes them."""
    from pydantic import BeforeValidator

    output = output_of(Annotated[list[dict[str, Any]], BeforeValidator(_as_records)])
    return replace(output, type_name="list[dict]", schema={}, instructions="")


def _as_records(data: Any) -> Any:
    """Return the records of the answer, which may also be a single object or `{"records": [...]}`."""
    if isinstance(data, dict):
        lists = [value for value in data.values() if isinstance(value, list)]
        data = lists[0] if len(data) == 1 and lists else [data]
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise ValueError("expected a JSON array of objects")
    return data

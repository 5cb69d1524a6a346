"""The interface to engines: a `Batch` describes the requests, and an `Engine` sends them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Unpack

from nbagent.batch.answer import Answer
from nbagent.batch.rows import Row
from nbagent.core.budget import Budget
from nbagent.core.request_options import RunOptions
from nbagent.core.results import AgentResult
from nbagent.core.stream import AgentStream
from nbagent.providers.base import LLMProvider
from nbagent.trace.trace import Trace


class RowAgent(Protocol):
    """The agent that sends rows, created by `Agent.row_agent`."""

    #: Counts the spending of the agent's runs, in addition to the batch's budget.
    budget: Budget | None
    #: An engine may assign another provider.
    provider: LLMProvider
    trace: Trace

    @property
    def chat_stream(self) -> Callable[..., AgentStream]:
        """See `Agent.chat_stream`."""

    async def chat(self, message: Any, **options: Unpack[RunOptions]) -> AgentResult:
        """See `Agent.chat`."""

    def clear_history(self) -> None:
        """See `Agent.clear_history`."""

    def worker_factory(self) -> Callable[[], RowAgent]:
        """See `Agent.worker_factory`."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The settings of one map, without its rows.

    - `new_agent`: a function that creates an agent, which sends one row at a time
    - `options`: further arguments of `chat` for each row
    - `output`: the type of the answers' data, or None
    - `raises`: whether a row's error is raised instead of being recorded
    - `rpm`, `tpm`: requests and tokens per minute, if the user set them
    - `note`: a function that shows, in the progress bar, what the map is waiting for
    """

    new_agent: Callable[[], RowAgent]
    provider: LLMProvider
    concurrency: int
    options: Mapping[str, Any]
    budget: Budget
    output: Any = None
    raises: bool = False
    rpm: float | None = None
    tpm: float | None = None
    note: Callable[[str], None] = lambda text: None


#: Saves an answer before the next row is sent, so a killed process loses only the rows in progress.
Keep = Callable[[Answer], object]


class Engine(Protocol):
    """Sends rows. The argument `engine` of `Agent.map` selects the engine."""

    async def ask_rows(self, batch: Batch, rows: Sequence[Row], keep: Keep) -> None:
        """Send each row, and call `keep` with its answer immediately. Rows beyond the budget are not sent.

        Cancelling this stops the rows in progress.
        """

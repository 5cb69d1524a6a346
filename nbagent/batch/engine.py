"""The engines' interface: a `Batch` describes the requests, an `Engine` sends them."""

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
    """The agent for rows, from `Agent.row_agent`: no history, the conversation's trace, tools only on request."""

    #: Its runs' spending, in addition to the batch's budget.
    budget: Budget | None
    trace: Trace

    @property
    def chat_stream(self) -> Callable[..., AgentStream]:
        """See `Agent.chat_stream`."""
        ...

    @property
    def provider(self) -> LLMProvider:
        """The provider; an engine may assign another one."""
        ...

    @provider.setter
    def provider(self, spec: LLMProvider) -> None: ...

    async def chat(self, message: Any, **options: Unpack[RunOptions]) -> AgentResult:
        """Ask one question."""
        ...

    def clear_history(self) -> None:
        """Forget the last prompt."""
        ...

    def worker_factory(self) -> Callable[[], RowAgent]:
        """A recipe for the same agent in another process, for `cloudpickle`."""
        ...


@dataclass(frozen=True, slots=True)
class Batch:
    """The settings for one map's rows."""

    #: Makes an agent for rows that are sent one after the other.
    new_agent: Callable[[], RowAgent]
    provider: LLMProvider
    concurrency: int
    #: Further arguments of `chat`: the options of each row's run.
    options: Mapping[str, Any]
    budget: Budget
    #: The type of the answers' data, or None.
    output: Any = None
    #: Raise the first row's error instead of recording it.
    raises: bool = False
    #: Requests and tokens per minute, if the user set them.
    rpm: float | None = None
    tpm: float | None = None
    #: Shows in the progress bar what the map waits for.
    note: Callable[[str], None] = lambda text: None


#: Saves an answer before the next row is sent, so a kill loses only the rows under way.
Keep = Callable[[Answer], object]


class Engine(Protocol):
    """Sends rows. `Agent.map`'s `engine` selects one."""

    async def ask_rows(self, batch: Batch, rows: Sequence[Row], keep: Keep) -> None:
        """Send each row, and call `keep` with its answer immediately. Rows beyond the budget are skipped.

        Cancelling it stops the rows under way.
        """
        ...

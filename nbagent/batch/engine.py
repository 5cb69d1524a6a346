"""What engines share: a `Batch` says how to ask, an `Engine` asks."""

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
    """What asks the rows. `Agent.row_agent` makes one: no history, the conversation's trace, tools only if wanted."""

    #: What its runs spend, beside the budget of the batch.
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
        """Forget the question before the next one."""
        ...

    def worker_factory(self) -> Callable[[], RowAgent]:
        """What makes the same agent in another process; `cloudpickle` takes it there."""
        ...


@dataclass(frozen=True, slots=True)
class Batch:
    """How to ask the rows of one map."""

    #: A new agent for rows that are asked one after the other.
    new_agent: Callable[[], RowAgent]
    provider: LLMProvider
    concurrency: int
    #: Further arguments of `chat`: the options of each row's run.
    options: Mapping[str, Any]
    budget: Budget
    #: The type of the answers' data, or None.
    output: Any = None
    #: Raise the first row's error, in place of keeping it.
    raises: bool = False
    #: Requests and tokens per minute, if the user knows the provider's limits.
    rpm: float | None = None
    tpm: float | None = None
    #: Says in the progress bar what the map waits for.
    note: Callable[[str], None] = lambda text: None


#: Keeps an answer: before the next row is asked in its place, so that a kill costs the rows under way and no more.
Keep = Callable[[Answer], object]


class Engine(Protocol):
    """Asks rows. Which one does is `Agent.map`'s `engine`."""

    async def ask_rows(self, batch: Batch, rows: Sequence[Row], keep: Keep) -> None:
        """Ask each row, and call `keep` with its answer at once. Rows that the budget does not pay for are left out.

        Cancelling it ends what is under way.
        """
        ...

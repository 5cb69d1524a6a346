"""What the current code belongs to: its run, cell, labels, account and so on, as one value of the context.

Tasks and the threads of tools inherit it. Threads that a tool starts itself do so with
`contextvars.copy_context().run(...)`, or with Python 3.14's option `thread_inherit_context`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any, NamedTuple

from nbagent.core.labels import Labels, checked_labels
from nbagent.core.limits import Account, Request
from nbagent.core.messages import LLMMessage
from nbagent.core.queue import QueueEntry
from nbagent.core.run_context import RunContext


class Cell(NamedTuple):
    """A cell: the front end's id, or `In[3]` where it sends none (nbclient, a terminal), and the number of its run."""

    cell_id: str | None = None
    execution_count: int | None = None


NO_CELL = Cell()


_OUTSIDE = RunContext()


class Current(NamedTuple):
    """What the current code belongs to. Outside of runs, cells and blocks it has these defaults."""

    #: The `core.run.Run` whose tool or check this is.
    run: Any = None
    #: What a tool may know of its call.
    call: RunContext = _OUTSIDE
    #: Tells the observers of the run, as events of the tool's call, what happens in the runs that the tool starts.
    tell: Callable[[Any], None] | None = None
    #: The runs that wait for this code: their tool, or the body of a plain `for` over their events.
    enclosing: frozenset[QueueEntry] = frozenset()
    #: What new runs spend from: the account of the run, of a map, or of a client.
    account: Account | None = None
    #: The last request that this code sent, or that it is part of.
    request: Request | None = None
    #: Who is asked about calls of agents that have no approver of their own: `functions.approval.Approver`.
    approver: Callable[..., Any] | None = None
    #: Whether that one is asked about all calls of all agents.
    approves_all: bool = False
    #: The call of the tool, by which it can ask the person: a `functions.asking.CallInProgress`.
    call_in_progress: Any = None
    #: The labels of new runs.
    labels: Labels | None = None
    #: The cell; None where no cell is known to have started this code.
    cell: Cell | None = None
    #: How many `run_cell` calls are running here: inside another magic an async cell can't be awaited.
    cell_depth: int = 0
    #: Whether only the call shows what a tool prints, and no cell does: in a panel's runs, and in those of clients.
    has_no_cell_output: bool = False
    #: The row of a map that is asked.
    row_key: str | None = None
    #: The seconds that each request of that row waited for its slot. None: this is no row, and requests don't wait.
    waits: list[float] | None = None
    #: Whether another model is asked if this one can't answer now: then nobody waits until the provider takes requests.
    has_alternative: bool = False
    #: Called with each HTTP exchange when it is over: a `core.http_exchange.Collector`.
    collect: Callable[[Any], None] | None = None
    #: The MCP client's request that a tool call serves: a `mcp.server.tool_server.ClientRequest`.
    client_request: Any = None
    #: The threads that wait in `run_sync` for this code; their event loops stand still.
    blocked_threads: frozenset[int] = frozenset()
    #: Whether the main thread is one of them, all the time or from one event to the next.
    main_waits: bool = False

    @property
    def history(self) -> Sequence[LLMMessage]:
        """The messages of the run's conversation as they are now; empty outside of runs."""
        return self.run.history.messages if self.run is not None else ()


_NOTHING = Current()
#: What the current code belongs to: `current.get().labels`. Change it with the functions below.
current: ContextVar[Current] = ContextVar("nbagent_current", default=_NOTHING)


def labels_here(
    tags: Iterable[str] | None, user: str | None, session: str | None, metadata: Mapping[str, Any] | None
) -> Labels:
    """The labels that a user passed in, within those of the current code. Raises ConfigurationError for others."""
    labels, outer = checked_labels(tags, user, session, metadata), current.get().labels
    return labels if outer is None else labels.within(outer)


def set_current(**changes: Any) -> None:
    """From now on, the code of this context has these values of `Current`."""
    current.set(current.get()._replace(**changes))


@contextmanager
def changed(**changes: Any) -> Iterator[None]:
    """The code of a block has these values. What the block itself sets of others stays."""
    before = current.get()
    inside = before._replace(**changes)
    current.set(inside)
    try:
        yield
    finally:
        after = current.get()
        current.set(before if after is inside else after._replace(**{name: getattr(before, name) for name in changes}))


def context_with(**changes: Any) -> Context:
    """A copy of the current context with these values, for a task."""
    context = copy_context()
    context.run(set_current, **changes)
    return context

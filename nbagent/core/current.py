"""The context of the running code as one value: its run, cell, labels, account and so on.

Tasks and tool threads inherit it. Threads that a tool starts itself inherit it only if the tool passes them
`contextvars.copy_context().run`, or if the option `thread_inherit_context` of Python 3.14 is on.
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
    """A cell's id and execution count. If the front end sends no id (nbclient, a terminal), the id is made from the
    count, as in `In[3]`.
    """

    cell_id: str | None = None
    execution_count: int | None = None


NO_CELL = Cell()
_OUTSIDE = RunContext()


class Current(NamedTuple):
    """The context of the running code. The defaults apply outside runs, cells and blocks."""

    #: The `core.run.Run` whose tool or check this is.
    run: Any = None
    #: The tool's view of its call.
    call: RunContext = _OUTSIDE
    #: Sends the events of runs that the tool starts to the run's observers, as events of the tool's call.
    report_event: Callable[[Any], None] | None = None
    #: The runs that wait for this code: their tool, or the body of a plain `for` over their events.
    enclosing: frozenset[QueueEntry] = frozenset()
    #: The parent account of new runs: the account of this run, of a map or of a client.
    account: Account | None = None
    #: The last request that this code sent or is part of.
    request: Request | None = None
    #: The approver for agents without their own: `functions.approval.Approver`.
    approver: Callable[..., Any] | None = None
    #: Whether that approver decides on all calls of all agents.
    approves_all: bool = False
    #: The tool's call, through which it can ask the user: a `functions.elicitation.CallInProgress`.
    call_in_progress: Any = None
    #: The labels of new runs.
    labels: Labels | None = None
    #: The cell; None if no known cell started this code.
    cell: Cell | None = None
    #: How many `run_cell` calls are running here: an async cell can't be awaited inside another magic.
    cell_depth: int = 0
    #: Whether only the call shows a tool's output, not a cell: in runs of panels and clients.
    has_no_cell_output: bool = False
    #: The current row of a map.
    row_key: str | None = None
    #: The seconds that each request of that row waited for its slot. None outside rows, where requests don't wait.
    waits: list[float] | None = None
    #: Whether another model is tried if this one can't answer now. Then requests don't wait for the provider.
    has_alternative: bool = False
    #: Called with each finished HTTP exchange: a `core.http_exchange.Collector`.
    collect: Callable[[Any], None] | None = None
    #: The MCP client's request behind a tool call: a `mcp.server.tool_server.ClientRequest`.
    client_request: Any = None
    #: The threads that wait in `run_sync` for this code; their event loops are blocked.
    blocked_threads: frozenset[int] = frozenset()
    #: Whether the main thread is one of them, all the time or from one event to the next.
    main_waits: bool = False

    @property
    def history(self) -> Sequence[LLMMessage]:
        """The current messages of the run's conversation; empty outside runs."""
        return self.run.history.messages if self.run is not None else ()


_NOTHING = Current()
#: The context of the current code: `current.get().labels`. Change it with the functions below.
current: ContextVar[Current] = ContextVar("nbagent_current", default=_NOTHING)


def labels_here(
    tags: Iterable[str] | None, user: str | None, session: str | None, metadata: Mapping[str, Any] | None
) -> Labels:
    """Combine a user's labels with the labels of the running code. Raises ConfigurationError if they are invalid."""
    labels, outer = checked_labels(tags, user, session, metadata), current.get().labels
    return labels if outer is None else labels.within(outer)


def set_current(**changes: Any) -> None:
    """Set these values of `Current` for the rest of this context."""
    current.set(current.get()._replace(**changes))


@contextmanager
def changed(**changes: Any) -> Iterator[None]:
    """Set these values for a block. Other values that are set inside the block stay set after it."""
    before = current.get()
    inside = before._replace(**changes)
    current.set(inside)
    try:
        yield
    finally:
        after = current.get()
        current.set(before if after is inside else after._replace(**{name: getattr(before, name) for name in changes}))


def context_with(**changes: Any) -> Context:
    """Return a copy of the current context with these values, for a task."""
    context = copy_context()
    context.run(set_current, **changes)
    return context

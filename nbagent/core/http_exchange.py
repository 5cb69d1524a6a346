"""The transparent HTTP log: who wants to know what goes over the wire, and the form in which they are told.

Providers are shared by agents and by runs at the same time, so that they can't hold a switch. Whoever wants the
exchanges says so in the current context; a transport looks there before each request, and does nothing more where
nobody asks.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from nbagent.core.aclose import closing

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One HTTP request and what came back, secrets removed: in their place stands `$NAME_OF_THE_SECRET`.

    Bodies are the text that was sent and received, a stream's raw events included. What never came is None.
    """

    method: str
    url: str
    request_headers: Mapping[str, str]
    request_body: str
    request_bytes: int
    #: Unix time in seconds.
    started: float
    #: Until the last byte came, or the failure.
    duration_s: float
    status: int | None = None
    http_version: str | None = None
    response_headers: Mapping[str, str] | None = None
    response_body: str | None = None
    response_bytes: int | None = None
    #: The vendor's id of the request.
    request_id: str | None = None
    #: Seconds until the answer's head was there (of an error that an SDK reads itself: until all of it was).
    ttfb_s: float | None = None
    #: The answer was read to its end; False where it broke, or was left at its logical end or by an interrupt.
    complete: bool = False
    #: The names that stand for secrets, without the dollar sign.
    secrets: Sequence[str] = ()
    #: A body was longer than what is kept of one.
    truncated: bool = False
    #: What broke the connection. An answer with an error status is an answer.
    error_type: str | None = None
    error_message: str | None = None

    def facts(self) -> dict[str, Any]:
        """The exchange in short, for an event's metadata."""
        names = ("method", "url", "status", "duration_s", "request_bytes", "response_bytes", "error_type")
        return {name: getattr(self, name) for name in names}


Collector = Callable[[Exchange], None]
_collector: ContextVar[Collector | None] = ContextVar("nbagent_http_collector", default=None)


def current_collector() -> Collector | None:
    """Who is to be told of an exchange that begins now; None where nobody asked."""
    return _collector.get()


@contextmanager
def collecting(collector: Collector) -> Iterator[None]:
    """In this block, and in the tasks it starts, `collector` is told of each exchange when it has ended.

    >>> exchanges = []
    >>> with collecting(exchanges.append):                                     # doctest: +SKIP
    ...     await provider.chat(messages)
    """
    before = _collector.get()
    _collector.set(collector)
    try:
        yield
    finally:
        _collector.set(before)  # no token: an abandoned run may be closed in another context


async def collected(stream: AsyncIterator[T], collector: Collector) -> AsyncGenerator[T]:
    """The items of `stream`; `collector` is told of the exchanges behind them.

    A generator runs in the context of whoever asks for the next item, so that it is set for each item anew.
    """
    async with closing(stream) as items:
        while True:
            with collecting(collector):
                item = await anext(items, None)
            if item is None:
                return
            yield item

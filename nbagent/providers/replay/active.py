"""The recordings that are active in this process: the one that began last records or answers all agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nbagent.core.run import Provider, Tools


class Tape(Protocol):
    """What the agent needs of a recording that is being made or replayed."""

    #: Whether it answers every request itself, so that no model is ever asked.
    replay_only: bool
    #: The vendors whose answers it holds.
    vendors: frozenset[str]

    def wrap(self, provider: Provider, tools: Tools) -> tuple[Provider, Tools]:
        """A provider that records the answers of `provider` or replays recorded ones, and the tools that go with it."""
        ...


_active: list[Tape] = []


def current_recording() -> Tape | None:
    """The recording that began last and has not ended, or None."""
    return _active[-1] if _active else None


def active_recordings() -> Sequence[Tape]:
    """All recordings that began and have not ended, the current one last."""
    return tuple(_active)


def activate(tape: Tape) -> None:
    """Record or replay all agents of the process from now on, in every thread and cell."""
    deactivate(tape)
    _active.append(tape)


def deactivate(tape: Tape) -> None:
    """Stop using this recording; the one that began before it is current again."""
    if tape in _active:
        _active.remove(tape)

"""The recordings that are active in this process: the one that began last records or answers all agents."""

from __future__ import annotations

from typing import Protocol

from nbagent.core.run import Provider, Tools


class Tape(Protocol):
    """What the agent needs of a recording that is being made or replayed."""

    #: Whether it answers every request itself, so that no model is ever asked.
    replay_only: bool
    #: The providers whose answers it holds.
    vendors: frozenset[str]

    def wrap(self, provider: Provider, tools: Tools) -> tuple[Provider, Tools]:
        """A provider that records the answers of `provider` or replays recorded ones, and the tools that go with it."""
        ...


#: All that began and have not ended, for agents in every thread and cell; the current one is the last.
active: list[Tape] = []


def current_recording() -> Tape | None:
    """The recording that began last and has not ended, or None."""
    return active[-1] if active else None

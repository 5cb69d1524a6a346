"""The active recordings in this process. The latest one records or replays the answers to all agents."""

from __future__ import annotations

from typing import Protocol

from nbagent.core.run import Provider, Tools


class Tape(Protocol):
    """An agent's interface to a recording that is being made or replayed."""

    #: Whether the recording answers every request, so that no model is ever called.
    replay_only: bool
    #: The names of the providers whose answers the recording contains.
    providers: frozenset[str]

    def wrap(self, provider: Provider, tools: Tools) -> tuple[Provider, Tools]:
        """A provider that records the answers from `provider` or replays recorded ones, and its matching tools."""
        ...


#: All open recordings, for agents in every thread and cell. The last one is current.
active: list[Tape] = []


def current_recording() -> Tape | None:
    """The latest open recording, or None."""
    return active[-1] if active else None

"""A person's approvals for the rest of the session, so that nbagent does not ask again."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from nbagent.functions.binding import is_same
from nbagent.functions.source import function_version


class Allow(Enum):
    """An approver returns it instead of True to allow later calls as well. A redefined tool needs approval again.

    >>> def approve(call, definition):
    ...     return Allow.TOOL if definition.name == "search" else False
    """

    TOOL = "this tool"
    CALL = "this tool with these arguments"


class Allowances:
    """The allowances of one agent and its forks, in memory only."""

    def __init__(self) -> None:
        #: The function, its version, and its arguments as JSON; None for any arguments.
        self._given: list[tuple[Any, str, str | None]] = []

    def add(self, allow: Allow, func: Any, arguments: str) -> None:
        """Allow later calls of exactly this function, with any arguments or, for `Allow.CALL`, with these."""
        self._given.append((func, function_version(func), None if allow is Allow.TOOL else arguments))

    def cover(self, func: Any, arguments: str) -> bool:
        """Whether a call was allowed before."""
        return any(given in (None, arguments) for given in self._of(func))

    def describe(self, func: Any) -> str:
        """The allowed calls, for people; empty if there are none."""
        given = set(self._of(func))
        if None in given:
            return "allowed"
        return f"{len(given)} {'call' if len(given) == 1 else 'calls'} allowed" if given else ""

    def take_back(self, func: Any) -> None:
        """From now on, every call of the function needs approval again."""
        self._given = [given for given in self._given if not is_same(given[0], func)]

    def _of(self, func: Any) -> list[str | None]:
        same = (given for given in self._given if is_same(given[0], func))
        # autoreload changes a function in place
        return [arguments for _, version, arguments in same if version == function_version(func)]


def as_key(arguments: dict[str, Any]) -> str:
    """JSON data as text that is equal only for equal arguments: 1, 1.0 and True differ."""
    return json.dumps(arguments, sort_keys=True)

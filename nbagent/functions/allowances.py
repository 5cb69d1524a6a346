"""A person's approvals for the rest of the session."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from nbagent.functions.binding import is_same
from nbagent.functions.source import function_version


class Allow(Enum):
    """A decision that an approver returns instead of True, to allow later calls as well. A redefined tool needs
    approval again.

    >>> def approve(call, definition):
    ...     return Allow.TOOL if definition.name == "search" else False
    """

    TOOL = "this tool"
    CALL = "this tool with these arguments"


class Allowances:
    """The allowances of one agent and its forks. They are kept in memory only."""

    def __init__(self) -> None:
        #: A function, its version, and its arguments as JSON, or None for any arguments.
        self._allowed: list[tuple[Any, str, str | None]] = []

    def add(self, allow: Allow, func: Any, arguments: str) -> None:
        """Allow later calls to exactly this function, with any arguments or, for `Allow.CALL`, only with these
        arguments.
        """
        self._allowed.append((func, function_version(func), None if allow is Allow.TOOL else arguments))

    def cover(self, func: Any, arguments: str) -> bool:
        """Whether a person has already allowed calls to this function with these arguments."""
        return any(allowed in (None, arguments) for allowed in self._arguments(func))

    def describe(self, func: Any) -> str:
        """A summary of the allowed calls for display; empty if there are none."""
        allowed = set(self._arguments(func))
        if None in allowed:
            return "allowed"
        return f"{len(allowed)} {'call' if len(allowed) == 1 else 'calls'} allowed" if allowed else ""

    def revoke(self, func: Any) -> None:
        """Require approval again for every call to the function."""
        self._allowed = [allowed for allowed in self._allowed if not is_same(allowed[0], func)]

    def _arguments(self, func: Any) -> list[str | None]:
        same = (allowed for allowed in self._allowed if is_same(allowed[0], func))
        # autoreload changes a function in place
        return [arguments for _, version, arguments in same if version == function_version(func)]


def as_key(arguments: dict[str, Any]) -> str:
    """JSON data as text. Two texts are equal only if the data is the same; 1, 1.0 and True count as different."""
    return json.dumps(arguments, sort_keys=True)

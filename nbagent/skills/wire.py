"""The wire format of skills and their calls. `server/routes/skills.py` sends it, and `ToolManager` reads it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class SkillResult:
    """The result of one call: the validated output as JSON data, or an error.

    `trace_id` is the `run_id` of the calling run, as in the tables of `agent.trace`.

    >>> SkillResult(True, {"mean": 3.0}, trace_id="run_1", duration_ms=12.5).to_dict()
    {'success': True, 'data': {'mean': 3.0}, 'error': None, 'trace_id': 'run_1', 'duration_ms': 12.5}
    """

    success: bool
    data: Any = None
    error: str | None = None
    trace_id: str = ""
    duration_ms: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The result as a dict."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill. `parameters` is the JSON Schema of its arguments."""

    id: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Skills:
    """The executable skills of an agent."""

    skills: list[Skill]

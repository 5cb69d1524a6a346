"""What runs and tool calls return: `AgentResult` and `ToolOutcome`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nbagent.core.content.images import Image
from nbagent.core.messages import Content, FunctionCall, Usage, short_repr


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The result of one tool call: for the model (`content`), for the caller (`value`) and for the trace (the rest)."""

    call: FunctionCall
    content: Content
    value: Any = None
    is_error: bool = False
    error: BaseException | None = None
    args_valid: bool = True
    validation_error: str | None = None
    repaired: bool = False
    approval: str = "auto"
    truncated: bool = False
    result_chars: int = 0
    started: float = 0.0  # seconds since the epoch
    duration_s: float = 0.0
    function_version: str = ""
    cell_id_of_definition: str | None = None
    value_repr: str = ""
    denied: bool = False


@dataclass(slots=True, repr=False)
class AgentResult:
    """The result of a run. `result["content"]` works too; `str(result)` is the content.

    - `function_calls`: dicts `{id, name, arguments, result, is_error, duration_s}`
    - `iterations`: how many requests were sent to the model
    - `status`: "ok", "limit", "denied", "interrupted" or "error"; `limit_reason` names the limit
    - `cost`: in US dollars; None if the price of a request is not known
    - `images`: made by the model. They display themselves in a notebook and have `save(path)` and `to_pil()`.
    """

    content: str = ""
    function_calls: list[dict[str, Any]] = field(default_factory=list)
    iterations: int = 0
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    run_id: str = ""
    status: str = "ok"
    limit_reason: str | None = None
    images: list[Image] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        if key not in self.keys():
            raise KeyError(f"{key!r}: expected one of {', '.join(self.keys())}")
        return getattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        """Like `dict.get`."""
        return getattr(self, key) if key in self.keys() else default

    def keys(self) -> tuple[str, ...]:
        """The field names, so that `dict(result)` works."""
        return tuple(self.__dataclass_fields__)

    def __str__(self) -> str:
        return self.content

    def __repr__(self) -> str:
        """`<AgentResult ok: 'It is sunny.', 1 tool call, 262 tokens, $0.0012>`, for the last line of a cell."""
        status = f"{self.status} ({self.limit_reason})" if self.limit_reason else self.status
        counts = (
            (len(self.function_calls), "tool call"),
            (len(self.images), "image"),
            (self.usage.total_tokens, "token"),
        )
        facts = [f"{number:,} {thing}{'' if number == 1 else 's'}" for number, thing in counts if number]
        facts += [f"${self.cost:.4f}"] if self.cost else []
        return f"<AgentResult {', '.join([f'{status}: {short_repr(self.content)}', *facts])}>"

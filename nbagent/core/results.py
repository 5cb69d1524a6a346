"""The results of runs and tool calls: `AgentResult` and `ToolOutcome`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nbagent.core.citations import Citation, numbered
from nbagent.core.content.images import Image
from nbagent.core.json_text import json_text
from nbagent.core.messages import Content, FunctionCall, LLMResponse, Usage, origin_note, short_repr
from nbagent.text import shortened

#: How a run ended.
Status = Literal["ok", "empty", "blocked", "truncated", "limit", "denied", "interrupted", "error"]


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The result of one tool call. `content` is for the model, `value` is for the caller, and the rest is for the
    trace.
    """

    call: FunctionCall
    content: Content
    value: Any = None
    is_error: bool = False
    error: BaseException | None = None
    args_valid: bool = True
    validation_error: str | None = None
    validation_kind: str | None = None
    validation_field: str | None = None
    repaired: bool = False
    approval: str = "auto"
    #: Seconds that the approval decision took; None if nobody was asked.
    approval_wait_s: float | None = None
    #: The repaired arguments; None if they needed no repair.
    args_repaired: Mapping[str, Any] | None = None
    truncated: bool = False
    result_chars: int = 0
    started: float = 0.0  # seconds since the epoch
    duration_s: float | None = 0.0  # None if a provider reported its tool's call only with the result
    function_version: str = ""
    #: The skill or the MCP server that the tool comes from.
    source: str = ""
    cell_id_of_definition: str | None = None
    #: Equivalent Python code, if the tool's docstring has it.
    python: str | None = None
    value_repr: str = ""
    #: Whether the result is kept when a long conversation is trimmed.
    pinned: bool = False
    denied: bool = False
    interrupted: bool = False


def answer_status(response: LLMResponse) -> tuple[Status, str | None]:
    """Return the `status` and `status_reason` of a run that ends with this answer.

    >>> answer_status(LLMResponse("", None, "content_filter", {"finish_reason_raw": "SAFETY"}))
    ('blocked', "The provider's filter blocked the answer (SAFETY).")
    """
    metadata, reason = response.metadata or {}, response.finish_reason
    details = metadata.get("stop_details")
    content = response.message_content
    is_empty = not response.function_calls and not (content.strip() if isinstance(content, str) else content)
    is_incomplete = is_empty or reason in ("content_filter", "refusal", "length")
    words = [metadata.get("finish_reason_raw") if is_incomplete else None]
    words += details.values() if isinstance(details, dict) else [details]
    detail = ": ".join(shortened(word, 200) for word in dict.fromkeys(words) if word and isinstance(word, str))
    detail = f" ({detail})" if detail else ""
    if reason == "content_filter":
        return "blocked", f"The provider's filter blocked the answer{detail}."
    if reason == "refusal" or metadata.get("refusal"):
        return "blocked", f"The model refused to answer{detail}."
    if reason == "length":
        remedy = "" if metadata.get("no_tool") else ": raise max_tokens, or ask for less"  # more tokens would not help
        return "truncated", f"The answer is cut off{detail}{remedy}."
    if is_empty:
        return "empty", f"The model answered nothing{detail}."
    return "ok", None


@dataclass(slots=True, repr=False)
class AgentResult(Mapping[str, Any]):
    """The result of a run. It is also a mapping: `result["content"]`, `"cost" in result`, `dict(result)`.

    `str(result)` is readable text: the content, or else the `status_reason`. If the embedded model quoted a tool's
    result or used no tool, a note in brackets says so. `to_dict()` returns JSON data.

    - `function_calls`: dicts `{id, name, arguments, result, is_error, duration_s}`
    - `iterations`: the number of requests sent to the model
    - `status`: "ok"; "empty" (still no answer after one more request); "blocked" (by a filter or a guard, or refused by
      the model); "truncated" (the limit of output tokens was reached); "limit"; "denied"; "interrupted"; or "error".
      `status_reason` explains the status in a sentence, with the provider's own words if there are any. `limit_reason`
      names the limit.
    - `finish_reason`: why the model's last answer ended, in the same words for all providers: "stop", "tool_calls"
      (only from providers that report it), "length", "content_filter", "refusal", or "pause" (the model would
      continue). None if the provider gave another reason.
    - `cost`: the cost in US dollars, or None if a request's price is unknown
    - `data`: the value of type `output`; None without `output`, or if the status is neither "ok" nor "denied"
    - `citations`: sources found by a provider's own tool, as dicts `{start, end, url, title, cited_text}`. `start` and
      `end` are positions of characters in `content`.
    - `images`: the images that the model generated. They display themselves in a notebook and have the methods
      `save(path)` and `to_pil()`.
    """

    content: str = ""
    function_calls: list[dict[str, Any]] = field(default_factory=list)
    iterations: int = 0
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    run_id: str = ""
    status: Status = "ok"
    limit_reason: str | None = None
    status_reason: str | None = None
    data: Any = None
    images: list[Image] = field(default_factory=list)
    citations: list[Citation] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        if key not in self:
            raise KeyError(f"{key!r}: expected one of {', '.join(self)}")
        return getattr(self, key)

    def __contains__(self, key: object) -> bool:
        return key in self.__dataclass_fields__

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dataclass_fields__)

    def __len__(self) -> int:
        return len(self.__dataclass_fields__)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data, as in `json.dumps(result.to_dict())`. Images become content parts with Base64
        data.

        Arguments and metadata that JSON can't represent are replaced by the names of their types.
        """
        from pydantic_core import to_jsonable_python

        data = {
            **self,
            "usage": self.usage.to_dict(),
            "data": to_jsonable_python(self.data, fallback=lambda value: type(value).__name__),
            "images": [image.to_part() for image in self.images],
        }
        plain: dict[str, Any] = json.loads(json_text(data))
        return plain

    def __str__(self) -> str:
        text, note = self.content or self.status_reason or "", origin_note(self.metadata)
        return f"{text}\n[{note}]" if note else text

    def __repr__(self) -> str:
        """`<AgentResult ok: 'It is sunny.', 1 tool call, 262 tokens, $0.0012>`, for the last line of a cell."""
        status = f"{self.status} ({self.limit_reason})" if self.limit_reason else self.status
        counts = (
            (len(self.function_calls), "tool call"),
            (len(self.images), "image"),
            (len(numbered(self.citations)), "source"),
            (self.usage.total_tokens, "token"),
        )
        facts = [f"{number:,} {thing}{'' if number == 1 else 's'}" for number, thing in counts if number]
        facts += [f"${self.cost:.4f}"] if self.cost else []
        facts += filter(None, [origin_note(self.metadata)])
        return f"<AgentResult {', '.join([f'{status}: {short_repr(self.content)}', *facts])}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from nbagent.core.render.result import result_html

        return {"text/html": result_html(self), "text/plain": repr(self)}

"""The keyword options of `Agent.chat` and its variants, for each request and for the run.

Only the names in these `TypedDict`s are valid. Type checkers report a misspelled option, and nbagent raises an error
before anything is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from nbagent.core.limits import Limits

ThinkingLevel = Literal["minimal", "low", "medium", "high", "xhigh", "max"]
Thinking = bool | ThinkingLevel | Literal["on", "off", "none"] | Mapping[str, Any] | None


class RequestOptions(TypedDict, total=False):
    """The options of one request. An option has the same name for all providers.

    `extra_body` is merged into the request body. Use it for fields that only one provider has.

    >>> agent.chat_sync("Hi", temperature=0, extra_body={"top_k": 40})      # doctest: +SKIP
    """

    temperature: float | None
    thinking: Thinking
    #: `"auto"`, `"none"`, `"required"`, a tool's name, or a dict in the provider's own form.
    tool_choice: str | Mapping[str, Any] | None
    max_tokens: int
    top_p: float
    stop: str | Sequence[str]
    seed: int
    extra_body: Mapping[str, Any]


class LabelledOptions(RequestOptions, total=False):
    """Request options, and labels for runs (see `Agent.tagged`)."""

    tags: Iterable[str] | None
    user: str | None
    session: str | None
    metadata: Mapping[str, Any] | None


class RunOptions(LabelledOptions, total=False):
    """The options that `Agent.chat`, `chat_sync` and `extract` pass to `chat_stream`, whose documentation explains
    them.
    """

    use_tools: bool
    tools: str | Iterable[str] | None
    approve_all: bool
    instructions: str
    limits: Limits | None
    output: Any
    deps: Any
    origin: Mapping[str, Any] | None

"""`ModelRequest`: the content of one request to a model. The loop passes the request to the provider, which sends it.

For each request, `LLMProvider.resolve` checks the options once and converts them to the provider's form. The trace, the
preview and the provider all use the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from nbagent.core.messages import LLMMessage

#: Tool definitions: `{"name": str, "description": str, "parameters": JSON schema}`.
Functions = Sequence[dict[str, Any]]


@dataclass(slots=True)
class Timing:
    """The time that the provider needs to prepare a request, for the trace. Each set-up step is measured in a `with`
    block.
    """

    #: Seconds of set-up before sending: imports, certificates, loading a model.
    setup_s: float = 0.0
    _begun: float = 0.0

    def __enter__(self) -> None:
        self._begun = perf_counter()

    def __exit__(self, *_: object) -> None:
        self.setup_s += perf_counter() - self._begun


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A conversation, the tools on offer, and options such as `temperature`, `thinking` or `max_tokens`.

    >>> ModelRequest([LLMMessage("user", "Hello")], options={"temperature": 0.2}).options["temperature"]
    0.2
    """

    messages: list[LLMMessage]
    tools: Functions | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    #: The options as sent: `params` and, if the provider has them, `thinking_level`, `tool_choice`, `stream`, `tools`,
    #: and the fields that the model `refused` earlier, each with its other name or None.
    effective_options: Mapping[str, Any] = field(default_factory=dict)
    #: Other results of `resolve`, which only the provider's `stream` reads.
    resolved: Any = None
    timing: Timing = field(default_factory=Timing)
    #: A reminder for the model. It is sent last, after the cached prefix, and never enters the history.
    reminder: str = ""
    #: Input tokens after which the provider summarises earlier messages; None if it should not.
    compact_at: int | None = None

    @property
    def reminder_messages(self) -> list[LLMMessage]:
        """The reminder as a user message; an empty list if there is no reminder."""
        return [LLMMessage("user", f"<reminder>\n{self.reminder}\n</reminder>")] if self.reminder else []

    @property
    def all_messages(self) -> list[LLMMessage]:
        """The conversation and the reminder, as the model reads them.

        >>> [each.text for each in ModelRequest([LLMMessage("user", "Hello")], reminder="Be brief.").all_messages]
        ['Hello', '<reminder>\\nBe brief.\\n</reminder>']
        """
        return [*self.messages, *self.reminder_messages]

"""`ModelRequest`: everything that one request says to a model. The loop hands it down to the provider, which sends it.

`LLMProvider.resolve` checks the options and puts them into the vendor's form, once for each request. The trace, the
preview and the sending all use what it returns.
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
    """What the provider measures while it sends a request, for the trace. `with timing:` measures a set-up step."""

    #: Seconds that were needed before it could be sent: imports, certificates, loading a model.
    setup_s: float = 0.0
    _begun: float = 0.0

    def __enter__(self) -> None:
        """The block sets something up."""
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
    #: What is sent: `params` and, where the provider knows them, `thinking_level`, `tool_choice`, `stream`, the `tools`
    #: and the fields that the model is known to have `refused`, each with its other name or None.
    effective_options: Mapping[str, Any] = field(default_factory=dict)
    #: What else the provider worked out in `resolve` and needs in `stream`. Only that provider reads it.
    resolved: Any = None
    timing: Timing = field(default_factory=Timing)
    #: What the model is to keep in mind. It is sent last, after all that vendors cache, and no history keeps it.
    reminder: str = ""

    @property
    def reminder_messages(self) -> list[LLMMessage]:
        """The reminder as a message of the user; an empty list without one."""
        return [LLMMessage("user", f"<reminder>\n{self.reminder}\n</reminder>")] if self.reminder else []

    @property
    def all_messages(self) -> list[LLMMessage]:
        """The conversation and the reminder, as the model reads them.

        >>> [each.text for each in ModelRequest([LLMMessage("user", "Hello")], reminder="Be brief.").all_messages]
        ['Hello', '<reminder>\\nBe brief.\\n</reminder>']
        """
        return [*self.messages, *self.reminder_messages]

    #: Tokens of input after which the vendor is to summarise what came before; None if it is not.
    compact_at: int | None = None

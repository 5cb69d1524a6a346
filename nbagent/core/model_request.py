"""`ModelRequest`: everything that one request says to a model. The loop hands it down to the provider, which sends it.

`LLMProvider.resolve` checks the options and puts them into the vendor's form, once for each request. The trace, the
preview and the sending all use what it returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbagent.core.messages import LLMMessage

#: Tool definitions: `{"name": str, "description": str, "parameters": JSON schema}`.
Functions = Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A conversation, the tools on offer, and options such as `temperature`, `thinking` or `max_tokens`.

    >>> ModelRequest([LLMMessage("user", "Hello")], options={"temperature": 0.2}).options["temperature"]
    0.2
    """

    messages: list[LLMMessage]
    tools: Functions | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    #: The options as they are sent: `params` and, where the provider knows them, `thinking_level` and `tool_choice`.
    effective_options: Mapping[str, Any] = field(default_factory=dict)
    #: What else the provider worked out in `resolve` and needs in `stream`. Only that provider reads it.
    resolved: Any = None

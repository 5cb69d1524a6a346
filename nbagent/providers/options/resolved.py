"""What is asked of a model beside the conversation: options that mean the same everywhere, in this vendor's form.

These are `thinking` (see `thinking`), `tool_choice` (see `tool_choice`) and `temperature`, which is left out where the
model refuses it. Facts about models are in the profiles of their vendors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbagent.core.messages import LLMMessage
from nbagent.providers.base import Functions
from nbagent.providers.options.thinking import beside, fields_for, level_of, thinks
from nbagent.providers.options.tool_choice import Chooser
from nbagent.providers.vendor import Vendor


@dataclass(frozen=True, slots=True)
class Asked:
    """One request beside its conversation: what goes to the codec, and what the trace says of it."""

    functions: Functions | None
    temperature: float | None
    stream: bool
    extra: Mapping[str, Any]
    #: A level, `"on"`, `"off"`, or `"custom"` for the vendor's own form; None where nothing was asked for.
    thinking: str | None = None
    tool_choice: str | None = None
    #: What was asked for and is not sent, in words.
    left_out: str = ""

    def facts(self) -> dict[str, Any]:
        """The trace's columns. `params` holds the options as sent, but for the two that have a column of their own."""
        return {
            "thinking_level": self.thinking,
            "tool_choice": self.tool_choice,
            "params": {"temperature": self.temperature, **self.extra},
        }


class Asking:
    """How one model at one vendor is asked.

    >>> from nbagent.providers.catalog import CATALOG
    >>> ask = Asking(CATALOG["claude"], "anthropic_messages", "claude-opus-5")
    >>> ask({"thinking": "minimal"}).extra["output_config"]
    {'effort': 'low'}
    """

    def __init__(self, vendor: Vendor, wire: str, model: str) -> None:
        self.vendor = vendor
        self.model = model
        self.profile = vendor.profile(model, wire)
        self._raw_name = "thinkingConfig" if wire == "gemini" else "thinking"
        self._choose = Chooser(wire, model, vendor.tool_choices)

    def __call__(
        self,
        options: Mapping[str, Any],
        functions: Functions | None = None,
        temperature: float | None = None,
        messages: Sequence[LLMMessage] = (),
        stream: bool = True,
    ) -> Asked:
        """One request. Raises `ConfigurationError` for a value that no model takes, and for what this one can't do."""
        extra = dict(options)
        wanted, choice = extra.pop("thinking", None), extra.pop("tool_choice", None)
        fallback = extra.pop("temperature", None)
        temperature = fallback if temperature is None else temperature
        level, extra = self._with_thinking(wanted, extra)
        thinking = thinks(level, self.profile, extra)
        tools = bool(extra.get("tools"))
        chosen = self._choose(choice, functions, messages, other_tools=tools, obstacle=self._obstacle(thinking))
        left_out = ""
        if temperature is not None and not _allowed(self.profile.temperature, thinking):
            when = " while it thinks" if self.profile.temperature == "unthinking" else ""
            left_out = f"{self.model} takes no temperature{when}: {temperature} is not sent."
            temperature = None
        return Asked(
            chosen.functions,
            temperature,
            stream or (self.vendor.streams_to_think and thinking is not False),
            {**extra, **chosen.fields},
            level,
            chosen.word,
            left_out,
        )

    def _with_thinking(self, wanted: Any, extra: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
        if isinstance(wanted, Mapping):
            return "custom", {self._raw_name: wanted, **extra}
        level = level_of(wanted, self.profile, self.model)
        most = extra.get("max_tokens", self.vendor.body.get("max_tokens"))
        return level, beside(fields_for(level, self.profile, self.model, most), extra, level)

    def _obstacle(self, thinking: bool | None) -> str:
        """Why no tool call can be forced."""
        if _allowed(self.profile.forced_tools, thinking):
            return ""
        if self.profile.forced_tools == "never":
            return "can't be made to call a tool: pass 'auto' or 'none'"
        cure = "pass thinking=False with it" if self.profile.thinking_off is not None else "pass 'auto' or 'none'"
        return f"can't be made to call a tool while it thinks: {cure}"


def _allowed(rule: str, thinking: bool | None) -> bool:
    """Whether something goes that models take `"always"`, `"never"` or while `"unthinking"`."""
    return rule == "always" or (rule == "unthinking" and not thinking)

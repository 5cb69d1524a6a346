"""The option `tool_choice`: `"auto"`, `"none"`, `"required"` or a tool's name, in the form of each wire format.

A choice that forces a call holds until a tool has answered: when the last message is a tool's result, the model is free
again, since a run would never end otherwise. A dict is the vendor's own form and is sent as it is.

Where a vendor has no such choice, the nearest request that does the same is sent: without the tools for `"none"`, with
one tool alone for its name. Where there is none, that is an error before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError
from nbagent.providers.base import Functions


@dataclass(frozen=True, slots=True)
class Chosen:
    """The tools to offer, the fields that say the choice, and its word for the trace."""

    functions: Functions | None
    fields: Mapping[str, Any] = field(default_factory=dict)
    word: str | None = None


@dataclass(frozen=True, slots=True)
class Chooser:
    """What one model at one vendor can be told."""

    wire: str
    model: str
    #: Of `"none"`, `"required"` and `"named"`: what the vendor takes.
    takes: tuple[str, ...] = ("none", "required", "named")

    def __call__(
        self,
        choice: Any,
        functions: Functions | None,
        messages: Sequence[LLMMessage] = (),
        *,
        other_tools: bool = False,
        obstacle: str = "",
    ) -> Chosen:
        """The choice for one request. Raises `ConfigurationError` for what can't be.

        `other_tools`: the request brings tools of the vendor's own. `obstacle`: why no call can be forced.

        >>> Chooser("openai_chat", "m")("add", [{"name": "add"}]).fields
        {'tool_choice': {'type': 'function', 'function': {'name': 'add'}}}
        """
        if choice is None:
            return Chosen(functions)
        if isinstance(choice, Mapping):
            return Chosen(functions, {"toolConfig" if self.wire == "gemini" else "tool_choice": choice}, "custom")
        names = [item["name"] for item in functions or ()]
        if choice == "auto":
            return Chosen(functions, word="auto")
        if choice == "none":
            return self._none(functions, bool(names) or other_tools)
        self._check(choice, names, other_tools)
        if messages and messages[-1].role == "tool":
            return Chosen(functions, word="auto")
        if obstacle:
            raise ConfigurationError(f"tool_choice={choice!r}: {self.model} {obstacle}.")
        return self._forced(choice, functions, names)

    def _none(self, functions: Functions | None, any_tools: bool) -> Chosen:
        if "none" not in self.takes:
            return Chosen(None, word="none")
        return Chosen(functions, _NONE[self.wire] if any_tools else {}, "none")

    def _check(self, choice: Any, names: list[str], other_tools: bool) -> None:
        if choice == "required" and not (names or other_tools):
            raise ConfigurationError("tool_choice='required' needs tools, and there are none.")
        if choice != "required" and choice not in names:
            known = ", ".join(map(repr, ["auto", "none", "required", *names]))
            raise ConfigurationError(f"tool_choice={choice!r} is neither a choice nor a tool: pass one of {known}.")

    def _forced(self, choice: str, functions: Functions | None, names: list[str]) -> Chosen:
        asked = choice
        if choice == "required" and "required" not in self.takes and len(names) == 1:
            choice = names[0]
        if choice == "required" and "required" in self.takes:
            return Chosen(functions, _REQUIRED[self.wire], choice)
        if choice != "required" and "named" in self.takes:
            return Chosen(functions, _named(self.wire, choice), choice)
        if choice != "required" and "required" in self.takes:
            alone = [item for item in functions or () if item["name"] == choice]
            return Chosen(alone, _REQUIRED[self.wire], choice)
        possible = "'auto', 'none' or a tool's name" if "named" in self.takes else "'auto' or 'none'"
        raise ConfigurationError(f"tool_choice={asked!r} can't be asked of {self.model} here: pass {possible}.")


def _gemini(mode: str, **more: Any) -> dict[str, Any]:
    return {"toolConfig": {"functionCallingConfig": {"mode": mode, **more}}}


_NONE: Mapping[str, Mapping[str, Any]] = {
    "openai_chat": {"tool_choice": "none"},
    "openai_responses": {"tool_choice": "none"},
    "anthropic_messages": {"tool_choice": {"type": "none"}},
    "gemini": _gemini("NONE"),
}
_REQUIRED: Mapping[str, Mapping[str, Any]] = {
    "openai_chat": {"tool_choice": "required"},
    "openai_responses": {"tool_choice": "required"},
    "anthropic_messages": {"tool_choice": {"type": "any"}},
    "gemini": _gemini("ANY"),
}


def _named(wire: str, name: str) -> dict[str, Any]:
    if wire == "gemini":
        return _gemini("ANY", allowedFunctionNames=[name])
    if wire == "anthropic_messages":
        return {"tool_choice": {"type": "tool", "name": name}}
    if wire == "openai_responses":
        return {"tool_choice": {"type": "function", "name": name}}
    return {"tool_choice": {"type": "function", "function": {"name": name}}}

"""The option `tool_choice`: `"auto"`, `"none"`, `"required"` or a tool's name, in the form of each format.

A choice that forces a call holds until a tool has answered: after a tool's result the model is free again, since the
run would never end otherwise. A dict is the vendor's own form and is sent as it is.

If a vendor lacks a choice, the nearest request with the same effect is sent: without the tools for `"none"`, with only
one tool for that tool's name. If there is no such request, it is an error before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbagent.checks import check_choice
from nbagent.core.messages import LLMMessage
from nbagent.core.model_request import Functions
from nbagent.errors import ConfigurationError
from nbagent.providers.tool_names import fitting_name


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The tools to offer, the fields of the request that set the choice, and its name in the trace."""

    tools: Functions | None
    fields: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ToolChoiceResolver:
    """Puts tool choices into the form that one model of one vendor takes."""

    format_name: str
    model: str
    #: Which of `"none"`, `"required"` and `"named"` the vendor takes.
    supported: tuple[str, ...] = ("none", "required", "named")

    def resolve(
        self,
        choice: Any,
        tools: Functions | None,
        messages: Sequence[LLMMessage] = (),
        *,
        vendor_tools: bool = False,
        obstacle: str = "",
    ) -> ToolChoice:
        """The choice for one request. Raises `ConfigurationError` if the model can't be given it.

        `vendor_tools`: the request also offers tools of the vendor's own. `obstacle`: why no call can be forced.

        >>> ToolChoiceResolver("openai_chat", "m").resolve("add", [{"name": "add"}]).fields
        {'tool_choice': {'type': 'function', 'function': {'name': 'add'}}}
        """
        if choice is None:
            return ToolChoice(tools)
        if isinstance(choice, Mapping):
            return ToolChoice(
                tools, {"toolConfig" if self.format_name == "gemini" else "tool_choice": choice}, "custom"
            )
        if choice == "auto":
            return ToolChoice(tools, name="auto")
        names = [tool["name"] for tool in tools or ()]
        if choice == "none":
            if "none" not in self.supported:
                return ToolChoice(None, name="none")
            return ToolChoice(tools, _NONE[self.format_name] if names or vendor_tools else {}, "none")
        if choice == "required" and not (names or vendor_tools):
            raise ConfigurationError("tool_choice='required' needs tools, and there are none.")
        check_choice("tool_choice", choice, ["auto", "none", "required", *names])
        if messages and messages[-1].role == "tool":
            return ToolChoice(tools, name="auto")
        if obstacle:
            raise ConfigurationError(f"tool_choice={choice!r}: {self.model} {obstacle}.")
        return self._forced(choice, tools, names)

    def _forced(self, choice: str, tools: Functions | None, names: list[str]) -> ToolChoice:
        """The form of `"required"` or of a tool's name that the vendor takes, or the nearest with the same effect."""
        name = choice
        if choice == "required" and "required" not in self.supported and len(names) == 1:
            name = names[0]
        if name == "required" and "required" in self.supported:
            return ToolChoice(tools, _REQUIRED[self.format_name], name)
        if name != "required" and "named" in self.supported:
            return ToolChoice(tools, _named(self.format_name, name), name)
        if name != "required" and "required" in self.supported:
            return ToolChoice([tool for tool in tools or () if tool["name"] == name], _REQUIRED[self.format_name], name)
        possible = "'auto', 'none' or a tool's name" if "named" in self.supported else "'auto' or 'none'"
        raise ConfigurationError(f"tool_choice={choice!r}: {self.model} does not take it here, pass {possible}.")


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


def _named(format_name: str, name: str) -> dict[str, Any]:
    name = fitting_name(name)
    if format_name == "gemini":
        return _gemini("ANY", allowedFunctionNames=[name])
    if format_name == "anthropic_messages":
        return {"tool_choice": {"type": "tool", "name": name}}
    if format_name == "openai_responses":
        return {"tool_choice": {"type": "function", "name": name}}
    return {"tool_choice": {"type": "function", "function": {"name": name}}}

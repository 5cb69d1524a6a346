"""The option `tool_choice`: `"auto"`, `"none"`, `"required"` or a tool's name, encoded for each format.

A choice that forces a call applies until a tool has returned. After that, the model chooses freely; otherwise the run
would never end. A dict is the provider's own form and is sent unchanged.

If a provider lacks a choice, a request with the same effect is sent: one without tools for
`"none"`, and one with only the named tool for a tool's name. If there is no such request, an error is raised before
anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nbagent.checks import check_choice
from nbagent.core.model_request import Functions
from nbagent.errors import ConfigurationError
from nbagent.providers.tool_names import fitting_name


def choose(
    choice: Any,
    tools: Functions | None,
    format_name: str,
    supported: Sequence[str],
    *,
    has_answered: bool = False,
    has_own_tools: bool = False,
    obstacle: str = "",
) -> tuple[Functions | None, Mapping[str, Any], str | None]:
    """The tools to offer, the request fields that set the choice, and its name in the trace.

    `supported`: which of `"none"`, `"required"` and `"named"` the provider accepts. `has_answered`: whether the last
    message is a tool's result. `has_own_tools`: whether the request also offers the provider's own tools. `obstacle`:
    why the model can't be made to call a tool. Raises `ConfigurationError` for a choice that can't be sent.

    >>> choose("add", [{"name": "add"}], "openai_chat", ["named"])[1:]
    ({'tool_choice': {'type': 'function', 'function': {'name': 'add'}}}, 'add')
    """
    if choice is None:
        return tools, {}, None
    if isinstance(choice, Mapping):
        return tools, {"toolConfig" if format_name == "gemini" else "tool_choice": choice}, "custom"
    names = [tool["name"] for tool in tools or ()]
    if choice == "required" and not (names or has_own_tools):
        raise ConfigurationError("tool_choice='required' needs tools, and there are none.")
    check_choice("tool_choice", choice, ["auto", "none", "required", *names])
    if choice == "none":
        if "none" not in supported:
            return None, {}, choice
        return tools, form_of(choice, format_name) if names or has_own_tools else {}, choice
    if choice == "auto" or has_answered:
        return tools, {}, "auto"
    if obstacle:
        raise ConfigurationError(f"tool_choice={choice!r}: {obstacle}.")
    if choice == "required" and "required" not in supported and len(names) == 1:
        choice = names[0]
    if ("required" if choice == "required" else "named") in supported:
        return tools, form_of(choice, format_name), choice
    if choice != "required" and "required" in supported:
        return [tool for tool in tools or () if tool["name"] == choice], form_of("required", format_name), choice
    possible = "'auto', 'none' or a tool's name" if "named" in supported else "'auto' or 'none'"
    raise ConfigurationError(f"tool_choice={choice!r}: the model does not accept it here. Pass {possible}.")


def form_of(choice: str, format_name: str) -> dict[str, Any]:
    """The request fields for `"none"`, `"required"` or a tool's name."""
    name = fitting_name(choice)
    if format_name == "gemini":
        modes = {"none": {"mode": "NONE"}, "required": {"mode": "ANY"}}
        config: dict[str, Any] = {"mode": "ANY", "allowedFunctionNames": [name]}
        config = modes.get(choice, config)
        return {"toolConfig": {"functionCallingConfig": config}}
    if format_name == "anthropic_messages":
        types = {"none": {"type": "none"}, "required": {"type": "any"}}
        return {"tool_choice": types.get(choice) or {"type": "tool", "name": name}}
    if choice in ("none", "required"):
        return {"tool_choice": choice}
    named = {"name": name} if format_name == "openai_responses" else {"function": {"name": name}}
    return {"tool_choice": {"type": "function", **named}}

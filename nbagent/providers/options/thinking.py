"""The option `thinking`: whether and how deeply a model thinks, in the provider's own fields.

- None leaves the choice to the provider, and makes thinking visible if this costs nothing
- `False`, `"off"` or `"none"` switches it off
- `True` or `"on"` switches it on, at the provider's default depth
- `"minimal"` to `"max"` (see `LEVELS`) sets the depth
- a dict is the provider's own configuration and is sent unchanged
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbagent.checks import invalid
from nbagent.errors import ConfigurationError
from nbagent.providers.provider_facts import LEVELS, ModelProfile

#: The smallest token budget that providers accept.
MIN_BUDGET = 1024
_WORDS: Mapping[Any, str] = {True: "on", "on": "on", False: "off", "off": "off", "none": "off"}


def level_of(value: Any, profile: ModelProfile, model: str) -> str | None:
    """The level for this model: one of its own, `"on"`, `"off"`, or None to leave it to the provider.

    A level that the model lacks becomes the nearest one, or the deeper of two equally near ones. Raises
    `ConfigurationError` for a value that is unknown, or that the model does not accept.

    >>> level_of("minimal", ModelProfile(levels={"low": "low", "high": "high"}), "m")
    'low'
    """
    if value is None:
        return None
    word = _WORDS.get(value) or value if isinstance(value, bool | str) else value
    if word not in ("on", "off", *LEVELS):
        levels = ", ".join(map(repr, LEVELS))
        expected = f"None, False or 'off', True or 'on', {levels}, or a dict in the provider's own form"
        raise invalid("thinking", value, expected)
    if word == "off":
        if profile.thinking_off is None:
            fix = f"Pass one of {', '.join(map(repr, profile.levels))}" if profile.levels else "Omit the option"
            raise ConfigurationError(f"thinking={value!r}: {model} always thinks. {fix}.")
        return "off"
    if not profile.thinks:
        raise ConfigurationError(f"thinking={value!r}: {model} does not think. Omit the option.")
    if word == "on" or not profile.levels:
        return "on"
    rank = LEVELS.index(word)
    return min(profile.levels, key=lambda level: (abs(LEVELS.index(level) - rank), -LEVELS.index(level)))


def fields_for(level: str | None, profile: ModelProfile, model: str, max_tokens: int | None = None) -> dict[str, Any]:
    """The request fields that set this level.

    >>> fields_for("off", ModelProfile(thinking_off={"enable_thinking": False}), "m")
    {'enable_thinking': False}
    """
    if level is None:
        return dict(profile.show_thinking)
    if level == "off":
        return dict(profile.thinking_off or {})
    fields = dict(profile.thinking_on)
    value = profile.levels.get(level)
    name, _, inner = profile.level_field.partition(".")
    if value is not None:
        fields[name] = {**fields.get(name, {}), inner: value} if inner else value
    if profile.below_max_tokens and max_tokens is not None:
        fields[name] = {**fields[name], inner: _budget(fields[name][inner], max_tokens, model)}
    return fields


def thinks(level: str | None, profile: ModelProfile, fields: Mapping[str, Any]) -> bool | None:
    """Whether the model will think with these request fields; None if unknown."""
    reasoning = fields.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, Mapping) else None
    if effort := effort or fields.get("reasoning_effort"):
        return bool(effort != "none")
    mode = fields.get("thinking")
    if isinstance(mode, Mapping) and "type" in mode:
        return mode["type"] not in ("disabled", "between_tools")
    if "enable_thinking" in fields:
        return bool(fields["enable_thinking"])
    return profile.thinks_by_default if level is None else level != "off"


def _budget(tokens: int, max_tokens: int, model: str) -> int:
    """The budget for thinking: at most three quarters of `max_tokens`, which leaves the rest for the answer."""
    if max_tokens <= MIN_BUDGET:
        raise ConfigurationError(
            f"max_tokens={max_tokens}: {model} needs more than {MIN_BUDGET} to think. Raise it, or omit thinking."
        )
    return min(tokens, max(MIN_BUDGET, max_tokens * 3 // 4))

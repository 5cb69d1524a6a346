"""The option `thinking`: whether and how deep a model thinks, in the vendor's own fields.

`None` leaves it to the vendor, and shows what is thought where that costs nothing. `False`, `"off"` and `"none"` switch
it off; `True` and `"on"` on, as deep as the vendor thinks right; then there are the levels of `LEVELS`. A dict
is the vendor's own configuration and is sent as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbagent.errors import ConfigurationError
from nbagent.providers.vendor import LEVELS, ModelProfile

#: The least number of tokens that a vendor with budgets takes.
SMALLEST_BUDGET = 1024
_WORDS: Mapping[Any, str] = {True: "on", "on": "on", False: "off", "off": "off", "none": "off"}
#: Fields that hold more than thinking: what is ours stands beside what is the user's.
_SHARED = frozenset({"reasoning", "output_config", "chat_template_kwargs"})


def level_of(value: Any, profile: ModelProfile, model: str) -> str | None:
    """The level at which this model is to think: one of its own, `"on"`, `"off"`, or None for as it comes.

    Between two levels that are equally near, it is the deeper one. Raises `ConfigurationError` for a value that is none
    of the option's, and for what the model can't do.

    >>> level_of("minimal", ModelProfile(levels={"low": "low", "high": "high"}), "m")
    'low'
    """
    if value is None:
        return None
    word = _WORDS.get(value) or value if isinstance(value, bool | str) else value
    if word not in ("on", "off", *LEVELS):
        allowed = ", ".join(map(repr, LEVELS))
        raise ConfigurationError(
            f"thinking={value!r} is no way to think: pass None, False or 'off', True or 'on', {allowed}, or a dict in "
            "the vendor's own form."
        )
    if word == "off":
        if profile.thinking_off is None:
            raise ConfigurationError(f"{model} always thinks, thinking={value!r} is impossible: {_possible(profile)}.")
        return "off"
    if not profile.thinks:
        raise ConfigurationError(f"{model} does not think, thinking={value!r} is impossible: leave the option out.")
    if word == "on" or not profile.levels:
        return "on"
    rank = LEVELS.index(word)
    return min(profile.levels, key=lambda level: (abs(LEVELS.index(level) - rank), -LEVELS.index(level)))


def fields_for(level: str | None, profile: ModelProfile, model: str, max_tokens: int | None = None) -> dict[str, Any]:
    """The fields of a request that say so.

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


def beside(fields: Mapping[str, Any], extra: Mapping[str, Any], level: str | None) -> dict[str, Any]:
    """Our fields and the user's own, which win. What is only there to show thinking stays away from theirs."""
    own_effort = _effort(extra)
    both = dict(extra)
    for name, value in fields.items():
        if name == "reasoning_effort" and own_effort:
            continue
        if name not in extra:
            if level is not None or own_effort != "none":
                both[name] = value
        elif level is not None and name in _SHARED:
            both[name] = {**value, **extra[name]}
    return both


def thinks(level: str | None, profile: ModelProfile, fields: Mapping[str, Any]) -> bool | None:
    """Whether the model will think, as all fields of the request say; None where nobody knows."""
    if effort := _effort(fields):
        return effort != "none"
    mode = fields.get("thinking")
    if isinstance(mode, Mapping) and "type" in mode:
        return mode["type"] not in ("disabled", "between_tools")
    if "enable_thinking" in fields:
        return bool(fields["enable_thinking"])
    return profile.thinks_by_default if level is None else level != "off"


def _effort(fields: Mapping[str, Any]) -> str | None:
    reasoning = fields.get("reasoning")
    inner = reasoning.get("effort") if isinstance(reasoning, Mapping) else None
    return fields.get("reasoning_effort") or inner


def _budget(tokens: int, max_tokens: int, model: str) -> int:
    """A quarter of what may be written is left for the answer."""
    if max_tokens <= SMALLEST_BUDGET:
        raise ConfigurationError(
            f"{model} needs max_tokens above {SMALLEST_BUDGET} to think in, not {max_tokens}: raise it, or leave "
            "thinking out."
        )
    return min(tokens, max(SMALLEST_BUDGET, max_tokens * 3 // 4))


def _possible(profile: ModelProfile) -> str:
    levels = ", ".join(map(repr, profile.levels))
    return f"it takes {levels}" if levels else "leave the option out"

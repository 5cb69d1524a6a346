"""Puts request options into the provider's form. `thinking`, `tool_choice` and `temperature` work with every provider.

`thinking` and `tool_choice` have their own modules. A temperature is omitted if the model refuses it. A model's profile
lists what it supports (see `providers.provider_facts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nbagent.core.model_request import Functions, ModelRequest
from nbagent.providers.options.provider_tools import offered, with_own_tools
from nbagent.providers.options.settings import check_extra_body
from nbagent.providers.options.thinking import fields_for, level_of, thinks
from nbagent.providers.options.tool_choice import choose
from nbagent.providers.provider_facts import Compaction, Fields, ProviderFacts


def merged(fields: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request, updated with the fields in `more`. Dicts are merged.

    >>> merged({"a": {"x": 1}, "b": 1}, {"a": {"y": 2}})
    {'a': {'x': 1, 'y': 2}, 'b': 1}
    """
    both = dict(fields)
    for name, value in more.items():
        old = both.get(name)
        both[name] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return both


@dataclass(frozen=True, slots=True)
class ResolvedOptions:
    """The tools and options of one request as they are sent."""

    tools: Functions | None = None
    temperature: float | None = None
    stream: bool = True
    #: Further fields of the request body.
    extra: Mapping[str, Any] = field(default_factory=dict)
    #: Merged into the body last.
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    #: A level, `"on"`, `"off"`, or `"custom"` for the provider's own form; None if not set.
    thinking_level: str | None = None
    #: Our name for the choice, or `"custom"` for the provider's own form; None if not set.
    tool_choice: str | None = None
    #: The request's API betas.
    betas: tuple[str, ...] = ()
    #: A note on an option that is not sent, and why; empty if all are sent.
    left_out: str = ""

    def effective(self) -> dict[str, Any]:
        """The `effective_options` of the request. `params` contains the options that have no column of their own in the
        trace.
        """
        return {
            "thinking_level": self.thinking_level,
            "tool_choice": self.tool_choice,
            "stream": self.stream,
            "tools": self.tools,
            "params": {
                "temperature": self.temperature,
                **self.extra,
                **({"extra_body": self.extra_body} if self.extra_body else {}),
            },
        }


class OptionsResolver:
    """Resolves request options for one model of one provider.

    >>> from nbagent.providers.catalog import CATALOG
    >>> resolver = OptionsResolver(CATALOG["claude"], "anthropic_messages", "claude-opus-5")
    >>> resolver.resolve(ModelRequest([]), {"thinking": "minimal"}).extra["output_config"]
    {'effort': 'low'}
    """

    def __init__(self, facts: ProviderFacts, format_name: str, model: str) -> None:
        self.facts = facts
        self.model = model
        self.profile = facts.profile(model, format_name)
        self._format = format_name

    def resolve(self, request: ModelRequest, options: Fields, stream: bool = True) -> ResolvedOptions:
        """Resolve the request's tools and these options. The request's own options are ignored.

        Raises `ConfigurationError` for a value that is invalid, or that this model does not accept.
        """
        own = offered(request.tools, self.facts, self._format, self.model)
        extra = with_own_tools(options, own)
        compaction = self.compaction(request.compact_at)
        if compaction and request.compact_at:
            extra = {**compaction.fields(request.compact_at), **extra}
        extra_body = extra.pop("extra_body", {})
        check_extra_body(extra_body)
        thinking, choice, temperature = (extra.pop(name, None) for name in ("thinking", "tool_choice", "temperature"))
        level, fields = self._thinking(thinking, extra, extra_body)
        extra = merged(fields, extra)
        sent = merged(extra, extra_body)
        will_think = thinks(level, self.profile, sent)
        tools, fields, choice_name = choose(
            choice,
            own.functions or None,
            self._format,
            self.facts.tool_choices,
            has_answered=bool(request.messages) and request.messages[-1].role == "tool",
            has_own_tools=bool(sent.get("tools")),
            obstacle=self._obstacle(will_think),
        )
        left_out = ""
        if temperature is not None and not _allowed(self.profile.temperature, will_think):
            when = " while it thinks" if self.profile.temperature == "unthinking" else ""
            left_out = f"{self.model} does not accept a temperature{when}: {temperature} is not sent."
            temperature = None
        return ResolvedOptions(
            tools,
            temperature,
            stream or (self.facts.streams_to_think and will_think is not False),
            merged(extra, fields),
            extra_body,
            level,
            choice_name,
            (*own.betas, *(compaction.betas if compaction else ())),
            left_out,
        )

    def compaction(self, tokens: int | None) -> Compaction | None:
        """How to make the provider summarise the conversation; None if this is not wanted or not possible."""
        own = self.facts.compaction
        return own if tokens and own and own.fits(tokens, self._format, self.model) else None

    def _thinking(self, value: Any, extra: Fields, extra_body: Fields) -> tuple[str | None, Fields]:
        """The level, and the request fields that set it or, if none is set, make the thinking visible.

        If no level is set, the user's own fields in `extra_body` take precedence, and may switch thinking off.
        """
        if isinstance(value, Mapping):
            return "custom", {"thinkingConfig" if self._format == "gemini" else "thinking": value}
        level = level_of(value, self.profile, self.model)
        max_tokens = extra.get("max_tokens", self.facts.body.get("max_tokens"))
        fields = fields_for(level, self.profile, self.model, max_tokens)
        return level, {name: field for name, field in fields.items() if level is not None or name not in extra_body}

    def _obstacle(self, will_think: bool | None) -> str:
        """Why this model can't be forced to call a tool; empty if it can."""
        if _allowed(self.profile.forced_tools, will_think):
            return ""
        if self.profile.forced_tools == "never":
            return f"{self.model} can't be made to call a tool. Pass 'auto' or 'none'"
        remedy = "Pass thinking=False with it" if self.profile.thinking_off is not None else "Pass 'auto' or 'none'"
        return f"{self.model} can't be made to call a tool while it thinks. {remedy}"


def _allowed(rule: str, will_think: bool | None) -> bool:
    """Whether a model accepts an option with this rule: `"always"`, `"never"` or only while `"unthinking"`."""
    return rule == "always" or (rule == "unthinking" and not will_think)

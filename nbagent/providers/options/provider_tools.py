"""Encodes the tools that a provider itself runs, in the provider's own form.

A tool's names and options are the same for all providers. `ProviderFacts.tools` maps them to the provider's
own. If the provider lacks a tool or an option, an error is raised before anything is sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from nbagent.core.model_request import Functions
from nbagent.errors import ConfigurationError
from nbagent.providers.catalog import CATALOG
from nbagent.providers.provider_facts import OwnTool, ProviderFacts

Fields = Mapping[str, Any]


@dataclass(slots=True)
class Offered:
    """The tools of a request: functions, and the provider's own."""

    functions: list[dict[str, Any]] = field(default_factory=list)
    #: Entries for the list of tools, next to the functions.
    entries: list[Fields] = field(default_factory=list)
    #: Further fields of the request.
    body: dict[str, Any] = field(default_factory=dict)
    betas: tuple[str, ...] = ()


def available(facts: ProviderFacts | None, format_name: str, model: str) -> list[str]:
    """The names of the tools that this provider itself runs for this model.

    >>> available(CATALOG["gemini"], "gemini", "gemini-3")
    ['web_search', 'web_fetch', 'code_execution']
    """
    tools = facts.tools if facts is not None else {}
    return [
        name
        for name, forms in tools.items()
        if any(form.format in ("", format_name) and re.search(form.models, model.lower()) for form in forms)
    ]


def kind_of(tool: Fields) -> str:
    """A tool's name without the name of its server: `remote_mcp` for `remote_mcp-files`."""
    return str(tool["name"]).partition("-")[0]


def check_available(tools: Functions | None, provider: str) -> None:
    """Raise `ConfigurationError` if one of the tools must be run by a provider, and this provider does not have it."""
    for tool in tools or ():
        if "provider_options" in tool and not (provider in CATALOG and kind_of(tool) in CATALOG[provider].tools):
            raise _lacking(kind_of(tool), provider)


def offered(tools: Functions | None, facts: ProviderFacts, format_name: str, model: str) -> Offered:
    """The tools in the provider's own form. Raises `ConfigurationError` for a tool or an option that the model lacks.

    >>> found = offered([{"name": "web_search", "provider_options": {}}], CATALOG["gemini"], "gemini", "gemini-3")
    >>> found.entries
    [{'googleSearch': {}}]
    """
    result = Offered([tool for tool in tools or () if "provider_options" not in tool])
    for tool in tools or ():
        if "provider_options" in tool:
            own = _own_tool(kind_of(tool), facts, format_name, model)
            entry, body = _filled(own, tool["provider_options"], tool["name"], facts.name)
            result.entries += [entry] if entry else []
            result.body = _joined(result.body, body)
            result.betas += own.betas
            if result.functions and not own.with_functions:
                raise ConfigurationError(
                    f"{tool['name']}: {model} can't combine it with functions. Offer it alone, with "
                    f"tools=[{tool['name']!r}], or use a newer model."
                )
            result.functions = [{**each, "provider_fields": own.function_fields} for each in result.functions]
    return result


def with_own_tools(options: Fields, own: Offered) -> dict[str, Any]:
    """Return the request options with the fields that offer the provider's own tools. The options' own fields take
    precedence, but lists of `tools` are joined.
    """
    fields = _joined(own.body, {"tools": own.entries} if own.entries else {})
    lists = {key: [*value, *options[key]] for key, value in fields.items() if key in options and key == "tools"}
    return {**fields, **options, **lists}


def _own_tool(name: str, facts: ProviderFacts, format_name: str, model: str) -> OwnTool:
    """The form of a tool that fits the model."""
    forms = facts.tools.get(name, ())
    if not forms:
        raise _lacking(name, facts.name)
    fitting = [form for form in forms if form.format in ("", format_name)]
    if not fitting:
        raise ConfigurationError(
            f"{name}: {facts.name} offers it only in another API. Use create_provider({facts.name!r}, api='responses')."
        )
    found = next((form for form in fitting if re.search(form.models, model.lower())), None)
    if found is None:
        raise ConfigurationError(
            f"{name}: {facts.name} offers this tool, but not for {model}. Use another model from this provider."
        )
    return found


def _lacking(name: str, provider: str) -> ConfigurationError:
    having = [each for each in CATALOG if name in CATALOG[each].tools and CATALOG[each].key_vars]
    return ConfigurationError(
        f"{name}: {provider} has no such tool of its own. Providers that have it: {', '.join(having)}. "
        "Use one of their models, or pass your own function for it."
    )


def _filled(own: OwnTool, options: Fields, name: str, provider: str) -> tuple[Fields, Fields]:
    """The tool's entry and body fields, with the options filled in."""
    if own.make is not None:
        return own.make(options)
    entry: dict[str, Any] = deepcopy({**own.entry})
    body: dict[str, Any] = deepcopy({**own.body})
    for option, value in options.items():
        place = own.options.get(option)
        if place is None:
            accepted = f"only {', '.join(own.options)}" if own.options else "no options"
            raise ConfigurationError(f"{name}: {provider} does not accept {option} here; it accepts {accepted}.")
        node = body if place.startswith("/") else entry
        *outer, last = place.removeprefix("/").split(".")
        for step in outer:
            node = node.setdefault(step, {})
        node[last] = value
    return entry, body


def _joined(body: Fields, more: Fields) -> dict[str, Any]:
    """The fields of two tools, with lists concatenated."""
    return {**body, **{key: [*body.get(key, ()), *val] if isinstance(val, list) else val for key, val in more.items()}}

"""An agent's repr, and its display in a notebook: its model, tools, conversation, limits and usage so far."""

from __future__ import annotations

import os
import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from nbagent.errors import NbagentError
from nbagent.providers import resolve
from nbagent.providers.catalog import CATALOG
from nbagent.text import shortened

if TYPE_CHECKING:
    from nbagent.providers.base import LLMProvider

#: How many characters of the tool names and the system prompt are shown.
MAX_CHARS = 300


def keyless_note(provider: LLMProvider) -> str:
    """Return a note about a model that needs no key; "" for other models."""
    if provider.provider_name == "local":
        return "embedded model, no key needed"
    name = provider.provider_name
    found = name in CATALOG and CATALOG[name].keyless and not os.environ.get("NBAGENT_MODEL")
    return f"found at {getattr(provider, 'base_url', '')}, no key needed" if found else ""


def agent_summary(agent: Any, provider: Any) -> list[tuple[str, str]]:
    """Return `(label, text)` for each line about an `Agent`. This calls no model and changes nothing.

    `provider` is the user's argument: an `LLMProvider`, or another value that `resolve` accepts.
    """
    trace = agent.trace.summary_lines()
    lines = [
        ("agent", _name(agent)),
        *_model(provider),
        ("system", shortened(" ".join((agent.system_prompt or "").split()), MAX_CHARS)),
        ("tools", shortened(_tools(agent), MAX_CHARS)),
        ("messages", _messages(agent)),
        *((label, text) for label, text in trace if label in ("tokens", "cost")),
        ("limits", ", ".join(_limits(agent))),
    ]
    return [(label, text) for label, text in lines if text]


def agent_repr(agent: Any) -> str:
    """Return `<Agent local:SmolLM2-135M-Instruct, 1 tool, 0 messages>`."""
    provider = agent.provider_or_spec
    if hasattr(provider, "model_name"):
        model = f"{provider.provider_name}:{provider.model_name}"
    else:
        model = getattr(provider, "model", provider) or "model chosen at the first message"
    tools, messages = len(agent.offered_tools()), len(agent.context.messages)
    return f"<Agent {model}, {tools} tool{'s' * (tools != 1)}, {messages} message{'s' * (messages != 1)}>"


def _name(agent: Any) -> str:
    """The name of the user's variable for the agent."""
    variables = list(vars(sys.modules["__main__"]).items())
    return next((name for name, value in variables if value is agent and not name.startswith("_")), "")


def _model(spec: Any) -> list[tuple[str, str]]:
    """The model of the next request, and the problem that would stop the request, such as a missing key."""
    name, problem = spec if isinstance(spec, str) else "", ""
    try:
        provider = resolve(spec)
        name = f"{provider.provider_name}:{provider.model_name}"
        if provider.provider_name == "local" or spec is None:
            name += f" ({note})" if (note := keyless_note(provider)) else ""
        provider.check()
    except NbagentError as error:
        problem = str(error)
    return [("model", name), ("problem", problem)]


def _tools(agent: Any) -> str:
    off = [name for name in agent.function_registry.names() if name in agent.tools_off]
    return (", ".join(agent.offered_tools()) or "none") + (f"; off: {', '.join(off)}" if off else "")


def _messages(agent: Any) -> str:
    history = agent.conversation_history
    turns = sum(message.opens_turn for message in history)
    return f"{len(history):,} in {turns:,} {'turn' if turns == 1 else 'turns'}" if turns else "none yet"


def _limits(agent: Any) -> list[str]:
    """The limits that are set, for each run and for the history."""
    known: list[tuple[str, Any]] = [(field.name, agent.limits) for field in fields(agent.limits)]
    known += [(name, agent.context) for name in ("max_messages", "max_tokens")]
    return [f"{name}={value:,}" for name, owner in known if (value := getattr(owner, name)) is not None]

"""What an agent is now, in a few lines: which model it would ask, its tools, its conversation, what it used so far."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from nbagent.errors import NbagentError
from nbagent.providers import resolve
from nbagent.text import shortened
from nbagent.trace.views.summary import overview

if TYPE_CHECKING:
    from nbagent.agent import Agent

#: Characters of the tools' names, and of the system prompt.
MOST_CHARS = 300

NO_KEY_NOTE = "embedded model, no key needed"


def about(agent: Agent, provider: Any) -> list[tuple[str, str]]:
    """Lines of a label and a text each. `provider` is what was given for it; nothing is asked, nothing changes."""
    trace = overview({name: agent.trace.rows(name) for name in ("runs", "calls", "tool_calls")})
    lines = [
        ("agent", _name(agent)),
        *_model(provider),
        ("system", shortened(" ".join((agent.system_prompt or "").split()), MOST_CHARS)),
        ("tools", shortened(_tools(agent), MOST_CHARS)),
        ("messages", _messages(agent)),
        *((label, text) for label, text in trace if label in ("tokens", "cost")),
        ("limits", ", ".join(_limits(agent))),
    ]
    return [(label, text) for label, text in lines if text]


def _name(agent: Agent) -> str:
    """The user's variable that holds it."""
    variables = list(vars(sys.modules["__main__"]).items())
    return next((name for name, value in variables if value is agent and not name.startswith("_")), "")


def _model(given: Any) -> list[tuple[str, str]]:
    """The model of the next request; and what stands in the way, such as a key that is not there."""
    name, problem = given if isinstance(given, str) else "", ""
    try:
        provider = resolve(given)
        name = f"{provider.vendor}:{provider.model_name}"
        name += f" ({NO_KEY_NOTE})" if provider.vendor == "local" else ""
        provider.check()
    except NbagentError as error:
        problem = str(error)
    return [("model", name), ("problem", problem)]


def _tools(agent: Agent) -> str:
    off = [name for name in agent.function_registry.names() if name in agent.tools_off]
    return (", ".join(agent.offered_tools()) or "none") + (f"; off: {', '.join(off)}" if off else "")


def _messages(agent: Agent) -> str:
    history = agent.conversation_history
    turns = sum(message.opens_turn for message in history)
    return f"{len(history):,} in {turns:,} {'turn' if turns == 1 else 'turns'}" if turns else "none yet"


def _limits(agent: Agent) -> list[str]:
    """Those that are set, of each run and of the history."""
    known: list[tuple[str, Any]] = [(each.name, agent.limits) for each in fields(agent.limits)]
    known += [(name, agent.context) for name in ("max_messages", "max_tokens")]
    return [f"{name}={value:,}" for name, holder in known if (value := getattr(holder, name)) is not None]

"""Names that people know from other tools, and their equivalents in nbagent."""

from __future__ import annotations

from collections.abc import Container, Iterable

from nbagent.errors import ConfigurationError
from nbagent.text import did_you_mean

OTHER_ATTRIBUTES = {
    **dict.fromkeys(("run", "ask", "invoke", "ainvoke", "arun"), "`await agent.chat(...)`, or `agent.chat_sync(...)`"),
    **dict.fromkeys(("run_sync", "kickoff"), "`agent.chat_sync(...)`"),
    **dict.fromkeys(("stream", "run_stream", "astream", "iter"), "`agent.chat_stream(...)`"),
    **dict.fromkeys(("history", "messages"), "`agent.conversation_history`"),
    "tools": "`agent.function_registry`, or `agent.offered_tools()` for the names",
    "model": "`agent.provider.model_name`; to switch, `agent.provider = 'provider:model'`",
    **dict.fromkeys(("reset", "clear"), "`agent.clear_history()`"),
    "instructions": "`agent.system_prompt`",
}
OTHER_ARGUMENTS = {
    **dict.fromkeys(("model", "llm", "provider", "model_name"), "Agent('provider:model')"),
    **dict.fromkeys(("api_key", "base_url"), "Agent(create_provider('provider:model', api_key=..., base_url=...))"),
    **dict.fromkeys(("instructions", "system", "system_message", "prompt"), "Agent(system_prompt=...)"),
    **dict.fromkeys(("functions", "function"), "Agent(tools=[...])"),
    **dict.fromkeys(("max_turns", "max_steps"), "Agent(limits=Limits(max_iterations=...))"),
    "temperature": "agent.chat(..., temperature=...), or create_provider(..., temperature=...)",
}


def unknown_argument(name: str, known: Iterable[str], limits: Container[str]) -> ConfigurationError:
    """Return the error for an unknown argument of `Agent`.

    `known` and `limits` are the arguments of `Agent` and `Limits`.
    """
    equivalent = f"Agent(limits=Limits({name}=...))" if name in limits else OTHER_ARGUMENTS.get(name)
    if equivalent is not None:
        return ConfigurationError(f"Agent() has no argument {name!r}. Write {equivalent}.")
    known = [argument for argument in known if argument != "unknown"]
    hint = did_you_mean(name, known) or "."
    return ConfigurationError(f"Agent() has no argument {name!r}{hint} Its arguments are {', '.join(known)}.")

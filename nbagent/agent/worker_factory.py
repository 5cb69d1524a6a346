"""Creates an agent for rows in another process, like one in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from nbagent.core.checking import UserCheck
from nbagent.core.limits import Limits
from nbagent.errors import ConfigurationError
from nbagent.functions.live import LiveRegistry
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry
from nbagent.trace.trace import Trace


def worker_factory(agent: Any) -> Callable[[], Any]:
    """See `Agent.worker_factory`."""
    names: list[str] = agent.offered_tools()
    if agent.toolsets or (names and type(agent.function_registry) not in (FunctionRegistry, LiveRegistry)):
        raise ConfigurationError(
            "tools: tools of MCP servers, skills and your own registries can't be sent to other processes. Pass "
            "functions as Agent(tools=[...]), or map without tools."
        )
    definitions = [tool for name in names if (tool := agent.function_registry.get_function(name))]
    executor, trace = agent.tool_executor, agent.trace
    return partial(
        _new_agent,
        type(agent),
        agent.provider,
        # the schema is rebuilt from the signature, which `cloudpickle` keeps
        [replace(tool, schema=None, parameters=None) if tool.schema else tool for tool in definitions],
        agent.system_prompt,
        agent.limits,
        agent.temperature,
        agent.guards,
        {name: getattr(executor, name) for name in ("timeout", "max_result_chars", "tracebacks")},
        {name: getattr(trace, name) for name in ("record_http", "is_recording")},
    )


def _new_agent(
    agent_class: Callable[..., Any],
    provider: Any,
    tools: Iterable[FunctionDefinition],
    system_prompt: str | None,
    limits: Limits,
    temperature: float | None,
    guards: list[UserCheck],
    executor: dict[str, Any],
    trace: dict[str, Any],
) -> Any:
    registry = FunctionRegistry()
    for definition in tools:
        registry.add(definition)
    recording = Trace(keep_results=False, max_bytes=None, **trace)
    agent = agent_class(provider, registry, system_prompt, limits=limits, trace=recording)
    for name, value in executor.items():
        setattr(agent.tool_executor, name, value)
    agent.temperature, agent.guards = temperature, guards
    return agent

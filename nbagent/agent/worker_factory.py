"""Creates a copy of an agent in another process, from which rows can be sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nbagent.errors import ConfigurationError
from nbagent.functions.live import LiveRegistry
from nbagent.functions.registry import FunctionRegistry
from nbagent.trace.trace import Trace


def worker_factory(agent: Any) -> Callable[[], Any]:
    """See `Agent.worker_factory`."""
    names: list[str] = agent.offered_tools()
    if agent.toolsets or (names and type(agent.function_registry) not in (FunctionRegistry, LiveRegistry)):
        raise ConfigurationError(
            "tools: tools from MCP servers, skills and your own registries can't be sent to other processes. Pass "
            "functions as Agent(tools=[...]), or map without tools."
        )
    definitions = [tool for name in names if (tool := agent.function_registry.get_function(name))]
    # the schema is rebuilt from the signature, which `cloudpickle` keeps
    tools = [replace(tool, schema=None, parameters=None) if tool.schema else tool for tool in definitions]
    agent_class, provider, system_prompt, limits = type(agent), agent.provider, agent.system_prompt, agent.limits
    settings = {"temperature": agent.temperature, "guards": agent.guards}
    for_executor = {name: getattr(agent.tool_executor, name) for name in ("timeout", "max_result_chars", "tracebacks")}
    for_trace = {name: getattr(agent.trace, name) for name in ("record_http", "is_recording")}

    def new_agent() -> Any:
        registry = FunctionRegistry()
        for tool in tools:
            registry.add(tool)
        trace = Trace(keep_results=False, max_bytes=None, **for_trace)
        worker = agent_class(provider, registry, system_prompt, limits=limits, trace=trace)
        vars(worker).update(settings)
        vars(worker.tool_executor).update(for_executor)
        return worker

    return new_agent

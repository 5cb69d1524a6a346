"""Converts tools written for LangChain, the OpenAI Agents SDK or Pydantic AI.

They are recognised by their attributes, so none of these packages is required. `Agent(tools=[...])` accepts them
directly. Use the functions here to set options or to supply the framework's context.

>>> from langchain_community.tools import DuckDuckGoSearchRun               # doctest: +SKIP
>>> agent = Agent(tools=[from_langchain(DuckDuckGoSearchRun(), timeout=30)])          # doctest: +SKIP
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Unpack

from nbagent.checks import invalid
from nbagent.core.current import current
from nbagent.functions.registry import FunctionDefinition, ToolOptions, check_options


def from_langchain(tool: Any, **options: Unpack[ToolOptions]) -> FunctionDefinition:
    """Convert a LangChain tool (`@tool`, `StructuredTool`, a subclass of `BaseTool`) for `Agent(tools=[...])`.

    `options` are the same as for `nbagent.tool`. Async tools run on the event loop, others in a thread. Arguments that
    LangGraph would inject (state, store, the call's id) are not passed.

    Raises ConfigurationError for anything but a LangChain tool.
    """
    if not _is_langchain(tool):
        raise invalid("from_langchain", tool, "a LangChain tool", "Pass functions directly to Agent(tools=[...]).")

    async def call_async(**arguments: Any) -> Any:
        return await tool.ainvoke(arguments)

    def call(**arguments: Any) -> Any:
        return tool.invoke(arguments)

    is_async = getattr(tool, "coroutine", None) is not None or not tool._arun.__module__.startswith("langchain_core.")
    schema = tool.tool_call_schema  # a dict, or a model of pydantic 2 or 1
    if not isinstance(schema, dict):
        schema = schema.model_json_schema() if hasattr(schema, "model_json_schema") else schema.schema()
    return _definition(tool.name, tool.description, schema, call_async if is_async else call, {}, options)


def from_openai_agents(tool: Any, context: Any = None, **options: Unpack[ToolOptions]) -> FunctionDefinition:
    """Convert a `FunctionTool` of the OpenAI Agents SDK (`@function_tool`) for `Agent(tools=[...])`.

    `context` becomes the tool's `ctx.context`. The tool keeps its `needs_approval`, its `timeout` and its own error
    handling. If `needs_approval` is a function, it counts as True.
    """
    if not _is_openai_agents(tool):
        raise invalid("from_openai_agents", tool, "a FunctionTool", "Decorate the function with @function_tool.")

    async def call(**arguments: Any) -> Any:
        from agents.tool_context import ToolContext

        text, call_id = json.dumps(arguments), current.get().call.tool_call_id or ""
        call_context = ToolContext(context=context, tool_name=tool.name, tool_call_id=call_id, tool_arguments=text)
        return await tool.on_invoke_tool(call_context, text)

    own = {"approve": bool(tool.needs_approval), "timeout": getattr(tool, "timeout_seconds", None)}
    return _definition(tool.name, tool.description, tool.params_json_schema, call, own, options)


def from_pydantic_ai(tool: Any, deps: Any = None, **options: Unpack[ToolOptions]) -> FunctionDefinition:
    """Convert a Pydantic AI `Tool` for `Agent(tools=[...])`.

    `deps` becomes the tool's `ctx.deps`; the rest of its context is empty. The tool keeps its `requires_approval`,
    `timeout` and `sequential`. The model reads a `ModelRetry` as an error.
    """
    if not _is_pydantic_ai(tool):
        raise invalid("from_pydantic_ai", tool, "a pydantic_ai.Tool", "Wrap the function: pydantic_ai.Tool(function).")
    schema = tool.function_schema

    async def call(**arguments: Any) -> Any:
        return await schema.call(schema.validator.validate_python(arguments), _pydantic_ai_context(tool, deps))

    own = {"approve": bool(tool.requires_approval), "timeout": tool.timeout, "parallel": not tool.sequential}
    return _definition(tool.name, tool.description, schema.json_schema, call, own, options)


def _pydantic_ai_context(tool: Any, deps: Any) -> Any:
    if not tool.takes_ctx:
        return None
    from pydantic_ai import RunContext, RunUsage

    no_model: Any = None
    call_id = current.get().call.tool_call_id
    return RunContext(deps=deps, model=no_model, usage=RunUsage(), tool_name=tool.name, tool_call_id=call_id)


def as_definition(tool: Any) -> FunctionDefinition | None:
    """Convert a tool from LangChain, the OpenAI Agents SDK or Pydantic AI. Returns None for anything else."""
    for recognises, convert in _KINDS:
        if recognises(tool):
            return convert(tool)
    return None


def _definition(
    name: str,
    description: str | None,
    parameters: dict[str, Any],
    call: Callable[..., Any],
    own: dict[str, Any],
    options: ToolOptions,
) -> FunctionDefinition:
    check_options(f"tool {name!r}", options)
    merged: Any = {**own, **options}
    return FunctionDefinition(name, description or "", parameters, call, **merged)


def _has(tool: Any, *names: str) -> bool:
    """Whether an object has these attributes. No attribute is read, since reading may run arbitrary code."""
    own = {} if isinstance(tool, type) else getattr(tool, "__dict__", {})
    return all(name in own or hasattr(type(tool), name) for name in names)


def _is_langchain(tool: Any) -> bool:
    return _has(tool, "name", "description", "args_schema", "tool_call_schema", "ainvoke")


def _is_openai_agents(tool: Any) -> bool:
    return _has(tool, "name", "params_json_schema", "on_invoke_tool")


def _is_pydantic_ai(tool: Any) -> bool:
    return _has(tool, "name", "function_schema", "takes_ctx", "requires_approval")


_KINDS: list[tuple[Callable[[Any], bool], Callable[[Any], FunctionDefinition]]] = [
    (_is_langchain, from_langchain),
    (_is_openai_agents, from_openai_agents),
    (_is_pydantic_ai, from_pydantic_ai),
]

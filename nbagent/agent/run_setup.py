"""Sets up a run of an agent: its limits and options, its provider and tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from nbagent.checks import check_type
from nbagent.config import AgentConfig
from nbagent.core.budget import Budget
from nbagent.core.limits import Limits
from nbagent.core.output import Output
from nbagent.core.request_options import RunOptions
from nbagent.core.run import Provider, Tools
from nbagent.errors import ConfigurationError
from nbagent.functions.executor import ToolExecutor
from nbagent.pricing import check_priced
from nbagent.providers.options.settings import check_request_options
from nbagent.providers.replay.active import current_recording
from nbagent.providers.routing.routes import ROUTE

if TYPE_CHECKING:
    from nbagent.providers.base import LLMProvider


#: The arguments `use_tools`, `tools` and `approve_all` of `Agent.chat_stream`.
Offer = tuple[bool, str | Iterable[str] | None, bool]


def limits_of_agent(limits: Limits | None, config: AgentConfig | None) -> Limits:
    """Return an agent's limits. Arguments override environment variables, which override the configuration."""
    of_environment = Limits.from_environment()
    limits = of_environment if limits is None else limits.or_else(of_environment)
    if config is None:
        return limits
    names = {field.name: field.name for field in fields(Limits)} | {"max_iterations": "max_tool_iterations"}
    return limits.or_else(Limits(**{name: getattr(config, configured) for name, configured in names.items()}))


def limits_of_run(limits: Limits | None, max_iterations: int | None, of_agent: Limits) -> Limits:
    """Return a run's limits. `limits` and `max_iterations` override the agent's limits."""
    check_type("limits", limits, Limits, optional=True, fix="Pass Limits(...).")
    limits = of_agent if limits is None else limits.or_else(of_agent)
    return limits if max_iterations is None else replace(limits, max_iterations=max_iterations)


def executor_of_run(agent: Any, offer: Offer, timeout: float | None) -> ToolExecutor:
    """Return the agent's tool executor, restricted to the tools on offer."""
    use_tools, names, approve_all = offer
    if not use_tools:
        names = ()
    elif isinstance(names, str):
        names = [names]
    elif names is None and agent.tools_off:
        names = agent.offered_tools()
    executor: ToolExecutor = agent.tool_executor
    return executor.with_options(only=names, approve_all=approve_all, timeout=timeout)


def options_of_requests(options: Mapping[str, Any], temperature: float | None) -> dict[str, Any]:
    """Return the request options of a run. Raises `ConfigurationError` for unknown options."""
    if "handler" in options:
        raise ConfigurationError("chat_stream() has no handler. Iterate over its events, or use chat(handler=...).")
    check_request_options(options, others=("max_iterations", *RunOptions.__optional_keys__))
    is_default = temperature is not None and options.get("temperature") is None
    return {**options, "temperature": temperature} if is_default else dict(options)


def provider_of_run(provider: LLMProvider, output: Output | None) -> LLMProvider:
    """Return the provider, wrapped if the output type or a model that can't call tools requires it."""
    from nbagent.providers.routing.candidates import Candidates

    if isinstance(provider, Candidates):
        return provider.ready(partial(provider_of_run, output=output))
    if not provider.supports_function_calling():
        from nbagent.providers.prompting.provider import PromptedProvider

        provider = PromptedProvider(provider)
    if output is not None:
        from nbagent.providers.structured import StructuredProvider

        provider = StructuredProvider(provider, output)
    return provider


def provider_and_tools(
    model: LLMProvider, tools: Tools, output: Output | None, limits: Limits, *budgets: Budget | None
) -> tuple[Provider, Tools]:
    """Return the provider and tools of a run. An active recording or replay wraps both, unless a route answers.

    Raises `ConfigurationError` if there is a cost limit and a price is unknown.
    """
    for each in (limits, *(budget.account.limits for budget in budgets if budget)):
        check_priced(each.max_cost, model)
    provider, tape = provider_of_run(model, output), current_recording()
    return (provider, tools) if tape is None or provider.provider_name == ROUTE else tape.wrap(provider, tools)

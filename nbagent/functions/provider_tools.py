"""Tools that a provider runs itself. Each has one name for all providers. They are offered like functions, but never
run here.

>>> agent = Agent("claude", tools=[mean_by, web_search(max_uses=3)])        # doctest: +SKIP
>>> agent.chat_sync("Who won the match?").citations                         # doctest: +SKIP
>>> agent.chat_sync("And in 2022?", tools=["web_search"])                   # doctest: +SKIP

Only tools that you name are offered. Each provider's tools are in its file in `providers/known/`. If the model's
provider lacks a tool or one of its options, an error is raised before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from nbagent.checks import check_number, check_type, invalid
from nbagent.core.citations import safe_url
from nbagent.errors import ConfigurationError
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry, JoinedRegistry

#: Tools that need no argument.
ProviderToolName = Literal["web_search", "web_fetch", "code_execution", "image_generation", "tool_search"]


def web_search(
    *,
    max_uses: int | None = None,
    allowed_domains: Sequence[str] | None = None,
    blocked_domains: Sequence[str] | None = None,
    user_location: Mapping[str, str] | None = None,
) -> FunctionDefinition:
    """A tool for `tools=[...]`: the provider's web search. Citations are in `result.citations` and `trace.citations`.

    - `max_uses`: the maximum number of searches in one request
    - `allowed_domains` or `blocked_domains`: a list of domains, such as `["python.org"]`
    - `user_location`: any of city, region, country (two letters) and timezone

    >>> web_search(max_uses=3).provider_options
    {'max_uses': 3}
    """
    return _definition(
        "web_search",
        "Search the web.",
        max_uses=max_uses,
        allowed_domains=allowed_domains,
        blocked_domains=blocked_domains,
        user_location=None if user_location is None else {"type": "approximate", **user_location},
    )


def web_fetch(
    *,
    max_uses: int | None = None,
    allowed_domains: Sequence[str] | None = None,
    blocked_domains: Sequence[str] | None = None,
    max_content_tokens: int | None = None,
) -> FunctionDefinition:
    """A tool for `tools=[...]` with which the provider reads web pages whose addresses are in the conversation.

    >>> web_fetch(allowed_domains=["python.org"]).provider_options
    {'allowed_domains': ['python.org']}
    """
    return _definition(
        "web_fetch",
        "Read pages of the web.",
        max_uses=max_uses,
        allowed_domains=allowed_domains,
        blocked_domains=blocked_domains,
        max_content_tokens=max_content_tokens,
    )


def code_execution() -> FunctionDefinition:
    """A tool for `tools=[...]` that runs the model's code in the provider's sandbox, without access to your data.

    >>> code_execution().name
    'code_execution'
    """
    return _definition("code_execution", "Run code in the provider's sandbox.")


def image_generation(*, size: str | None = None, quality: str | None = None) -> FunctionDefinition:
    """A tool for `tools=[...]` with which the provider generates images. The images are in `result.images`.

    >>> image_generation(size="1024x1024").provider_options
    {'size': '1024x1024'}
    """
    return _definition("image_generation", "Generate images.", size=size, quality=quality)


def tool_search() -> FunctionDefinition:
    """A tool for `tools=[...]` that lets the model search hundreds of tools instead of reading all their definitions.

    The provider hides the request's functions until the model finds them.

    >>> tool_search().name
    'tool_search'
    """
    return _definition("tool_search", "Search for tools.")


def remote_mcp(url: str, *, name: str, allowed_tools: Sequence[str] | None = None) -> FunctionDefinition:
    """A tool for `tools=[...]` that lets the provider use a public MCP server's tools. The calls need no approval.

    `name` is your name for the server. No token is sent. If the server needs a token, or if only this machine can reach
    it, use `agent.use(MCPServer(url, ...))`, whose tools are called from here.

    >>> remote_mcp("https://mcp.deepwiki.com/mcp", name="deepwiki").name
    'remote_mcp-deepwiki'
    """
    if safe_url(url) is None:
        raise invalid("remote_mcp: url", url, "an http or https address")
    check_type("remote_mcp: name", name, str)
    return _definition(f"remote_mcp-{name}", f"The tools of {url}.", url=url, server=name, allowed_tools=allowed_tools)


def _definition(name: str, description: str, **options: Any) -> FunctionDefinition:
    options = {option: value for option, value in options.items() if value is not None}
    for option in options.keys() & {"allowed_domains", "blocked_domains", "allowed_tools"}:
        check_type(f"{name}: {option}", options[option], list, tuple, fix="Pass a list of names.")
    check_number(f"{name}: max_uses", options.get("max_uses"), whole=True, minimum=1, optional=True)
    if options.get("allowed_domains") and options.get("blocked_domains"):
        raise ConfigurationError(f"{name}: pass allowed_domains or blocked_domains, not both.")

    def run(**_: Any) -> None:
        raise ConfigurationError(f"{name} is run by the provider; it can't be called here.")

    return FunctionDefinition(name, f"{description} The provider runs this tool.", {}, run, provider_options=options)


#: The functions that create these tools, by name.
PROVIDER_TOOLS: Mapping[str, Callable[..., FunctionDefinition]] = {
    make.__name__: make for make in (web_search, web_fetch, code_execution, image_generation, tool_search)
}


def provider_tool(tool: Any) -> FunctionDefinition | None:
    """Create a provider tool with default options from its name or its function. Returns None for anything else.

    >>> provider_tool("web_search").provider_options, provider_tool("mean_by")
    ({}, None)
    """
    name = tool if isinstance(tool, str) else getattr(tool, "__name__", None)
    make = PROVIDER_TOOLS.get(name) if isinstance(name, str) else None
    return make() if make is not None and (tool is make or isinstance(tool, str)) else None


def chosen_tools(registry: FunctionRegistry, names: Iterable[str]) -> FunctionRegistry:
    """A registry with the named tools: those in `registry`, and provider tools that are not in it."""
    listed = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    providers = FunctionRegistry()
    for name in listed:
        if name in PROVIDER_TOOLS and name not in registry:
            providers.add(PROVIDER_TOOLS[name]())
    return JoinedRegistry(registry, providers).only(listed)

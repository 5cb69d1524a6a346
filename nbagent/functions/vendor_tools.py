"""Tools that a vendor runs itself, by one neutral name each. They are offered like functions, and never run here.

>>> agent = Agent("claude", tools=[mean_by, web_search(max_uses=3)])        # doctest: +SKIP
>>> agent.chat_sync("Who won the match?").citations                         # doctest: +SKIP
>>> agent.chat_sync("And in 2022?", tools=["web_search"])                   # doctest: +SKIP

None is on unless you name it. What each vendor has, and how, stands in its file in `providers/vendors/`: a name that
the vendor of the model lacks is an error before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from nbagent.checks import check_number, check_type, invalid
from nbagent.core.citations import safe_url
from nbagent.errors import ConfigurationError
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry, JoinedRegistry

#: Those that need no argument.
VendorToolName = Literal["web_search", "web_fetch", "code_execution", "image_generation", "tool_search"]


def web_search(
    *,
    max_uses: int | None = None,
    allowed_domains: Sequence[str] | None = None,
    blocked_domains: Sequence[str] | None = None,
    user_location: Mapping[str, str] | None = None,
) -> FunctionDefinition:
    """The vendor's web search, for `tools=[...]`. What the answer cites is in `result.citations`, `trace.citations`.

    - `max_uses`: searches in one request
    - `allowed_domains`, `blocked_domains`: such as `["python.org"]`; give one of them
    - `user_location`: some of city, region, country (two letters) and timezone

    An option that the vendor lacks is an error before anything is sent.

    >>> web_search(max_uses=3).vendor_options
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
    """The vendor's tool that reads the pages at addresses in the conversation, for `tools=[...]`.

    >>> web_fetch(allowed_domains=["python.org"]).vendor_options
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
    """The vendor's sandbox, in which the model runs code of its own, far from your data, for `tools=[...]`.

    >>> code_execution().name
    'code_execution'
    """
    return _definition("code_execution", "Run code in the vendor's sandbox.")


def image_generation(*, size: str | None = None, quality: str | None = None) -> FunctionDefinition:
    """The vendor's tool that makes images, for `tools=[...]`. They are in `result.images`.

    >>> image_generation(size="1024x1024").vendor_options
    {'size': '1024x1024'}
    """
    return _definition("image_generation", "Make images.", size=size, quality=quality)


def tool_search() -> FunctionDefinition:
    """Let the model search for tools, rather than read the definitions of all, for `tools=[...]` with hundreds of them.

    The vendor keeps the functions of the same request back until the model has found them.

    >>> tool_search().name
    'tool_search'
    """
    return _definition("tool_search", "Search for tools.")


def remote_mcp(url: str, *, name: str, allowed_tools: Sequence[str] | None = None) -> FunctionDefinition:
    """Let the vendor itself use the tools of a public MCP server, for `tools=[...]`. They run without your approval.

    `name` is a word of yours for the server. No token is sent: a server that wants one, or that only this machine
    reaches, is `agent.use(MCPServer(url, ...))`, whose tools run from here.

    >>> remote_mcp("https://mcp.deepwiki.com/mcp", name="deepwiki").name
    'remote_mcp-deepwiki'
    """
    if safe_url(url) is None:
        raise invalid("remote_mcp: url", url, "an http or https address")
    check_type("remote_mcp: name", name, str)
    return _definition(f"remote_mcp-{name}", f"The tools of {url}.", url=url, server=name, allowed_tools=allowed_tools)


def _definition(name: str, description: str, **options: Any) -> FunctionDefinition:
    given = {option: value for option, value in options.items() if value is not None}
    for option in given.keys() & {"allowed_domains", "blocked_domains", "allowed_tools"}:
        check_type(f"{name}: {option}", given[option], list, tuple, fix="Pass a list of names.")
    check_number(f"{name}: max_uses", given.get("max_uses"), whole=True, minimum=1, optional=True)
    if given.get("allowed_domains") and given.get("blocked_domains"):
        raise ConfigurationError(f"{name}: give allowed_domains or blocked_domains, not both.")

    def run_here(**_: Any) -> None:
        raise ConfigurationError(f"{name} is a tool that the provider runs itself; nothing runs it here.")

    return FunctionDefinition(name, f"{description} The vendor runs this tool.", {}, run_here, vendor_options=given)


#: What makes them, by their names.
VENDOR_TOOLS: Mapping[str, Callable[..., FunctionDefinition]] = {
    make.__name__: make for make in (web_search, web_fetch, code_execution, image_generation, tool_search)
}


def vendor_tool(tool: Any) -> FunctionDefinition | None:
    """The tool that this names, with the vendor's defaults: its neutral name, or what makes it; None for others.

    >>> vendor_tool("web_search").vendor_options, vendor_tool("mean_by")
    ({}, None)
    """
    name = tool if isinstance(tool, str) else getattr(tool, "__name__", None)
    make = VENDOR_TOOLS.get(name) if isinstance(name, str) else None
    return make() if make is not None and (tool is make or isinstance(tool, str)) else None


def chosen_tools(registry: FunctionRegistry, names: Iterable[str]) -> FunctionRegistry:
    """The tools of a registry by these names, and those of the vendor that it does not hold."""
    listed = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    vendors = FunctionRegistry()
    for name in listed:
        if name in VENDOR_TOOLS and name not in registry:
            vendors.add(VENDOR_TOOLS[name]())
    return JoinedRegistry(registry, vendors).only(listed)

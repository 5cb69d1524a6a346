"""The Model Context Protocol, through the official `mcp` package: offers the tools of servers to agents, and serves
live tools.
"""

"""The Model Context Protocol, through the official `mcp` package: agents use the tools of servers, and live tools are
served.
"""

"""The Model Context Protocol, through the official `mcp` package: servers as tools, and live tools as a server."""

#: The remedy if that package is missing.
MISSING = "MCP needs the package mcp: pip install 'nbagent[mcp]'."

"""The Model Context Protocol, through the official `mcp` package: servers as tools, and live tools as a server."""

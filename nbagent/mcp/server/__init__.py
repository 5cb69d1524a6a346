"""The live tools of this process as an MCP server, for editors, coding agents and other MCP clients."""

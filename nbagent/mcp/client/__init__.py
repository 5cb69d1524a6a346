"""MCP servers as toolsets: `agent.use(MCPServer("npx", "-y", "some-server"))`."""

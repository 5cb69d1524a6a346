"""The client that MCP's conformance suite tests: `conformance_client.py URL`, the scenario in MCP_CONFORMANCE_SCENARIO.

It connects as an agent does, calls every tool with arguments that fit, and approves what the server asks.
"""

import asyncio
import json
import os
import sys
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata

from nbagent import Agent, FunctionCall, Limits, MCPServer, ScriptedProvider

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
RETURN = "http://localhost:3030/callback"
#: The longest that a call may take, with a new login; generous, since many clients run at the same time.
PATIENCE_S = 120


class Tokens:
    """Stores a login's tokens in memory."""

    def __init__(self):
        self.tokens = self.client = None
        if "client_id" in CONTEXT:
            self.client = OAuthClientInformationFull(
                redirect_uris=[RETURN],
                token_endpoint_auth_method="client_secret_basic",
                **{key: CONTEXT[key] for key in ("client_id", "client_secret")},
            )

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


def login(url):
    """The official package's login, with a user who consents immediately."""
    returned = {}

    async def go_to(address):
        async with httpx2.AsyncClient() as browser:
            location = (await browser.get(address)).headers["location"]
        returned.update(parse_qs(urlsplit(location).query))

    async def come_back():
        found = {key: returned.get(key, [None])[0] for key in ("code", "state", "iss")}
        return AuthorizationCodeResult(**found)

    about = OAuthClientMetadata(
        client_name="nbagent", redirect_uris=[RETURN], grant_types=["authorization_code", "refresh_token"]
    )
    document = "https://conformance-test.local/client-metadata.json"
    return OAuthClientProvider(url, about, Tokens(), go_to, come_back, client_metadata_url=document)


def fitting(schema):
    """Arguments that fit a tool's schema."""
    values = {"number": 5, "integer": 5, "boolean": True, "array": [], "object": {}}
    return {
        name: each.get("default", values.get(each.get("type"), "x"))
        for name, each in schema.get("properties", {}).items()
        if name in schema.get("required", ())
    }


async def main(url):
    server = MCPServer(url, name="suite", approve=False, auth=login(url) if SCENARIO.startswith("auth/") else None)
    try:
        await server.prepare()
        listed = server.tools.list_functions()
        # omitted, as a model would: a null that a tool's schema does not allow is rejected before it is sent
        given = [
            FunctionCall(f"suite_{each['name']}", {k: v for k, v in each["arguments"].items() if v is not None})
            for each in CONTEXT.get("toolCalls", ())
        ]
        calls = given or [FunctionCall(each["name"], fitting(each["parameters"])) for each in listed]
        agent = Agent(
            ScriptedProvider([*([call] for call in calls), "done"]),
            approve=lambda call, tool: True,
            limits=Limits(tool_seconds=PATIENCE_S),
        ).use(server)
        result = await agent.chat("Call every tool.", max_iterations=100)
        for call in result.function_calls:
            print(call["name"], call["arguments"], call["result"])
    finally:
        await server.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

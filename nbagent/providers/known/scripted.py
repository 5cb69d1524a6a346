"""Scripted answers instead of a provider, for tests."""

from nbagent.providers.provider_facts import OwnTool, ProviderFacts

FACTS = ProviderFacts(
    "scripted",
    format="",
    factory="nbagent.providers.scripted:ScriptedProvider",
    keyless=True,
    free=True,
    tools=dict.fromkeys(
        str.split("web_search web_fetch code_execution image_generation tool_search remote_mcp"), (OwnTool(),)
    ),
)

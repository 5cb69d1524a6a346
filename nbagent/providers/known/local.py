"""The embedded model, which runs in nbagent's own server (llama.cpp)."""

from nbagent.providers.known.open_source import PROFILES
from nbagent.providers.provider_facts import ProviderFacts

FACTS = ProviderFacts(
    "local",
    factory="nbagent.providers.local.provider:LocalProvider",
    keyless=True,
    free=True,
    profiles=PROFILES,
    no_images=".",
    tool_choices=("none", "required"),  # llama.cpp treats a tool's name as "auto"
)

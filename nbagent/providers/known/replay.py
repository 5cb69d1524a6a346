"""Recorded answers instead of a provider."""

from nbagent.providers.provider_facts import ProviderFacts

FACTS = ProviderFacts(
    "replay", format="", factory="nbagent.providers.replay.session:ReplayProvider", keyless=True, free=True
)

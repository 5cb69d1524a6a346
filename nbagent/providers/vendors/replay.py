"""Recorded answers instead of a provider."""

from nbagent.providers.vendor import Vendor

VENDOR = Vendor("replay", format="", factory="nbagent.providers.replay.session:ReplayProvider", keyless=True, free=True)

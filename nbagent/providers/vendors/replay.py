"""Recorded answers in place of a vendor."""

from nbagent.providers.vendor import Vendor

VENDOR = Vendor("replay", format="", factory="nbagent.providers.replay.session:ReplayProvider", keyless=True, free=True)

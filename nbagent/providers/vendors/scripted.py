"""Answers from a script in place of a vendor, for tests."""

from nbagent.providers.vendor import Vendor

VENDOR = Vendor("scripted", format="", factory="nbagent.providers.scripted:ScriptedProvider", keyless=True, free=True)

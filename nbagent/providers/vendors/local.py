"""The embedded model, which runs in nbagent's own server (llama.cpp)."""

from nbagent.providers.vendor import Vendor
from nbagent.providers.vendors.open_source import PROFILES

VENDOR = Vendor(
    "local",
    factory="nbagent.providers.local.provider:LocalProvider",
    keyless=True,
    free=True,
    profiles=PROFILES,
    no_images=".",
    tool_choices=("none", "required"),  # llama.cpp takes a tool's name for "auto"
)

"""NVIDIA's API catalog, which runs open models, and its NIM servers.

https://docs.nvidia.com/nim/large-language-models (read in November 2026): a vLLM server; templates control thinking
"""

from nbagent.providers.known.open_source import PROFILES
from nbagent.providers.provider_facts import ProviderFacts

FACTS = ProviderFacts(
    "nvidia",
    title="NVIDIA (API catalog, NIM)",
    aliases=("nim", "nvidia_nim"),
    model="nvidia/nemotron-3-super-120b-a12b",
    base_url="https://integrate.api.nvidia.com/v1",
    key_vars=("NVIDIA_API_KEY",),
    base_url_vars=("NVIDIA_BASE_URL",),
    profiles=PROFILES,
    replay_fields=("reasoning_content", "reasoning"),
)

"""Hugging Face's router, which passes requests on to many providers; `model:provider` names one.

https://huggingface.co/docs/inference-providers (read in November 2026)
"""

from nbagent.providers.provider_facts import ModelProfile, ProviderFacts, level_names

PROFILES = (
    ModelProfile(r"gpt-oss", level_field="reasoning_effort", levels=level_names("low", "medium", "high")),
    ModelProfile(thinks_by_default=None),
)

FACTS = ProviderFacts(
    "huggingface",
    title="Hugging Face (Inference Providers)",
    aliases=("hf", "hugging_face"),
    model="openai/gpt-oss-120b",
    base_url="https://router.huggingface.co/v1",
    key_vars=("HF_TOKEN",),
    base_url_vars=("HUGGINGFACE_BASE_URL",),
    only_by_name=True,
    profiles=PROFILES,
    replay_fields=("reasoning_content", "reasoning"),
)

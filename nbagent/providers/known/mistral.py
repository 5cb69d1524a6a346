"""Mistral. Sources, read in November 2026:

- https://docs.mistral.ai/capabilities/reasoning/: `reasoning_effort`; thinking arrives as content parts
- the fields of https://pypi.org/project/mistralai/ 3.7: there is no `stream_options`, and usage is always sent
- https://mistralai.github.io/mistral-common/usage/tools: a call id has nine letters or digits
"""

from dataclasses import replace

from nbagent.providers.provider_facts import NOT_THINKING, ModelProfile, ProviderFacts, level_names

_ASKED = ModelProfile(
    thinks_by_default=False,
    thinking_on={"reasoning_effort": "high"},
    thinking_off={"reasoning_effort": "none"},
    level_field="reasoning_effort",
    levels=level_names("high"),
)

PROFILES = (
    ModelProfile(r"magistral"),
    replace(_ASKED, models=r"mistral-large-4", thinks_by_default=None, levels=level_names("low", "medium", "high")),
    replace(_ASKED, models=r"mistral-(small-(latest|4|260)|medium-(latest|3[-.]5))"),
    replace(
        NOT_THINKING, models=r"(?:mini|code|dev)stral|(?:pix|vox|mix)tral|mistral-(?:7b|tiny|nemo|saba)|-2[345]\d\d"
    ),
    replace(_ASKED, thinks_by_default=None),
)

FACTS = ProviderFacts(
    "mistral",
    title="Mistral",
    aliases=("mistralai",),
    own_models=r"(?:open-)?(?:mis|mix|minis|magis|codes|devs|pix|vox)tral-.*",
    model="mistral-medium-3-5",
    base_url="https://api.mistral.ai/v1",
    key_vars=("MISTRAL_API_KEY",),
    base_url_vars=("MISTRAL_BASE_URL",),
    profiles=PROFILES,
    stream_usage=False,
    call_id="[a-zA-Z0-9]{9}",
    no_images="codestral|open-mi",
)

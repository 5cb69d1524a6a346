"""OpenAI, through its own SDK.

Reasoning: https://developers.openai.com/api/docs/guides/reasoning and the models' pages (read in November 2026). Only
the Responses API returns the reasoning, as a summary.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from nbagent.checks import check_choice
from nbagent.providers.formats.codec import Codec
from nbagent.providers.formats.openai_chat import ChatCodec
from nbagent.providers.formats.openai_responses import ResponsesCodec
from nbagent.providers.http.transport import SDKTransport
from nbagent.providers.http_provider import HTTPProvider
from nbagent.providers.provider_facts import (
    NOT_THINKING,
    Compaction,
    Fields,
    ModelProfile,
    OwnTool,
    ProviderFacts,
    level_names,
)

if TYPE_CHECKING:
    from pydantic import SecretStr

_ALWAYS = ModelProfile(level_field="reasoning_effort", temperature="never")
_ON_BY_DEFAULT = replace(_ALWAYS, thinking_off={"reasoning_effort": "none"}, temperature="unthinking")
_OFF_BY_DEFAULT = replace(_ON_BY_DEFAULT, thinks_by_default=False, thinking_on={"reasoning_effort": "medium"})
_LOW_TO_HIGH = level_names("low", "medium", "high")
_LOW_TO_XHIGH = level_names("low", "medium", "high", "xhigh")
_LOW_TO_MAX = level_names("low", "medium", "high", "xhigh", "max")

PROFILES = (
    replace(NOT_THINKING, models=r"gpt-5-chat|gpt-[34]|chatgpt|davinci"),
    replace(_ALWAYS, models=r"gpt-5\.\d-chat", levels=level_names("medium")),
    replace(_ALWAYS, models=r"gpt-5-pro", levels=level_names("high")),
    replace(_ALWAYS, models=r"gpt-5\.\d-pro", levels=level_names("medium", "high", "xhigh")),
    replace(_ON_BY_DEFAULT, models=r"gpt-5\.[6-9]", levels=_LOW_TO_MAX),
    replace(_ON_BY_DEFAULT, models=r"gpt-5\.5", levels=_LOW_TO_XHIGH),
    replace(_ALWAYS, models=r"gpt-5\.1-codex-max", levels=_LOW_TO_XHIGH),
    replace(_ALWAYS, models=r"gpt-5(\.1)?-codex", levels=_LOW_TO_HIGH),
    replace(_OFF_BY_DEFAULT, models=r"gpt-5\.[2-4]", levels=_LOW_TO_XHIGH),
    replace(_OFF_BY_DEFAULT, models=r"gpt-5\.1", levels=_LOW_TO_HIGH),
    replace(_ALWAYS, models=r"gpt-5", levels=level_names("minimal", "low", "medium", "high")),
    replace(_ALWAYS, models=r"gpt-([6-9]|\d\d)", levels=_LOW_TO_MAX),
    replace(_ALWAYS, models=r"\bo\d|codex", levels=_LOW_TO_HIGH),
    replace(_ALWAYS, models=r"gpt-oss", levels=_LOW_TO_HIGH, temperature="always"),
    replace(_OFF_BY_DEFAULT, thinks_by_default=None, levels=_LOW_TO_HIGH, temperature="always"),
)
_SUMMARY: Fields = {"reasoning": {"summary": "auto"}}


def _with_summary(profile: ModelProfile) -> ModelProfile:
    """The profile for the Responses API. The first reasoning models have no summary to show."""
    if not profile.thinks or profile.models.startswith(r"\bo"):
        return profile
    shown = _SUMMARY if profile.thinks_by_default else {}
    return replace(profile, show_thinking=shown, thinking_on={**profile.thinking_on, **_SUMMARY})


def _remote_mcp(options: Fields) -> tuple[Fields, Fields]:
    entry = {
        "type": "mcp",
        "server_label": options["server"],
        "server_url": options["url"],
        "require_approval": "never",
    }
    allowed = options.get("allowed_tools")
    return entry | ({} if allowed is None else {"allowed_tools": allowed}), {}


_RESPONSES = OwnTool(format="openai_responses", models=r"^(?!.*(gpt-3|gpt-4$|gpt-4-|davinci|chatgpt))")
#: https://developers.openai.com/api/docs/guides/tools (read in November 2026)
TOOLS = {
    "web_search": (
        replace(
            _RESPONSES,
            entry={"type": "web_search"},
            options={
                "max_uses": "/max_tool_calls",
                "allowed_domains": "filters.allowed_domains",
                "user_location": "user_location",
            },
            body={"include": ["web_search_call.action.sources"]},
            price=0.01,
        ),
    ),
    "code_execution": (
        replace(
            _RESPONSES,
            entry={"type": "code_interpreter", "container": {"type": "auto"}},
            body={"include": ["code_interpreter_call.outputs"]},
        ),
    ),
    "image_generation": (
        replace(_RESPONSES, entry={"type": "image_generation"}, options={name: name for name in ("size", "quality")}),
    ),
    "remote_mcp": (replace(_RESPONSES, make=_remote_mcp),),
    "tool_search": (
        replace(
            _RESPONSES,
            entry={"type": "tool_search"},
            function_fields={"defer_loading": True},
            models=r"gpt-(5\.[4-9]|[6-9]|\d\d)",
        ),
    ),
}


def _compacted(tokens: int) -> Fields:
    return {"context_management": [{"type": "compaction", "compact_threshold": tokens}]}


FACTS = ProviderFacts(
    "openai",
    title="OpenAI",
    own_models=r"(?:gpt-(?!oss)|chatgpt-|codex-|o\d).*",
    factory=f"{__name__}:OpenAIProvider",
    model="gpt-5.6-terra",
    base_url="https://api.openai.com/v1",
    key_vars=("OPENAI_API_KEY",),
    base_url_vars=("OPENAI_BASE_URL",),
    profiles=PROFILES,
    format_profiles={"openai_responses": tuple(map(_with_summary, PROFILES))},
    max_tokens_name="max_completion_tokens",
    call_id="[a-zA-Z0-9_-]{1,40}",
    pdfs=True,
    no_images=r"gpt-3\.5|gpt-4(-\d{4}|-32k.*)?$|o1-(mini|preview)|o3-mini",
    schema_with_tools=".",
    tools=TOOLS,
    # https://developers.openai.com/api/docs/guides/compaction (read in November 2026)
    compaction=Compaction(_compacted, models=r"gpt-(5|[6-9]|\d\d)", format="openai_responses"),
)


class OpenAIProvider(HTTPProvider):
    """GPT models, through the Responses API or chat completions. See `HTTPProvider` for the other options.

    - `api`: `"responses"`, `"chat"`, or None to choose by model. Reasoning models use Responses, where their reasoning
      carries over to the next turn. Other models use chat completions. All models use them if `base_url` or `client`
      points elsewhere, because every gateway supports chat completions. On Azure, pass `api="responses"`.
    - `client`: any async client from the SDK, such as `AsyncAzureOpenAI`

    Responses requests ask for encrypted reasoning, and OpenAI stores nothing. On other servers, models that do not
    reason may refuse this: pass `include=[]`. Requests also ask for summaries of the reasoning, which arrive as
    thinking. OpenAI returns them only to verified organizations.

    OpenAI caches the start of prompts automatically. `prompt_cache_key="name"` lets requests reuse a cached start more
    often.

    Raises `ConfigurationError` for any other `api`.

    >>> OpenAIProvider(model="gpt-4.1-mini", api="responses").codec.path("gpt-4.1-mini", True)
    '/responses'
    """

    provider_name = "openai"
    package = "openai"

    def __init__(
        self,
        api_key: str | SecretStr | None = None,
        model: str | None = None,
        base_url: str | None = None,
        *,
        api: str | None = None,
        **options: Any,
    ) -> None:
        check_choice("api", api, ("responses", "chat", None))
        self._api = api
        super().__init__(api_key, model, base_url, **options)

    def _make_codec(self, facts: ProviderFacts) -> Codec:
        profile = FACTS.profile(self.model_name)
        reasons = profile.thinks and bool(profile.models)  # the last profile is for unknown models
        at_openai = self._at_openai()
        api = self._api or ("responses" if reasons and at_openai else "chat")
        # elsewhere a model may have any name, so only OpenAI's own are known not to reason
        return ChatCodec(facts) if api == "chat" else ResponsesCodec(facts, reasoning=reasons or not at_openai)

    def _make_transport(self, client: Any) -> SDKTransport:
        return SDKTransport(self.package, "AsyncOpenAI", client)

    def _at_openai(self) -> bool:
        """Whether requests go to OpenAI itself, in any region."""
        address = self.base_url if self.client is None else str(getattr(self.client, "base_url", ""))
        return f".{urlsplit(address).hostname}".endswith(".api.openai.com")

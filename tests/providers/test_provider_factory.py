"""`create_provider`, `register_provider`, `resolve`, and what providers keep to themselves."""

import re
import subprocess
import sys
import traceback

import pytest
from support.loopback import Answer
from support.requests import streamed

from nbagent import Agent
from nbagent.config import AgentConfig
from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.errors import AuthenticationError, ConfigurationError, NbagentError
from nbagent.providers import (
    ClaudeProvider,
    GeminiProvider,
    MiniMaxProvider,
    OpenAIProvider,
    OpenSourceProvider,
    create_provider,
    provider_names,
    register_provider,
    resolve,
)
from nbagent.providers.base import LLMProvider
from nbagent.providers.catalog import CATALOG

HI = [LLMMessage("user", "hi")]
KEYED = ["openai", "claude", "minimax", "qwen", "zhipu", "deepseek", "openrouter", "gemini"]
WIRED = [*KEYED, "ollama", "open_source"]
SECRET = "sk-MARKER0123456789"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    monkeypatch.delenv("NBAGENT_MODEL", raising=False)
    for row in CATALOG.values():
        for name in (*row.key_vars, *row.base_url_vars):
            monkeypatch.delenv(name, raising=False)


class Echo(LLMProvider):
    model_name = "echo"

    def supports_function_calling(self):
        return True

    async def chat(self, messages, functions=None, temperature=None, **kwargs):
        return LLMResponse(messages[-1].content)


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("openai", OpenAIProvider),
        ("claude", ClaudeProvider),
        ("minimax", MiniMaxProvider),
        ("gemini", GeminiProvider),
        ("open_source", OpenSourceProvider),
        ("qwen", OpenSourceProvider),
    ],
)
def test_names_make_providers(name, cls):
    provider = create_provider(name, model="m1")
    assert type(provider) is cls
    assert (provider.vendor, provider.model_name) == (name, "m1")
    assert provider.supports_function_calling()


def test_a_name_may_hold_the_model():
    provider = create_provider("ollama:qwen3:4b")
    assert (provider.vendor, provider.model_name) == ("ollama", "qwen3:4b")


def test_every_row_has_a_default_model_and_address():
    for name in WIRED:
        provider = create_provider(name)
        assert provider.model_name
        assert provider.base_url.startswith("http")


def test_an_unknown_name_is_answered_with_the_names_there_are():
    with pytest.raises(ConfigurationError, match=r"'claud'; did you mean claude") as caught:
        create_provider("claud")
    assert all(name in str(caught.value) for name in CATALOG)


def test_registered_providers(monkeypatch):
    monkeypatch.setattr("nbagent.providers._registered", {})
    register_provider("echo", Echo)
    assert isinstance(create_provider("echo"), Echo)
    assert "echo" in provider_names()
    with pytest.raises(ConfigurationError, match="a:b"):
        register_provider("a:b", Echo)


def test_providers_of_installed_packages(tmp_path, monkeypatch):
    (tmp_path / "their_provider.py").write_text("def make(**options): return ('theirs', options)\n")
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[nbagent.providers]\ntheirs = their_provider:make\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert create_provider("theirs:big", api_key="k") == ("theirs", {"model": "big", "api_key": "k"})
    assert "theirs" in provider_names()


def test_resolve_takes_what_a_user_has():
    echo = Echo()
    assert resolve(echo) is echo
    assert resolve("deepseek:deepseek-v4-pro").model_name == "deepseek-v4-pro"
    provider = resolve(AgentConfig(model="m1", api_key=SECRET, base_url="http://localhost:1/v1"))
    assert (type(provider), provider.model_name, provider.base_url) == (
        OpenSourceProvider,
        "m1",
        "http://localhost:1/v1",
    )
    assert type(resolve(AgentConfig(provider="claude", model="claude-opus-5"))) is ClaudeProvider
    with pytest.raises(ConfigurationError, match="int"):
        resolve(7)


def test_resolve_none_takes_the_first_key(monkeypatch):
    monkeypatch.setenv("DEEPSEEK_API_KEY", SECRET)
    assert resolve(None).vendor == "deepseek"
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    assert resolve(None).vendor == "claude"
    monkeypatch.setenv("NBAGENT_MODEL", "ollama:qwen3")
    assert resolve(None).vendor == "ollama"


def test_resolve_none_without_any_key_is_the_embedded_model(monkeypatch):
    monkeypatch.setattr("nbagent.providers._registered", {})
    register_provider("local", Echo)  # in the place of the real one, which would be loaded here
    assert isinstance(resolve(None), Echo)


def test_addresses(monkeypatch):
    assert create_provider("claude", base_url="http://h/v1/").base_url == "http://h"
    assert create_provider("claude", base_url="http://h/v1/messages").base_url == "http://h"
    assert create_provider("open_source", base_url="http://h/v1/chat/completions").base_url == "http://h/v1"
    base = "http://h/gemini/v1beta"
    for given in ("http://h/gemini", f"{base}/", f"{base}/models/m:streamGenerateContent?alt=sse"):
        assert create_provider("gemini:m", base_url=given).base_url == base
    assert create_provider("gemini", base_url="http://h/v1").base_url == "http://h/v1"
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://h/gemini")
    assert create_provider("gemini").base_url == base
    monkeypatch.setenv("OPENAI_BASE_URL", "http://gateway/v1")
    assert create_provider("openai").base_url == "http://gateway/v1"


async def test_a_missing_key_is_named_at_the_first_request():
    for name in KEYED:
        provider = create_provider(name)
        with pytest.raises(AuthenticationError, match=CATALOG[name].key_vars[0]):
            await provider.chat(HI)


async def test_a_key_set_later_counts(loopback, connect, monkeypatch):
    loopback.answers = [Answer(b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n')]
    provider = connect("deepseek", api_key=None)
    monkeypatch.setenv("DEEPSEEK_API_KEY", SECRET)
    assert (await provider.chat(HI)).content == "Hi"
    assert loopback.requests[0].headers["authorization"] == f"Bearer {SECRET}"


def everything_about(error: BaseException) -> str:
    """All that could end up in a log or a notebook."""
    chain, seen = [], error
    while seen is not None:
        chain.append(f"{seen!r} {seen} {vars(seen)}")
        seen = seen.__cause__ or seen.__context__
    return "\n".join([*chain, *traceback.format_exception(error)])


@pytest.mark.parametrize(
    ("vendor", "status"),
    [("openai", 401), ("openai", 429), ("openai", 200), ("claude", 401), ("open_source", 200), ("gemini", 401)],
)
async def test_keys_are_in_no_repr_and_no_error(loopback, connect, vendor, status):
    """Not even where a vendor repeats the key in its answer."""
    echoed = f'{{"error": {{"message": "bad key {SECRET}", "type": "t"}}}}'.encode()
    loopback.answers = [Answer(echoed, status, {"content-type": "application/json", "retry-after": "0"})]
    provider = connect(vendor, api_key=SECRET, max_retries=1)
    shown = [repr(provider), str(provider), str(vars(provider))]

    async def listen():
        async for item in streamed(provider, HI):
            shown.append(repr(item))  # noqa: PERF401 - what comes before the error counts

    with pytest.raises(NbagentError, match="bad key ") as caught:
        await listen()
    sent = loopback.requests[0].headers
    assert SECRET in sent.get("authorization", "") + sent.get("x-api-key", "") + sent.get("x-goog-api-key", "")
    assert SECRET not in "\n".join([*shown, everything_about(caught.value)])


async def test_the_key_of_the_users_own_client_is_not_shown(loopback, connect):
    import openai

    loopback.answers = [Answer(f'{{"error": "bad key {SECRET}"}}'.encode(), 401)]
    async with openai.AsyncOpenAI(api_key=SECRET, base_url=loopback.url) as client:
        with pytest.raises(AuthenticationError, match=r"bad key \*\*\*") as caught:
            await connect("openai", api_key=None, client=client).chat(HI)
    assert SECRET not in everything_about(caught.value)


@pytest.mark.parametrize(
    ("vendor", "key"), [("openai", f"{SECRET}\nX: y"), ("claude", f"{SECRET} x"), ("open_source", f"{SECRET}é")]
)
async def test_keys_that_no_header_can_hold_are_not_shown_either(connect, vendor, key):
    with pytest.raises(AuthenticationError, match="no key may have") as caught:
        await connect(vendor, api_key=key).chat(HI)
    assert SECRET not in everything_about(caught.value)


def test_credentials_in_an_address_are_not_shown():
    provider = create_provider("open_source", base_url=f"http://me:{SECRET}@host/v1")
    assert SECRET not in repr(provider)


async def test_options_become_body_fields(loopback, connect):
    loopback.answers = [Answer(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')]
    provider = connect(max_tokens=7, top_k=3, headers={"x-team": "a"})
    await provider.chat(HI, max_tokens=9, response_format={"type": "json_object"})
    request = loopback.requests[0]
    assert request.headers["x-team"] == "a"
    assert request.json["max_tokens"] == 9
    assert request.json["top_k"] == 3
    assert request.json["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize(
    ("vendor", "own"), [("open_source", {}), ("claude", {"cache": "1h"}), ("openai", {"api": "chat"})]
)
async def test_what_a_provider_is_made_with_is_no_option_of_a_request(loopback, connect, vendor, own):
    """A key would go into the body, to the trace and to whoever reads it."""
    agent = Agent(connect(vendor, model="m1"))
    named = ", ".join(sorted(["api_key", "timeout", *own]))
    with pytest.raises(ConfigurationError, match=f"{named} can't be given for one request"):
        await agent.chat("Hi", api_key="sk-marker", timeout=3, **own)
    assert not loopback.requests
    assert "sk-marker" not in agent.trace.calls.to_string() + agent.trace.events.to_string()


async def test_the_users_own_clients(loopback, connect):
    import anthropic
    import httpx
    import openai

    chat = Answer(b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
    azure = openai.AsyncAzureOpenAI(api_key="own", azure_endpoint=loopback.url, api_version="2024-10-21", max_retries=5)
    plain = openai.AsyncOpenAI(api_key="own", base_url=f"{loopback.url}/v1")
    loopback.answers = [chat]
    for client, path in [(azure, "/openai/deployments/m1/chat/completions"), (plain, "/v1/chat/completions")]:
        provider = connect("openai", client=client, api_key=None)
        assert (await provider.chat(HI)).content == "Hi"
        assert loopback.requests[-1].path.startswith(path)
        await provider.aclose()
        assert not client.is_closed()
        await client.close()
    async with httpx.AsyncClient(headers={"x-own": "yes"}) as own:
        await connect(client=own).chat(HI)
        assert loopback.requests[-1].headers["x-own"] == "yes"
    loopback.answers = [Answer(b"{}", 529)]
    client = anthropic.AsyncAnthropic(api_key="own", base_url=loopback.url, max_retries=5)
    before = len(loopback.requests)
    with pytest.raises(NbagentError):
        await connect("claude", client=client, api_key=None, max_retries=0).chat(HI)
    assert len(loopback.requests) == before + 1
    await client.close()


def test_a_blocking_client_is_refused():
    import httpx
    import openai

    for name, client in {"openai": openai.OpenAI(api_key="k"), "open_source": httpx.Client()}.items():
        with pytest.raises(ConfigurationError, match="async"):
            create_provider(name, client=client)
        client.close()


def test_the_factory_is_light():
    code = (
        "import sys, nbagent.providers as p; p.provider_names;"
        "print([m for m in ('httpx', 'pydantic', 'openai', 'anthropic', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("timeout", 0, "timeout: expected a number above 0, got 0"),
        ("timeout", "1m", "got '1m'"),
        ("timeout", None, "timeout: expected a number above 0, got None"),
        ("timeout", float("nan"), "got nan"),
        ("timeout", float("inf"), "timeout: expected a finite number"),
        ("max_retries", -1, "at least 0, got -1"),
        ("max_retries", True, "got True"),
        ("streaming", "no", "streaming: expected True or False, got 'no'"),
        ("model", 5, "model: expected a str or None, got 5"),
        ("base_url", b"http://x", "Pass an address"),
        ("api_key", 12345678, "api_key: expected a text"),
        ("headers", "X-Key: sk-12345678", "headers: expected a dict"),
        ("headers", {"X Key": "sk-12345678"}, "got 'X Key'"),
        ("headers", {"X-Key": "sk-12345678\n"}, "headers['X-Key']: expected one line"),
    ],
)
def test_settings_of_a_wrong_kind(setting, value, says):
    for vendor in ("openai", "claude", "gemini", "qwen"):
        with pytest.raises(ConfigurationError, match=re.escape(says)) as caught:
            create_provider(vendor, **{"api_key": "k", setting: value})
        assert "12345678" not in str(caught.value)


async def test_options_that_are_no_data():
    agent = Agent(create_provider("claude", api_key="k", model="m1", base_url="http://127.0.0.1:9"))
    with pytest.raises(ConfigurationError, match=r"stop: .*JSON.* set \{'.'\}"):
        await agent.chat("hi", stop={"."})


@pytest.mark.parametrize(
    ("model", "vendor"),
    [
        ("gpt-4o", "openai"),
        ("o3-mini", "openai"),
        ("claude-sonnet-5", "claude"),
        ("glm-5.2", "zhipu"),
        ("qwen3.7-plus", "qwen"),
        ("MiniMax-M3", "minimax"),
        ("deepseek-v4-flash", "deepseek"),
        ("gemini-3.7-flash", "gemini"),
        ("meta-llama/llama-4", "openrouter"),
    ],
)
def test_a_configuration_without_a_provider_goes_to_the_vendor_of_its_model(model, vendor):
    provider = resolve(AgentConfig(model=model, api_key=SECRET))
    assert (provider.vendor, provider.model_name) == (vendor, model)
    assert "localhost" not in provider.base_url
    at_server = resolve(AgentConfig(model=model, api_key=SECRET, base_url="http://localhost:1/v1"))
    assert at_server.vendor == "open_source"


@pytest.mark.parametrize("given", [{"model": "gpt-oss-20b"}, {"model": "my-model"}, {"api_key": SECRET}])
def test_a_configuration_that_names_no_vendor_says_what_is_missing(given):
    with pytest.raises(ConfigurationError, match="provider='openai', or .* base_url=") as caught:
        resolve(AgentConfig(**given))
    assert SECRET not in str(caught.value)

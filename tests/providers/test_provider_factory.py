"""`create_provider`, `register_provider`, `resolve`, and what providers keep secret."""

import pickle
import re
import subprocess
import sys

import pytest

from nbagent import Agent
from nbagent.config import AgentConfig
from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.errors import AuthenticationError, ConfigurationError
from nbagent.providers import OpenSourceProvider, create_provider, provider_names, register_provider, resolve
from nbagent.providers.base import LLMProvider
from nbagent.providers.catalog import CATALOG

HI = [LLMMessage("user", "hi")]
SECRET = "sk-MARKER0123456789"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    monkeypatch.delenv("NBAGENT_MODEL", raising=False)
    monkeypatch.setattr("nbagent.providers.local_servers.SERVERS", ())
    for row in CATALOG.values():
        for name in (*row.key_vars, *row.base_url_vars):
            monkeypatch.delenv(name, raising=False)


class Echo(LLMProvider):
    async def chat(self, messages, functions=None, temperature=None, **kwargs):
        return LLMResponse(messages[-1].content)


def test_named_providers_have_a_default_model_and_address():
    for name in CATALOG.keys() - {"local", "scripted", "replay"}:
        provider = create_provider(name)
        assert provider.provider_name == name
        assert provider.model_name
        assert provider.base_url.startswith("http")
        by_name = create_provider(f"{name}:qwen3:4b")
        assert (by_name.provider_name, by_name.model_name) == (name, "qwen3:4b")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("claud", r"'claud'; did you mean claude\? Known: openai, .*, scripted\. .*'open_source', .*base_url="),
        ("azure:gpt-4o", r"'openai', client=AsyncAzureOpenAI\(.*, model='gpt-4o'\)"),
        ("amazon-bedrock", r"'claude', client=AsyncAnthropicBedrock\("),
        ("vertex_ai/claude-opus-5", r"client=AsyncAnthropicVertex\(.*, model='claude-opus-5'\)"),
        ("vertex:gemini-3.7-flash", "write 'gemini:gemini-3.7-flash'"),
    ],
)
def test_the_error_for_an_unknown_name_has_a_remedy(name, says):
    with pytest.raises(ConfigurationError, match=says):
        create_provider(name)


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


def test_resolve_accepts_any_user_input():
    echo = Echo()
    assert resolve(echo) is echo
    assert resolve("deepseek:deepseek-v4-pro").model_name == "deepseek-v4-pro"
    provider = resolve(AgentConfig(model="m1", api_key=SECRET, base_url="http://localhost:1/v1"))
    assert type(provider) is OpenSourceProvider
    assert (provider.model_name, provider.base_url) == ("m1", "http://localhost:1/v1")
    assert SECRET not in str(vars(provider))  # which variable inspectors show
    assert resolve(AgentConfig(provider="claude", model="claude-opus-5")).provider_name == "claude"
    with pytest.raises(ConfigurationError, match="int"):
        resolve(7)


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
    with pytest.raises(ConfigurationError, match="region: expected 'china', 'international', 'us', .*, got 'mars'"):
        create_provider("qwen", region="mars")
    with pytest.raises(ConfigurationError, match="Pass only one of them"):
        create_provider("qwen", region="us", base_url="http://h")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://gateway/v1")
    elsewhere = pickle.dumps(create_provider("openai"))
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert pickle.loads(elsewhere).base_url == "http://gateway/v1"


@pytest.mark.parametrize(
    ("provider", "key"), [("openai", f"{SECRET}\nX: y"), ("claude", f"{SECRET} x"), ("open_source", f"{SECRET}é")]
)
async def test_keys_that_fit_no_header_are_an_error_that_hides_them(connect, provider, key):
    with pytest.raises(AuthenticationError, match="contains whitespace or non-ASCII") as caught:
        await connect(provider, api_key=key).chat(HI)
    assert SECRET not in f"{caught.value!r} {vars(caught.value)}"


def test_the_factory_imports_little():
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
        ("timeout", float("inf"), "timeout: expected a finite number"),
        ("max_retries", -1, "at least 0, got -1"),
        ("streaming", "no", "streaming: expected True or False, got 'no'"),
        ("model", 5, "model: expected a str or None, got 5"),
        ("region", "us", "region: openai has no regions. Pass base_url"),
        ("base_url", b"http://x", "Pass an address"),
        ("api_key", 12345678, "api_key: expected a string"),
        ("headers", "X-Key: sk-12345678", "headers: expected a dict"),
        ("headers", {"X-Key": "sk-12345678\n"}, "headers['X-Key']: expected one line"),
    ],
)
def test_settings_of_the_wrong_type(setting, value, says):
    with pytest.raises(ConfigurationError, match=re.escape(says)) as caught:
        create_provider("openai", **{"api_key": "k", setting: value})
    assert "12345678" not in str(caught.value)


async def test_options_that_are_not_json():
    agent = Agent(create_provider("claude", api_key="k", model="m1", base_url="http://127.0.0.1:9"))
    with pytest.raises(ConfigurationError, match=r"stop: .*JSON.* set \{'.'\}"):
        await agent.chat("hi", stop={"."})


def test_a_configuration_without_a_provider_uses_the_provider_of_its_model():
    providers = {
        "gpt-4o": "openai",
        "o3-mini": "openai",
        "claude-sonnet-5": "claude",
        "meta-llama/llama-4": "openrouter",
    }
    for model, provider_name in providers.items():
        provider = resolve(AgentConfig(model=model, api_key=SECRET))
        assert (provider.provider_name, provider.model_name) == (provider_name, model)
        at_server = resolve(AgentConfig(model=model, api_key=SECRET, base_url="http://localhost:1/v1"))
        assert at_server.provider_name == "open_source"
    for given in ({"model": "my-model"}, {"api_key": SECRET}):
        with pytest.raises(ConfigurationError, match="provider='openai', or .* base_url="):
            resolve(AgentConfig(**given))

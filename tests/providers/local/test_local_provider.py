"""The real embedded model: loading, streaming, decoding under a schema, stopping, sharing, ending."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap

import httpx
import psutil
import pytest
from support.requests import streamed

from nbagent.core.events import Http, Text
from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.errors import ConfigurationError, LocalModelError
from nbagent.providers import create_provider
from nbagent.providers.local.download import cached
from nbagent.providers.local.provider import ANSWERING, LOADING, PULLING, LocalProvider
from nbagent.providers.local.server import end_unused

pytestmark = pytest.mark.local_model
HELLO = [LLMMessage("user", "Say hello.")]


async def wait_until(condition, seconds=300):
    for _ in range(seconds * 20):
        if await condition():
            return True
        await asyncio.sleep(0.05)
    return False


async def tokens_so_far(provider):
    """How many tokens the model has generated for the current request; None without a request."""
    headers = {"Authorization": f"Bearer {provider._server.secret.get_secret_value()}"}
    async with httpx.AsyncClient(trust_env=False) as client:
        [slot] = (await client.get(f"{provider._server.address}/slots", headers=headers)).json()
    return slot["next_token"][0]["n_decoded"] if slot["is_processing"] else None


async def test_an_answer_streams_and_has_the_server_s_token_counts(embedded):
    items = [item async for item in streamed(embedded, HELLO, max_tokens=20)]
    response = items[-1]
    assert isinstance(response, LLMResponse)
    assert response.content == "".join(item.content for item in items if isinstance(item, Text))
    assert len([item for item in items if isinstance(item, Text)]) > 1
    assert response.usage.input_tokens > 5
    assert 0 < response.usage.output_tokens <= 20


async def test_the_first_request_reports_what_it_is_waiting_for(embedded_server, tmp_path, monkeypatch):
    with monkeypatch.context() as context:
        context.setenv("NBAGENT_CACHE", str(tmp_path))
        assert await anext(LocalProvider().load()) == Http(PULLING)
    provider = LocalProvider(n_ctx=512)  # another context window, so another process
    first, second, *_, last = [item async for item in streamed(provider, HELLO, max_tokens=2)]
    assert (first, second) == (Http(LOADING), Http("waiting for SmolLM2-135M-Instruct"))
    assert isinstance(last, LLMResponse)
    end_unused()
    assert not [word async for word in provider.load()]
    process = provider._server._process
    await provider.aclose()
    assert process.returncode is not None
    assert embedded_server.alive


async def test_two_providers_share_a_process_and_the_second_prompt_reports_its_wait(embedded, embedded_server):
    other = LocalProvider()
    await asyncio.gather(embedded.prepare(), other.prepare())
    assert other._server is embedded._server is embedded_server
    first = streamed(embedded, HELLO, max_tokens=20)
    assert isinstance(await anext(first), Text)
    second, *_ = [item async for item in streamed(other, HELLO, max_tokens=2)]
    assert second == Http(ANSWERING)
    await first.aclose()
    third, *_ = [item async for item in streamed(other, HELLO, max_tokens=2)]
    assert not isinstance(third, Http), "it does not wait"
    await other.aclose()
    assert embedded_server.alive


async def test_decoding_under_a_schema(embedded):
    schema = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]}
    done = await embedded.complete("Italy's capital as JSON: ", schema=schema)
    assert json.loads(done.text)["city"] in ("Oslo", "Rome")
    assert not done.cut_off
    assert done.usage.input_tokens > 3
    assert (await embedded.complete("Count: 1, 2, 3,", max_tokens=5)).cut_off


async def test_cancelling_stops_the_generation(embedded):
    await embedded.prepare()
    task = asyncio.create_task(embedded.complete("Once upon a time", max_tokens=3500))

    async def generating():
        return await tokens_so_far(embedded) is not None

    assert await wait_until(generating)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    made = [0]

    async def idle():
        made.append(await tokens_so_far(embedded))
        return made[-1] is None

    assert await wait_until(idle)
    assert made[-2] < 3500 / 2, "without the cancellation it would go on to the end"
    assert (await embedded.chat(HELLO, max_tokens=3)).content


async def test_requests_without_the_key_are_refused(embedded):
    await embedded.prepare()
    async with httpx.AsyncClient(trust_env=False) as client:
        reply = await client.post(f"{embedded._server.address}/completion", json={"prompt": "x", "n_predict": 1})
    assert reply.status_code == 401
    assert embedded._server.secret.get_secret_value() not in repr(embedded)


async def test_a_dead_process_is_started_again():
    provider = LocalProvider(n_ctx=640)
    await provider.prepare()
    provider._server._process.kill()
    provider._server._process.wait()
    assert await anext(provider.load()) == Http(LOADING)
    assert (await provider.chat(HELLO, max_tokens=3)).content
    await provider.aclose()


async def test_a_model_by_path(tmp_path, embedded_server):
    path = tmp_path / "mine.gguf"
    os.link(cached(), path) if os.stat(cached()).st_dev == os.stat(tmp_path).st_dev else path.symlink_to(cached())
    provider = create_provider("local", model=str(path), n_ctx=512)
    assert provider.model_name == "mine"
    assert not provider.supports_function_calling()  # its template does not support tools
    assert (await provider.chat(HELLO, max_tokens=3)).content
    await provider.aclose()
    template = b"{% for tool in tools %}"
    key = (23).to_bytes(8, "little") + b"tokenizer.chat_template" + (8).to_bytes(4, "little")
    (tmp_path / "tools.gguf").write_bytes(b"GGUF" + key + len(template).to_bytes(8, "little") + template)
    assert LocalProvider(tmp_path / "tools.gguf").supports_function_calling()


async def test_a_broken_file_is_a_readable_error(tmp_path):
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"no model at all" * 100)
    with pytest.raises(ConfigurationError, match=r"broken\.gguf' is not a GGUF file: it starts with b'no model"):
        LocalProvider(path)
    path.write_bytes(b"GGUF, but no model" * 100)
    with pytest.raises(LocalModelError, match=r"can't load broken\.gguf: "):
        await LocalProvider(path).chat(HELLO)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no POSIX signals")
@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        ("raise ImportError('version `GLIBC_2.99 not found')", "ImportError: version `GLIBC_2.99 not found"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "its process was ended by SIGILL"),
    ],
)
async def test_the_error_reports_an_engine_that_does_not_run_here(
    tmp_path, monkeypatch, embedded_server, engine, reason
):
    (tmp_path / "xllamacpp.py").write_text(engine)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(LocalModelError, match=r"this build of llama.cpp does not run on ") as caught:
        await LocalProvider(n_ctx=832).chat(HELLO)
    assert reason in str(caught.value)
    assert "pip install --force-reinstall xllamacpp" in str(caught.value)


def test_the_error_names_a_missing_file():
    with pytest.raises(ConfigurationError, match="'/nowhere/x.gguf', which does not exist"):
        LocalProvider("/nowhere/x.gguf")


LOADED = """
    import asyncio, sys
    from nbagent.providers.local.provider import LocalProvider
    provider = LocalProvider(n_ctx=512)
    asyncio.run(provider.prepare())
    print(provider._server._process.pid, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no POSIX signals")
@pytest.mark.parametrize(("end", "last"), [("exit", ""), ("kill", "sys.stdin.read()")])
async def test_the_process_ends_with_its_kernel(embedded_server, end, last):
    script = textwrap.dedent(LOADED) + last
    kernel = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    pid = int(kernel.stdout.readline())
    if end == "kill":
        assert os.getsid(pid) != os.getsid(kernel.pid)  # the stop button's signal does not reach it
        kernel.send_signal(signal.SIGKILL)
    _, errors = kernel.communicate(timeout=300)
    assert end == "kill" or (kernel.returncode, errors) == (0, b"")

    async def gone():
        running = (each for each in psutil.process_iter(["status"]) if each.info["status"] != psutil.STATUS_ZOMBIE)
        return pid not in [each.pid for each in running]

    assert await wait_until(gone)

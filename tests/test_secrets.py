"""No key is in any file, repr, exception or log, with any provider in the catalog, whatever fails.

A server repeats everything that it receives. Other cases are untrusted certificates, unknown hosts and closed ports.
Everything that is kept is searched for the keys.
"""

import contextlib
import logging
import ssl
import traceback

import pandas as pd
import pytest
import trustme
from support.loopback import Answer, Loopback
from support.secret_forms import (
    ANSWERS,
    ARGUMENT,
    HEADER,
    KEYS,
    PROVIDERS,
    Echo,
    address,
    assert_clean,
    everything,
)

import nbagent
from nbagent import Agent, AgentConfig, Trace, compare_sync, create_provider
from nbagent.errors import NbagentError
from nbagent.providers.catalog import CATALOG
from nbagent.providers.http import retry


@pytest.fixture(autouse=True)
def _keys(monkeypatch, caplog):
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.001)
    for variable, key in KEYS.items():
        monkeypatch.setenv(variable, key)
    caplog.set_level(logging.DEBUG)
    for name in ("nbagent", "httpx2", "httpcore2", "aiohttp", "openai", "anthropic"):
        caplog.set_level(logging.DEBUG, name)


def shown_by(error):
    """Return everything that an exception may show: its texts, its attributes and its traceback."""
    return [repr(error), str(error), repr(vars(error)), "".join(traceback.format_exception(error))]


async def ask(agent, texts, times=1):
    for _ in range(times):
        try:
            await agent.chat("hi")
        except NbagentError as error:
            texts += shown_by(error)


def saved(agent, folder, formats=("sqlite",)):
    """Return the texts of all files that can be written from an agent."""
    agent.save(folder / "talk.json")
    for name in formats:
        agent.trace.save(folder / f"trace.{name}")
    tables = [pd.read_parquet(path).to_csv() for path in folder.rglob("*.parquet") if path.is_file()]
    return tables + [path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file()]


def shown(agent):
    parts = [agent, agent.provider, agent.trace, agent.conversation_history]
    return [*map(repr, parts), everything(agent.trace), agent.trace._repr_html_()]


@contextlib.asynccontextmanager
async def untrusted():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with Loopback(tls=context) as server:
        yield server.url


#: A provider for each format, and how it is given its key.
WAYS = [(name, "environment") for name in ("openai responses", "claude", "gemini")] + [("open_source", "argument")]


@pytest.mark.parametrize(("name", "given"), WAYS)
async def test_no_key_is_shown_or_written(name, given, tmp_path, caplog, capsys):
    provider, wire, options = PROVIDERS[name]
    if given == "argument":
        options = {**options, "api_key": ARGUMENT, "headers": {"X-Corp-Token": HEADER}}
    texts = []
    async with Echo() as server, untrusted() as tls:
        server.answers = [Answer(ANSWERS[wire])]
        agent = Agent(None, trace=Trace(record_http=True))
        agent.trace.stream_to(tmp_path / "stream.sqlite")
        with nbagent.record(tmp_path / "recording.jsonl"):
            agent.provider = create_provider(
                provider, model="m", base_url=address(provider, server.url), max_retries=1, **options
            )
            await ask(agent, texts, times=10)
            answered = agent.conversation_history[-1].content
            sent = [value for request in server.requests for value in request.headers.values()]
            with contextlib.suppress(NbagentError):
                await agent.provider.model_list()
            await agent.provider.aclose()
            for url in (tls, "http://no-such-host.invalid", "http://127.0.0.1:1"):
                agent.provider = create_provider(
                    provider, model="m", base_url=address(provider, url), max_retries=0, **options
                )
                await ask(agent, texts)
                texts.append(repr(agent.provider))
                await agent.provider.aclose()
    assert answered == "Good."
    key = options.get("api_key") or KEYS[CATALOG[provider].key_vars[0]]
    assert any(key in value for value in sent)
    assert set(agent.trace.runs["status"]) == {"ok", "error"}
    assert {"ProviderConnectionError"} <= set(agent.trace.runs["error_type"].dropna())
    files = saved(agent, tmp_path, formats=("sqlite", "jsonl", "parquet") if given == "argument" else ())
    assert len(files) >= (19 if given == "argument" else 3)  # the stream and the recording exist already
    texts += [*shown(agent), *files, caplog.text, *capsys.readouterr()]
    for secret in (key, HEADER) if "headers" in options else (key,):
        assert_clean("\n".join(texts), secret)


def test_no_key_in_a_configuration_or_comparison(caplog):
    config = AgentConfig(model="m", api_key=ARGUMENT, base_url="http://127.0.0.1:1/v1")
    agent = Agent(config)
    agent.provider.max_retries = 0
    result = compare_sync({"it": agent, "no provider": Agent("nobody")}, ["hi"])
    assert result.frame["error"].notna().all()
    shown = [repr(config), repr(result), result._repr_html_(), result.frame.to_csv(), everything(result.trace)]
    for key in (ARGUMENT, *KEYS.values()):
        assert_clean("\n".join([*shown, caplog.text]), key)

"""Fixtures of the provider tests."""

import pytest
from support.loopback import Loopback

from nbagent.providers import create_provider
from nbagent.providers.replay.active import current_recording


@pytest.fixture
async def loopback():
    async with Loopback() as server:
        yield server


@pytest.fixture
async def connect(loopback, monkeypatch):
    """Creates providers that talk to the loopback server and retry quickly, and closes them."""
    monkeypatch.setattr("nbagent.providers.http.retry.FIRST_WAIT_S", 0.001)
    made = []

    def make(provider_name="open_source", **options):
        path = {"claude": "", "minimax": "", "gemini": "/v1beta"}.get(provider_name, "/v1")
        defaults = {"api_key": "test-key", "model": "m1", "base_url": loopback.url + path}
        made.append(create_provider(provider_name, **{**defaults, **options}))
        return made[-1]

    yield make
    for provider in made:
        await provider.aclose()


@pytest.fixture
def path(tmp_path):
    """The file of a recording."""
    yield tmp_path / "run.jsonl"
    assert current_recording() is None, "a test left a recording running"


@pytest.fixture(scope="session")
def embedded_server():
    """The embedded model's process, loaded once for the whole session."""
    from nbagent.providers.local.download import pull
    from nbagent.providers.local.provider import LocalProvider
    from nbagent.providers.local.server import end_unused, shared_server

    keeper = LocalProvider()
    yield shared_server(str(pull(progress=False)), keeper.model_name, keeper.n_ctx, keeper)
    end_unused(all_of_them=True)


@pytest.fixture
async def embedded(embedded_server):
    """A provider of the embedded model, on the session's process."""
    from nbagent.providers.local.provider import LocalProvider

    provider = LocalProvider()
    yield provider
    await provider.aclose()

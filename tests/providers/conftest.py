"""Fixtures of the provider tests."""

import pytest
from loopback import Loopback

from nbagent.providers import create_provider


@pytest.fixture
async def loopback():
    async with Loopback() as server:
        yield server


@pytest.fixture
async def connect(loopback):
    """Makes providers that talk to the loopback server, and closes them."""
    made = []

    def make(vendor="open_source", **options):
        base_url = loopback.url + ("" if vendor in ("claude", "minimax") else "/v1")
        defaults = {"api_key": "test-key", "model": "m1", "base_url": base_url}
        made.append(create_provider(vendor, **{**defaults, **options}))
        return made[-1]

    yield make
    for provider in made:
        await provider.aclose()

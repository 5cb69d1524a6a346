"""Fixtures for maps."""

import pytest

from nbagent.core import admission


@pytest.fixture(autouse=True)
def nothing_was_refused_before(monkeypatch):
    """Reset the rate limits: another test's server on the same port may have demanded an hour's pause."""
    monkeypatch.setattr(admission, "_admissions", {})

"""Fixtures for maps."""

import pytest

from nbagent.core import admission


@pytest.fixture(autouse=True)
def nothing_was_refused_before(monkeypatch):
    """Another test's server may have had the same port, and have asked for a pause of an hour."""
    monkeypatch.setattr(admission, "_admissions", {})

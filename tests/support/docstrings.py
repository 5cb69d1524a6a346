"""A pytest plugin: `--doctest-modules` tries the examples of the package alone, beside tests and notebooks."""

from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

PACKAGE = Path(__file__).parents[2] / "nbagent"


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Keep each file of tests from being imported a second time, for examples that it does not have."""
    collectors = yield
    return [each for each in collectors if file_path.is_relative_to(PACKAGE) or not isinstance(each, DoctestModule)]

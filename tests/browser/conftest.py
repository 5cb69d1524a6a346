"""One JupyterLab for all browser tests. `--screenshots FOLDER` keeps pictures of what they saw."""

from pathlib import Path

import pytest
from support.lab import Lab


def pytest_addoption(parser):
    parser.addoption("--screenshots", metavar="FOLDER", help="keep screenshots of the browser tests here")


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """A JupyterLab whose page each test opens anew with its own notebook."""
    with Lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture
def picture(request):
    """Keeps a screenshot of a locator, or of the page, under a name, if pictures are wanted."""

    def keep(shown, name):
        if folder := request.config.getoption("--screenshots"):
            shown.screenshot(path=Path(folder) / f"{name}.png")

    return keep

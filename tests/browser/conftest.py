"""One JupyterLab for all browser tests. `--screenshots FOLDER` saves screenshots."""

from pathlib import Path

import pytest
from support.lab import Lab

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


def pytest_addoption(parser):
    parser.addoption("--screenshots", metavar="FOLDER", help="keep screenshots of the browser tests here")


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """A JupyterLab in which each test opens its own notebook."""
    with Lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture
def picture(request):
    """Saves a screenshot of a locator or page under a name, with `--screenshots`."""

    def keep(shown, name):
        if folder := request.config.getoption("--screenshots"):
            shown.screenshot(path=Path(folder) / f"{name}.png")

    return keep


@pytest.fixture
def keep(lab, picture):
    """Saves a screenshot of a locator in both themes."""

    def both(shown, name):
        for theme, long in THEMES.items():
            lab.theme(shown.page, long)
            picture(shown, f"{name}-{theme}")

    return both

"""For all tests: how many examples property tests try, fixtures, and where browser tests are collected."""

import atexit
import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers as draws

gc.disable()  # until all is collected: what tests are made of stays
pytest.register_assert_rewrite("support")
pytest_plugins = ["support.docstrings"]

# always the same examples, so that a red run is about the change that it tests
settings.register_profile("quick", max_examples=25, deadline=None, derandomize=True)
settings.register_profile("full", max_examples=100, deadline=None, derandomize=True)
if not os.environ.get("NBAGENT_FUZZ_SECONDS"):
    # hypothesis also tries the constants of whatever modules of ours are loaded by then, which other tests decide
    draws._get_local_constants = lambda: draws._local_constants
settings.load_profile("full" if os.environ.get("NBAGENT_FULL") else "quick")


@pytest.fixture(scope="session")
def providers():
    """All providers, on loopback."""
    from support.property_providers import Providers

    servers = Providers()
    yield servers
    servers.close()


@pytest.fixture
def ctrl_c():
    """Python's own handler of Ctrl-C, also where the tests were started with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Notebooks and other files that start kernels come first: begun last, they would keep one process alone busy."""
    slow = {item.path for item in items if item.get_closest_marker("kernel") or item.path.suffix == ".ipynb"}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """What was collected, a million objects, stays to the end: the garbage collector need not look at it again."""
    gc.freeze()
    gc.enable()
    atexit.register(gc.unfreeze)  # libraries that look for leaks at exit want to see everything freed


def pytest_make_parametrize_id(val: object) -> str | None:
    """Functions and objects by name, without an address: each process that runs tests must name them alike."""
    if val is None or isinstance(val, (str, bytes, int, float, type)):
        return None
    return getattr(val, "__qualname__", type(val).__qualname__) if callable(val) else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Browser tests import Playwright, which a plain `make test` does not install: only `-m browser` looks at them."""
    chosen = config.getoption("markexpr")
    asked = "browser" in chosen and "not browser" not in chosen
    return True if collection_path == Path(__file__).parent / "browser" and not asked else None

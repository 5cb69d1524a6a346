"""A pytest plugin: at the end of a run, a table of the recorded answers that came out as expected, by vendor."""

from collections import Counter

import pytest

from support import recordings

#: Whether the run looks at recorded traffic.
LOOKS = pytest.StashKey[bool]()


def pytest_collection_finish(session):
    """Find out whether it does."""
    session.config.stash[LOOKS] = any("test_recorded_" in item.nodeid for item in session.items)


def pytest_sessionfinish(session):
    """A worker of pytest-xdist passes its counts on."""
    if session.config.stash.get(LOOKS, False) and hasattr(session.config, "workeroutput"):
        counts = [{vendor: dict(row) for vendor, row in table.items()} for table in (recordings.RIGHT, recordings.ALL)]
        session.config.workeroutput["recorded"] = counts


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """The main process adds them up."""
    counts = getattr(node, "workeroutput", {}).get("recorded")
    if counts is not None:
        node.config.stash[LOOKS] = True
        for table, counted in zip((recordings.RIGHT, recordings.ALL), counts, strict=True):
            for vendor, row in counted.items():
                table.setdefault(vendor, Counter()).update(row)


def pytest_terminal_summary(terminalreporter, config):
    """The table, or a note that there were no recordings."""
    if not config.stash.get(LOOKS, False):
        return
    if not recordings.PRESENT:
        terminalreporter.section("recorded traffic: NOT TESTED")
        terminalreporter.line(f"There is none in {recordings.FOLDER}. NBAGENT_WIRE names its folder.")
    elif recordings.ALL:
        terminalreporter.section("recorded traffic")
        terminalreporter.write("\n".join(recordings.table()) + "\n")

"""Fuzz targets: a property is tried with ever new examples until its time is over.

`make test` tries few examples, and `make test-all` three times as many: always the same ones, so that a red run is
about the change that it tests. With NBAGENT_FUZZ_SECONDS, as in `make fuzz`, each target looks for new ones that long;
hypothesis prints what fails and keeps it in `.hypothesis/`. An example that failed once stays: as one of the `known` of
its target, or as a file where that target has its samples.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase

#: Seconds of random examples for each target.
SECONDS = float(os.environ.get("NBAGENT_FUZZ_SECONDS") or 0)
FACTOR = 3 if os.environ.get("NBAGENT_FULL") else 1
#: Where an example stays that failed, to be tried first the next time.
KEPT = Path(__file__).parents[2] / ".hypothesis" / "examples"
#: Values of other kinds than a format has, in the place of its own.
ODD_VALUES = [
    *(None, "", "x", 0, -1, 2.5, float("inf"), float("nan"), 10**30, True, [], {}, ["x"], [None], {"a": 1}, [[]]),
    *("\ud800", "\x00", "9" * 5_000, {"type": []}, [{}], {"": None}),
]


def fuzz(check: Callable[[Any], None], examples: st.SearchStrategy[Any], known: Iterable[Any] = (), count: int = 25):
    """Call `check` with the `known` examples and `count` others, and with others again while there is time."""
    test = given(examples)(check)
    for each in known:
        test = example(each)(test)
    # no explanation of failures: it traces each line, and CPython 3.11 then hung in a process with many threads
    phases = [phase for phase in Phase if phase is not Phase.explain]
    options = {"deadline": None, "suppress_health_check": list(HealthCheck), "phases": phases, "database": None}
    if SECONDS:
        options |= {"database": DirectoryBasedExampleDatabase(KEPT), "print_blob": True}
    test = settings(max_examples=FACTOR * count, derandomize=not SECONDS, **options)(test)
    end = time.monotonic() + SECONDS
    test()
    while time.monotonic() < end:
        test()


def places_in(value: Any, path: tuple[Any, ...] = ()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places_in(item, (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The value with one inner value replaced, or removed if the new one is `...`."""
    if not path:
        return None if new is ... else new
    copy = dict(value) if isinstance(value, dict) else list(value)
    if len(path) == 1 and new is ...:
        del copy[path[0]]
    else:
        copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


def mutations(value: Any) -> st.SearchStrategy[Any]:
    """The JSON value with one inner value replaced or removed."""
    news = st.sampled_from([..., *ODD_VALUES]) | st.text(max_size=20) | st.integers()
    return st.builds(changed, st.just(value), st.sampled_from(list(places_in(value))), news)

"""The values that tools returned, in memory and in the file."""

from collections import OrderedDict
from decimal import Decimal

import numpy as np
import pandas as pd

from nbagent.trace.results import Results

INDEX = pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["k", "n"])
WRITTEN = [
    None, True, 0, -1.5, float("inf"), "", "Ünïcode 🐧 \udcff", b"\x00\xff", [], [1, "a", None, [2.5]],
    {"a": {"b": [1]}}, (1, 2), {1: 2}, {1, 2}, OrderedDict(a=1), Decimal("1.5"), 1j, np.float64(1.5),
    np.arange(6).reshape(2, 3), np.array(["a", "bc"]), np.array("2024-01-01", "datetime64[D]"),
    pd.Series([1.5, None], name="x"), pd.Series(["a", "b"], index=["p", "q"]), pd.Series([1, 2], name=("a", 1)),
    pd.DataFrame({"a": [1, 2], "b": ["x", None]}), pd.DataFrame({"v": range(4)}, index=INDEX), pd.DataFrame(),
    pd.DataFrame({"a": [{1}, {2}]}), pd.DataFrame({"a": [{"b": 1}, {"c": 2}]}),
    pd.DataFrame({"t": pd.date_range("2024", periods=2, tz="Europe/Berlin"), "c": pd.Categorical(["a", "b"])}),
]  # fmt: skip


def spilled(value):
    results = Results()
    results.add("id", value, "the text")
    results.spill()
    assert not results._kept
    return results["id"]


def test_values_are_kept_unchanged():
    for value in WRITTEN:
        back = spilled(value)
        assert type(back) is type(value)
        if isinstance(value, pd.DataFrame):
            pd.testing.assert_frame_equal(back, value)
        elif isinstance(value, pd.Series):
            pd.testing.assert_series_equal(back, value)
        elif isinstance(value, np.ndarray):
            np.testing.assert_array_equal(back, value, strict=True)
        else:
            assert back == value


def test_the_text_of_unpicklable_values_is_kept_with_a_note():
    text = "the text\n[only the text of this function is kept: it can't be pickled]"
    assert spilled(lambda: 1) == text

"""`make fuzz` tries first what failed the last time."""

import pytest
from hypothesis import strategies as st
from support import fuzzing


def test_what_failed_is_tried_first_the_next_time(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzzing, "SECONDS", 0.001)
    monkeypatch.setattr(fuzzing, "KEPT", tmp_path)
    tried = []

    def check(number):
        tried.append(number)
        assert number < 1000

    for _ in range(2):
        tried.clear()
        with pytest.raises(AssertionError):
            fuzzing.fuzz(check, st.integers(0), count=500)
    assert tried[0] >= 1000

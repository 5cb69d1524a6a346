"""`{expression}` in a cell's text."""

import pandas as pd
import pytest
from IPython.core.error import UsageError

from nbagent.notebook.interpolate import interpolate


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("{n} and {n + 1}", "3 and 4"),
        ("{{n}}", "{n}"),
        ("{}", "{}"),
        ("{not python at all}", "{not python at all}"),
        ('{"a": 1}', '{"a": 1}'),
        ("{d['k']}", "v"),
        ("{[x for x in {1, 2}]}", "[1, 2]"),
        ("{ n }", "3"),
        ("{name!r", "{name!r"),
        ("tail {n", "tail {n"),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
        ("a}}b", "a}}b"),
        (r"\frac{1}{2} {...}", r"\frac{1}{2} {...}"),
        ("{{n}} and {n}}}", "{n} and 3}}"),
        ("{\nn}", "{\nn}"),
        ("{word}", "text"),
        ("{ {[1]: 2} } { {[1]} }", "{ {[1]: 2} } { {[1]} }"),
        ("{" + "-" * 5000 + "n}", "{" + "-" * 5000 + "n}"),
        ("json: {'a': {n}}", "json: {'a': 3}"),
    ],
)
def test_expressions(text, expected):
    assert interpolate(text, {"n": 3, "d": {"k": "v"}, "word": "text"}) == expected


def test_a_data_frame_becomes_its_shape_types_and_head():
    text = interpolate("{df}", {"df": pd.DataFrame({"mass": range(100)})})
    assert "100" in text
    assert "mass" in text
    assert "int64" in text
    assert "99" not in text.replace("100", "")


@pytest.mark.parametrize("text", ["{missing}", "{1 / 0}", "{unshown}"])
def test_what_cannot_be_evaluated_or_shown_is_said_before_anything_is_sent(text):
    class Unshown:
        def __repr__(self):
            return str(1 / 0)

    with pytest.raises(UsageError, match=r"missing|ZeroDivisionError"):
        interpolate(text, {"unshown": Unshown()})


def test_a_figure_becomes_an_image_part():
    from matplotlib.figure import Figure

    parts = interpolate("look: {fig} nice?", {"fig": Figure()})
    assert [part["type"] for part in parts] == ["text", "image", "text"]

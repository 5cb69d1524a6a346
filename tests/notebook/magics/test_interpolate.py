"""`{expression}` in a cell's text."""

import datetime as dt

import pandas as pd
import pytest
from IPython.core.error import UsageError

from nbagent.notebook.magics.interpolate import interpolate


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{n} and {n + 1}", "3 and 4"),
        ("{{n}}", "{n}"),
        ("{not python at all}", "{not python at all}"),
        ('{"a": 1}', '{"a": 1}'),
        ("{d['k']}", "v"),
        ("{[x for x in {1, 2}]}", "[1, 2]"),
        ("{name!r", "{name!r"),
        (r"\frac{1}{2} {...}", r"\frac{1}{2} {...}"),
        ("{{n}} and {n}}}", "{n} and 3}}"),
        ("json: {'a': {n}}", "json: {'a': 3}"),
    ],
)
def test_expressions(text, expected):
    assert interpolate(text, {"n": 3, "d": {"k": "v"}, "word": "text"}) == expected


VALUES = {"x": 3.14159, "n": 3, "big": 1234567, "word": "text", "d": {"k": 2.5}, "day": dt.date(2026, 11, 22)}


@pytest.mark.parametrize(
    "field",
    [
        "{x:.1%}", "{x + 1:8.1f}", "{n:03d}", "{big:,}", "{word:*^10}", "{x!s:.3}", "{word!a:>9}", "{d['k']:.2f}",
        "{day:%d %B %Y}",
    ],
)  # fmt: skip
def test_formats_and_conversions_are_those_of_f_strings(field):
    assert interpolate(f"a {field} b", VALUES) == "a " + eval("f" + repr(field), dict(VALUES)) + " b"


@pytest.mark.parametrize(
    "text",
    [
        r"\ref{fig:plot} \cite{smith:2020} \label{eq:1}", r"\{x: x>0\} {x:x>0}", '{"a":1} {"n": {"b":2}}', "{n: 2}",
        "{n:2,x:3}", "{n!}", "{n!q}", "{n=}", "{word:.2f", "{" + "n:" * 50_000 + "}", '{"a":%"1,' * 8_000 + "}",
    ],
)  # fmt: skip
def test_other_colons_and_exclamation_marks_stay(text):
    assert interpolate(text, VALUES) == text


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{word:.2f}", r"^{word:.2f}: ValueError: Unknown format code 'f'.*nothing was sent"),
        ("{missing:.2f}", "^{missing:.2f}: NameError"),
        ("{d:1}", "^{d:1}: TypeError: unsupported format string.*write {{ for a brace"),
    ],
)
def test_a_format_that_fails_is_named(text, error):
    with pytest.raises(UsageError, match=error):
        interpolate(text, VALUES)


def test_a_data_frame_becomes_its_shape_types_and_head():
    text = interpolate("{df}", {"df": pd.DataFrame({"mass": range(100)})})
    assert [part in text for part in ("100", "mass", "int64", "99")] == [True, True, True, False]


@pytest.mark.parametrize("text", ["{missing}", "{1 / 0}", "{unshown}"])
def test_an_expression_that_fails_raises_before_anything_is_sent(text):
    class Unshown:
        def __repr__(self):
            return str(1 / 0)

    with pytest.raises(UsageError, match=r"missing|ZeroDivisionError"):
        interpolate(text, {"unshown": Unshown()})


def test_a_figure_becomes_an_image_part():
    from matplotlib.figure import Figure

    parts = interpolate("look: {fig} nice?", {"fig": Figure()})
    assert [part["type"] for part in parts] == ["text", "image", "text"]

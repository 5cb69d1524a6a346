"""`{expression}` in a cell's text."""

import datetime as dt
import time

import pandas as pd
import pytest
from IPython.core.error import UsageError

from nbagent.notebook.magics.interpolate import interpolate


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
        ("{" + "-" * 50_000 + "n}", "{" + "-" * 50_000 + "n}"),
        ("json: {'a': {n}}", "json: {'a': 3}"),
    ],
)
def test_expressions(text, expected):
    assert interpolate(text, {"n": 3, "d": {"k": "v"}, "word": "text"}) == expected


VALUES = {"x": 3.14159, "n": 3, "big": 1234567, "word": "text", "d": {"k": 2.5}, "day": dt.date(2026, 11, 22)}


@pytest.mark.parametrize(
    "field",
    [
        "{x:.2f}", "{x:.1%}", "{x:e}", "{x + 1:8.1f}", "{n:03d}", "{n:x}", "{n:+d}", "{big:,}", "{big:_}", "{word:>8}",
        "{word:*^10}", "{word!r}", "{x!s:.3}", "{word!a:>9}", "{d['k']:.2f}", "{d!r}", "{day:%d %B %Y}", "{day.year:5}",
    ],
)  # fmt: skip
def test_formats_and_conversions_are_those_of_f_strings(field):
    assert interpolate(f"a {field} b", VALUES) == "a " + eval("f" + repr(field), dict(VALUES)) + " b"


@pytest.mark.parametrize(
    "text",
    [
        r"\ref{fig:plot} \cite{smith:2020} \label{eq:1}", r"\{x: x>0\} {x:x>0}", '{"a":1} {"n": {"b":2}}', "{n: 2}",
        "{n:2,x:3}", "{1:2}", "{n!}", "{n!q}", "{n:}", "{n=}", "{word:.2f", "{" + "n:" * 50_000 + "}",
    ],
)  # fmt: skip
def test_other_colons_and_exclamation_marks_stay(text):
    assert interpolate(text, VALUES) == text


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{word:.2f}", r"^{word:.2f}: ValueError: Unknown format code 'f'.*nothing was sent"),
        ("{missing:.2f}", "^{missing:.2f}: NameError"),
        ("{missing!r}", "^{missing!r}: NameError"),
        ("{d:1}", "^{d:1}: TypeError: unsupported format string.*write {{ for a brace"),
        ("{max(missing):d}", r"^{max\(missing\):d}: NameError"),
    ],
)
def test_a_format_that_fails_is_named(text, error):
    with pytest.raises(UsageError, match=error):
        interpolate(text, VALUES)


def test_text_that_resembles_formats_is_read_quickly():
    text = '{"a":%"1,' * 8_000 + "}"
    begun = time.process_time()
    assert interpolate(text, {}) == text
    assert time.process_time() - begun < 6  # seconds; it takes less than one


def test_a_data_frame_becomes_its_shape_types_and_head():
    text = interpolate("{df}", {"df": pd.DataFrame({"mass": range(100)})})
    assert "100" in text
    assert "mass" in text
    assert "int64" in text
    assert "99" not in text.replace("100", "")


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

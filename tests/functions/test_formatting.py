"""Formatting results and errors for the model."""

import base64
import datetime as dt
import decimal
import enum
import io
import json
from dataclasses import dataclass
from pathlib import Path

import IPython.display
import matplotlib as mpl
import matplotlib.figure
import numpy as np
import pandas as pd
import PIL.Image
import pydantic
import pytest

from nbagent.errors import ConfigurationError
from nbagent.functions.formatting import NO_VALUE, error_summary, format_error, format_result, truncate_result

mpl.use("Agg")


@dataclass
class Point:
    x: int
    when: dt.date


class Model(pydantic.BaseModel):
    name: str
    path: Path


class Color(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, NO_VALUE),
        ("", ""),
        (5, "5"),
        (np.bool_(True), "True"),
        ({"城市": "北京", "n": None}, '{"城市": "北京", "n": null}'),
        ({"a": np.int64(1), "b": np.array([1.5]), "c": np.float32(0.5)}, '{"a": 1, "b": [1.5], "c": 0.5}'),
        ({("Adelie", "f"): 1, 5: 2, dt.date(2026, 1, 2): 3}, '{"Adelie, f": 1, "5": 2, "2026-01-02": 3}'),
        ([dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC), Path("/x"), {1}], '["2026-01-02T03:00:00+00:00", "/x", [1]]'),
        (
            [decimal.Decimal("1.5"), pd.Timestamp("2026-01-02"), pd.NA, pd.NaT],
            '["1.5", "2026-01-02T00:00:00", null, null]',
        ),
        (Point(1, dt.date(2026, 1, 2)), '{"x": 1, "when": "2026-01-02"}'),
        (Model(name="ä", path="/x"), '{"name": "ä", "path": "/x"}'),
        ([-np.inf, {"x": float("inf")}], '[null, {"x": null}]'),
        ({"data": b"abc"}, '{"data": "<bytes of 3 bytes>"}'),
        (Color.RED, "red"),
        (pd.Series([1, 2], name="n"), "Series: 2 rows, dtype int64\n0    1\n1    2"),
        (np.array([{"a": 1}, None], dtype=object), '[{"a": 1}, null]'),
        (np.sin, "<ufunc 'sin'>"),
    ],
    ids=repr,
)
def test_values(value, text):
    assert format_result(value) == text


def test_a_frame_becomes_its_shape_dtypes_and_head():
    frame = pd.DataFrame({"species": ["Adelie", "Gentoo"] * 20, "mass": range(40)})
    assert format_result(frame) == (
        "DataFrame: 40 rows x 2 columns\n"
        f"dtypes: species: {frame.dtypes['species']}, mass: int64\n"
        "first 10 rows:\n" + frame.head(10).to_string()
    )
    small = frame.head(2)
    assert format_result(small).endswith(str(small))
    assert "Adelie" in format_result({"frame": small})


def test_big_values_are_bounded():
    wide = format_result(pd.DataFrame(np.zeros((1000, 2000)), columns=[f"column_{n}" for n in range(2000)]))
    assert "1000 rows x 2000 columns" in wide
    assert "… and 1970 more" in wide
    assert len(wide) < 20_000
    assert len(format_result(pd.DataFrame({"text": ["x" * 100_000] * 3}))) < 1000
    assert format_result(np.zeros((500, 500))).startswith("ndarray of shape (500, 500), dtype float64\n[[0. 0.")
    numbers = json.loads(format_result(list(range(50_000))))
    assert (len(numbers), numbers[-1]) == (10_001, "… and 40000 more")
    assert len(format_result([[["x" * 1000] * 10_000] * 10_000] * 10_000)) < 1_200_000, "all levels together"


def png_size(part):
    assert part["type"] == "image"
    assert part["media_type"] == "image/png"
    return PIL.Image.open(io.BytesIO(base64.b64decode(part["data"]))).size


def figure(*size):
    made = matplotlib.figure.Figure(figsize=size)
    made.subplots().plot([1, 2])
    return made


def test_figures_axes_and_images_become_image_parts():
    width, height = png_size(*format_result(figure(4, 3)))
    assert 300 < width < 400
    assert png_size(*format_result(figure(4, 3).axes[0])) == (width, height)
    assert max(png_size(*format_result(figure(100, 5)))) <= 1568
    image = PIL.Image.new("CMYK", (4000, 1000))
    assert png_size(*format_result(image)) == (1568, 392)
    assert image.size == (4000, 1000)


def test_images_in_lists_and_dicts():
    plot, photo = figure(1, 1), PIL.Image.new("RGB", (5, 4))
    assert [part["type"] for part in format_result(["Here:", plot, {"n": 1}])] == ["text", "image", "text"]
    text, *images = format_result({"plot": plot, "n": 3, "photo": photo})
    assert text["text"] == '{"plot": "<image 1>", "n": 3, "photo": "<image 2>"}'
    assert images == [*format_result(plot), *format_result(photo)]


def test_display_objects_are_unwrapped():
    file = io.BytesIO()
    PIL.Image.new("RGB", (6, 2)).save(file, format="png")
    for image in (file.getvalue(), IPython.display.Image(file.getvalue())):
        assert png_size(*format_result(image)) == (6, 2)
    assert format_result(IPython.display.HTML("<b>five</b>")) == "<b>five</b>"
    assert format_result([IPython.display.Markdown("# five")]) == '["# five"]'
    table = pd.DataFrame({"a": [1]})
    assert format_result(table.style) == format_result(table)


def test_message_parts_pass_through():
    parts = [{"type": "text", "text": "a"}, {"type": "image", "media_type": "image/gif", "data": "R0lGODlh"}]
    assert format_result(parts) == parts
    # a provider would refuse each later request
    with pytest.raises(ConfigurationError, match="not in a format that models accept"):
        format_result([{"type": "image", "media_type": "image/png", "data": "eA=="}])


def test_truncate_result():
    assert truncate_result("abc", 3) == ("abc", 3, False)
    short, chars, cut = truncate_result("a" * 5000 + "z" * 5000, 1000)
    assert (chars, cut) == (10_000, True)
    assert len(short) <= 1000
    assert (short[:3], short[-3:]) == ("aaa", "zzz")
    assert "of 10000 characters are omitted" in short


def test_truncation_leaves_images_whole():
    image = {"type": "image", "media_type": "image/png", "data": "x" * 5000}
    parts, chars, cut = truncate_result([{"type": "text", "text": "a" * 5000}, image], 1000)
    assert (chars, cut) == (5000, True)
    assert parts[1] == image
    assert len(parts[0]["text"]) <= 1000


def test_an_error_shows_no_files_or_lines_of_the_user():
    for code in ("1 / 0", "import json; json.loads('{')", "eval('secret =')"):
        with pytest.raises(Exception) as raised:  # noqa: PT011  each has its own type
            exec(compile(code, "/home/ada/secret_plans.py", "exec"))
        text = format_error(raised.value)
        assert text == f"Error: {error_summary(raised.value)}"
        assert not set(text.replace("(", " ").split()) & {"Traceback", "File", "secret_plans.py,", "secret"}
        assert "\n" not in text

"""How results and errors are written for the model."""

import asyncio
import base64
import datetime as dt
import decimal
import enum
import io
import json
import uuid
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


class Color(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    when: dt.date


class Model(pydantic.BaseModel):
    name: str
    path: Path


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, NO_VALUE),
        ("", ""),
        (5, "5"),
        (True, "True"),
        (np.int64(5), "5"),
        (np.bool_(True), "True"),
        ({"城市": "北京", "n": None}, '{"城市": "北京", "n": null}'),
        ([1, "a", None], '[1, "a", null]'),
        ([], "[]"),
        ({"a": np.int64(1), "b": np.array([1.5]), "c": np.float32(0.5)}, '{"a": 1, "b": [1.5], "c": 0.5}'),
        ({("Adelie", "f"): 1, 5: 2, dt.date(2026, 1, 2): 3}, '{"Adelie, f": 1, "5": 2, "2026-01-02": 3}'),
        ([dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC), Path("/x"), {1}], '["2026-01-02T03:00:00+00:00", "/x", [1]]'),
        ([decimal.Decimal("1.5"), uuid.UUID(int=0), Color.RED], f'["1.5", "{uuid.UUID(int=0)}", "red"]'),
        ([pd.Timestamp("2026-01-02"), pd.NA], '["2026-01-02T00:00:00", "<NA>"]'),
        (Point(1, dt.date(2026, 1, 2)), '{"x": 1, "when": "2026-01-02"}'),
        (Model(name="ä", path="/x"), '{"name": "ä", "path": "/x"}'),
        (b"abc", "<bytes of 3 bytes>"),
        ({"data": b"abc"}, '{"data": "<bytes of 3 bytes>"}'),
        (Color.RED, "red"),
        (ValueError("x"), "x"),
        (int, "<class 'int'>"),
        (np.zeros((2, 2)), "[[0.0, 0.0], [0.0, 0.0]]"),
    ],
    ids=repr,
)
def test_values(value, text):
    assert format_result(value) == text


def test_a_frame_is_its_shape_dtypes_and_head():
    frame = pd.DataFrame({"species": ["Adelie", "Gentoo"] * 20, "mass": range(40)})
    assert format_result(frame) == (
        "DataFrame: 40 rows x 2 columns\n"
        f"dtypes: species: {frame.dtypes['species']}, mass: int64\n"
        "first 10 rows:\n" + frame.head(10).to_string()
    )


def test_a_small_frame_is_shown_whole():
    frame = pd.DataFrame({"mass": [3.5, 4.0]}, index=["Adelie", "Gentoo"])
    assert format_result(frame) == f"DataFrame: 2 rows x 1 columns\ndtypes: mass: float64\n{frame}"
    assert "Adelie" in format_result({"frame": frame})


def test_a_series():
    series = pd.Series([1, 2, 3], name="n")
    assert format_result(series) == f"Series: 3 rows, dtype int64\n{series.to_string()}"


def test_big_values_are_bounded():
    wide = format_result(pd.DataFrame(np.zeros((1000, 2000)), columns=[f"column_{n}" for n in range(2000)]))
    assert "1000 rows x 2000 columns" in wide
    assert "… and 1970 more" in wide
    assert len(wide) < 20_000
    long_cells = format_result(pd.DataFrame({"text": ["x" * 100_000] * 3}))
    assert len(long_cells) < 1000
    assert format_result(np.zeros((500, 500))).startswith("ndarray of shape (500, 500), dtype float64\n[[0. 0.")
    numbers = json.loads(format_result(list(range(50_000))))
    assert len(numbers) == 10_001
    assert numbers[-1] == "… and 40000 more"
    assert len(json.loads(format_result(dict.fromkeys(range(50_000))))) == 10_001
    assert len(format_result([[["x" * 1000] * 10_000] * 10_000] * 10_000)) < 1_200_000, "all levels together"
    assert format_result([10**10_000]) == '["<int of 33220 bits>"]'


def test_a_list_that_contains_itself():
    endless = []
    endless.append(endless)
    assert format_result(endless).strip("[]") == '"…"'


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
    assert png_size(*format_result(PIL.Image.new("RGB", (20, 10)))) == (20, 10)
    assert png_size(*format_result(PIL.Image.new("CMYK", (20, 10)))) == (20, 10)


def test_large_images_are_scaled_down_and_the_original_is_not():
    image = PIL.Image.new("RGB", (4000, 1000))
    assert png_size(*format_result(image)) == (1568, 392)
    assert image.size == (4000, 1000)
    assert max(png_size(*format_result(figure(100, 5)))) <= 1568


def test_a_list_with_an_image_keeps_its_order():
    parts = format_result(["Here:", figure(1, 1), {"n": 1}])
    assert [part["type"] for part in parts] == ["text", "image", "text"]
    assert parts[2]["text"] == '{"n": 1}'


def test_axes_are_shown_by_their_figure_once():
    whole = matplotlib.figure.Figure(figsize=(2, 2))
    grid, other = whole.subplots(2, 2), figure(1, 1)
    assert format_result(grid) == format_result(whole)
    assert format_result([*grid.ravel(), other]) == [*format_result(whole), *format_result(other)]
    assert format_result(np.array([{"a": 1}, None], dtype=object)) == '[{"a": 1}, null]'
    assert format_result(np.sin) == "<ufunc 'sin'>"


def test_a_dict_with_images_numbers_them():
    plot, photo = figure(1, 1), PIL.Image.new("RGB", (5, 4))
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
    # a vendor would refuse each later request
    with pytest.raises(ConfigurationError, match="not in a format that models accept"):
        format_result([{"type": "image", "media_type": "image/png", "data": "eA=="}])
    assert format_result([{"type": "text", "text": "a", "more": 1}]) == '[{"type": "text", "text": "a", "more": 1}]'


def test_truncate_result():
    assert truncate_result("abc", 3) == ("abc", 3, False)
    text = "a" * 5000 + "z" * 5000
    short, chars, cut = truncate_result(text, 1000)
    assert (chars, cut) == (10_000, True)
    assert len(short) <= 1000
    assert short.startswith("aaa")
    assert short.endswith("zzz")
    assert "of 10000 characters are left out" in short


def test_truncation_leaves_images_whole():
    image = {"type": "image", "media_type": "image/png", "data": "x" * 5000}
    parts, chars, cut = truncate_result(
        [{"type": "text", "text": "a" * 5000}, image, {"type": "text", "text": "b"}], 1000
    )
    assert (chars, cut) == (5001, True)
    assert parts[1] == image
    assert len(parts[0]["text"]) <= 1000
    assert truncate_result([image], 10) == ([image], 0, False)


def test_an_error_shows_only_the_lines_of_user_code():
    def inner():
        return json.loads("{")

    def outer():
        return inner()

    with pytest.raises(ValueError) as raised:  # noqa: PT011
        outer()
    text = format_error(raised.value, with_lines=True)
    first, *lines = text.splitlines()
    assert first == "Error: json.decoder.JSONDecodeError: " + str(raised.value)
    assert lines[0] == "Traceback (innermost last):"
    assert [line.rpartition(", in ")[2] for line in lines[2:]] == [
        "outer: return inner()",
        'inner: return json.loads("{")',
    ]
    assert all(line.startswith("  test_formatting.py, line ") for line in lines[1:])
    assert "json/" not in text


def test_an_error_without_a_traceback():
    assert format_error(ValueError("bad")) == "Error: ValueError: bad"
    assert format_error(KeyError("bad")) == "Error: KeyError: 'bad'"


def test_an_error_names_no_file_and_no_line_of_the_users():
    for code in ("1 / 0", "import json; json.loads('{')", "eval('secret =')"):
        with pytest.raises(Exception) as raised:  # noqa: PT011  each has its own type
            exec(compile(code, "/home/ada/secret_plans.py", "exec"))
        text = format_error(raised.value)
        assert text == f"Error: {error_summary(raised.value)}"
        assert not set(text.replace("(", " ").split()) & {"Traceback", "File", "secret_plans.py,", "secret"}
        assert "\n" not in text


def test_an_error_whose_str_fails():
    class BrokenError(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    assert format_error(BrokenError()).endswith("BrokenError: <exception str() failed>")


async def test_a_group_of_errors_names_each():
    async def ask(city):
        raise ValueError(f"no such city: {city}")

    async def ask_for_both():
        async with asyncio.TaskGroup() as group:
            for city in ("Atlantis", "Bielefeld"):
                group.create_task(ask(city))

    with pytest.raises(ExceptionGroup) as raised:
        await ask_for_both()
    first, *lines = format_error(raised.value, with_lines=True).splitlines()
    assert first == "Error: ValueError: no such city: Atlantis; ValueError: no such city: Bielefeld"
    assert "in ask: raise ValueError" in lines[-1]

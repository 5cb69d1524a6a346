"""The value of an answer in each form of `--as`, and the error if it does not have that form."""

import math

import pandas as pd
import pytest

from nbagent import AgentResult
from nbagent.errors import ExtractionError
from nbagent.notebook.magics.answer_formats import convert_answer, parse_code, parse_frame

TABLE = """Here it is:

| city | people | share | zip | founded |
|:-----|-------:|------:|-----|---------|
| **Köln** | 1,073,096 | 0.5 | 00501 | 38 BC |
| [Bonn](https://example.org) | 331885 | -1e-3 | 53111 | |
| a \\| b | - | n/a | 1 | `x` |

That is all."""


def test_a_markdown_table_becomes_a_frame():
    frame = parse_frame(TABLE)
    assert list(frame.columns) == ["city", "people", "share", "zip", "founded"]
    assert frame["city"].tolist() == ["Köln", "Bonn", "a | b"]
    assert frame["people"].tolist()[:2] == [1073096, 331885]
    assert math.isnan(frame["people"][2])
    assert frame["share"].tolist()[:2] == [0.5, -0.001]
    assert frame["zip"].tolist() == ["00501", "53111", "1"]
    assert frame["founded"].isna().tolist() == [False, True, False]
    text = pd.Series(dtype="str").dtype  # pandas 2 has no dtype of its own for it
    assert frame.dtypes.to_dict() == {
        "city": text, "people": "float64", "share": "float64", "zip": text, "founded": text,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ("a|b\n-|-\n1|2\nAnd a remark.", [{"a": 1, "b": 2}]),
        ("| a |\n|---|", []),
        ("| id | pi |\n|--|--|\n| 12345678901234567890 | 3.14159265358979312 |", [
            {"id": "12345678901234567890", "pi": pytest.approx(math.pi, rel=1e-15)},
        ]),
        ("|".join("abcdefgh") + "\n" + "-|" * 8 + ("\n1" + "|1" * 7) * 1_500, [dict.fromkeys("abcdefgh", 1)] * 1_500),
        ("| x |\n|---|\n| −5 |\n| +5 |", [{"x": -5}, {"x": 5}]),
        ("Here:\n```markdown\n| a |\n|--|\n| 1 |\n```", [{"a": 1}]),
        ('```json\n[{"a": 1}, {"a": 2}]\n```', [{"a": 1}, {"a": 2}]),
        ('{"rows": [{"a": 1}]}', [{"a": 1}]),
        ('{"a": [1, 2], "b": ["x", "y"]}', [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
    ],
)  # fmt: skip
def test_other_tables(text, records):
    assert parse_frame(text).to_dict("records") == records


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("There is none.", "there is no table in the answer"),
        ("| a | b |\n|--|--|\n| 1 |", "row 1 of the table has 1 cells, but the header has 2"),
        ("| a | a |\n|--|--|\n| 1 | 2 |", "each column of the table needs its own name: | a | a |"),
        ("| a |\n|--|\n| 1 |\n\n| b |\n|--|\n| 1 |", "there are 2 tables in the answer"),
        ("[1, 2]", "not an array of objects"),
        ('{"a": [1, 2], "b": [1]}', "its columns differ in length"),
        ('[{"a": 1}, {"a"', "the JSON breaks off after"),
    ],
)
def test_answers_without_a_table(text, says):
    with pytest.raises(ValueError, match="^") as raised:
        parse_frame(text)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Run this:\n\n```python\nx = 1\n```\n", "x = 1"),
        ("```bash\npip install x\n```\nthen\n```py\nimport x\n```", "import x"),
        ("```\nx = 1\n```", "x = 1"),
        ("```python\na = 1\n```\n\n```python\nb = 2\n```", "a = 1\n\nb = 2"),
        ("x = 1\nprint(x)", "x = 1\nprint(x)"),
    ],
)
def test_code(text, code):
    assert parse_code(text) == code


@pytest.mark.parametrize("text", ["", "Sorry, I can't do that.", "```python\n```"])
def test_answers_without_code(text):
    with pytest.raises(ValueError, match="there is no code block"):
        parse_code(text)


@pytest.mark.parametrize("form", ["json", "code", "df"])
def test_an_incomplete_answer_is_an_error(form):
    reason = "The limit of 9 tokens was reached."
    result = AgentResult("| a |\n|--|\n| 1 |\n\n```python\nx\n```", status="limit", status_reason=reason)
    with pytest.raises(ExtractionError, match=reason) as raised:
        convert_answer(form, result)
    assert (raised.value.partial, raised.value.answer) == (result, result.content)
    assert convert_answer("markdown", result) == convert_answer("text", result) == result.content


def test_a_quoted_result_is_the_tools_own():
    call = {"name": "f", "arguments": {}, "result": '{"Adelie": 3700.7}', "is_error": False}
    result = AgentResult("`f()` gives **Adelie** 3700.7.", [call], metadata={"quoted": True})
    assert convert_answer("json", result) == {"Adelie": 3700.7}
    assert convert_answer("df", result).to_dict("records") == [{"Adelie": 3700.7}]
    assert convert_answer("text", result) == result.content

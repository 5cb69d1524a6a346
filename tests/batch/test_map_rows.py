"""The data that `agent.map` accepts (any index, missing values, images, PDFs), and what it refuses."""

import io

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.figure import Figure
from PIL import Image as Picture
from support.killed import process_of
from support.papers import pdf

from nbagent import Agent, ScriptedProvider
from nbagent.errors import AuthenticationError, ConfigurationError, ServerError


def echo(messages, *_):
    return f"echo {messages[-1].text}"


@pytest.fixture
def agent():
    return Agent(ScriptedProvider(echo))


async def test_answers_keep_any_index(agent):
    levels = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])
    for index in ([1, 1, 1], levels, pd.date_range("2026-01-01", periods=3)):
        data = pd.Series(["x", "y", "x"], index=index, name="question")
        answers = await agent.map(data, "Say {whatever}")
        assert answers.index.equals(data.index)
        assert list(answers["answer"]) == ["echo Say x", "echo Say y", "echo Say x"]


async def test_a_row_without_a_value_is_not_sent(agent):
    data = pd.DataFrame({"text": ["a", None, " ", "b"], "n": [1, 2, 3, float("nan")]})
    answers = await agent.map(data, "{text} {n:.0f}")
    assert list(answers["status"]) == ["ok", "skipped", "skipped", "skipped"]
    assert list(answers["error"])[1:] == [*["The value of text is missing."] * 2, "The value of n is missing."]
    assert len(agent.trace.runs) == 1


async def test_prompts_accept_formats_and_names_with_dots_and_spaces(agent):
    data = pd.DataFrame({"first name": ["Ada"], "address.city": ["Bonn"], 3: [2.5]})
    answers = await agent.map(data, "{first name!r} of {address.city}, {{{3:.2f}}}")
    assert answers["answer"].item() == "echo 'Ada' of Bonn, {2.50}"


async def test_different_values_are_different_prompts_whatever_is_displayed(agent):
    arrays, frames = [np.arange(3000), np.arange(3000)], [pd.DataFrame({"n": range(100)}) for _ in range(2)]
    arrays[1][1500], frames[1].loc[50] = 0, 0
    tables = [pl.DataFrame({"n": [1.5e-12]}), pd.Series([1.5e-12]), pl.DataFrame({"n": [1.25e-12]})]
    values = [
        *arrays,
        *frames,
        *tables,
        {"when": pd.Timestamp("2026-01-02")},
        [0.1, None],
        {"b", "a"},
        np.zeros(20_000),
    ]
    data = pd.DataFrame({"value": values})
    first = await agent.map(data, "{value}")
    with np.printoptions(threshold=5), pd.option_context("display.max_rows", 4, "display.precision", 1):
        again = await agent.map(data, "{value}")
    pd.testing.assert_series_equal(first["answer"], again["answer"])
    assert first["answer"].nunique() == len(values) - 1
    written = ['{"when": "2026-01-02T00:00:00"}', "[0.1, null]", '["a", "b"]']
    assert first["answer"].tolist()[-4:-1] == [f"echo {text}" for text in written]
    assert "too long to be written in full" in first["error"].iloc[-1]
    with pytest.raises(ConfigurationError, match=r"(?s)or DataFrame, got DataFrame .*Pass data.to_pandas\(\)"):
        await agent.map(tables[0])


KEYS = """
import pandas as pd
from nbagent import Agent, ScriptedProvider
agent = Agent(ScriptedProvider(lambda *_: "fine"))
agent.map_sync(pd.Series([{"one", "two", "three", "four"}]), "{x}", checkpoint="c.sqlite")
print(len(agent.provider.requests))
"""


def test_a_row_has_the_same_key_in_each_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = []
    for seed in "123":
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        with process_of("-c", KEYS) as process:
            asked += process.stdout.readlines()
    assert asked == ["1\n", "0\n", "0\n"], "a set is sent once, whatever its order"


async def test_columns_may_contain_images_and_pdfs(tmp_path):
    picture = Picture.new("RGB", (2, 2), "red")
    picture.save(tmp_path / "a.png")
    (tmp_path / "letter.pdf").write_bytes(pdf("Dear Sir"))
    held = io.BytesIO()
    picture.save(held, "PNG")

    def described(messages, *_):
        parts = messages[-1].content
        return parts if isinstance(parts, str) else " ".join(part.get("text", part["type"]) for part in parts)

    agent = Agent(ScriptedProvider(described))
    values = [picture, tmp_path / "a.png", held.getvalue(), Figure(figsize=(1, 1)), Figure(figsize=(2, 1)).subplots()]
    values += [tmp_path / "letter.pdf", tmp_path / "none.png"]
    answers = await agent.map(pd.DataFrame({"file": values}), "What is {file}?")
    assert list(answers["answer"][:5]) == ["What is  image ?"] * 5
    assert answers["answer"][5] == "What is  document ?"
    assert answers["status"][6] == "error"
    assert "can't be read" in answers["error"][6]
    assert len(agent.trace.runs) == 4, "equal pictures are sent once, each figure separately"
    with pytest.raises(ConfigurationError, match="1 rows can't be sent"):
        await agent.map(pd.Series(values), on_error="raise")


@pytest.mark.parametrize(
    ("prompt", "options", "problem"),
    [
        ("{txt}", {}, "no columns named 'txt'; did you mean text?"),
        ("Hello", {}, "a column name in braces"),
        (None, {}, "a DataFrame needs a prompt with column names"),
        ("{text}", {"engine": "dsk"}, "engine: expected None, 'batch' or a distributed.Client"),
        ("{text}", {"budget": "much"}, "budget"),
        ("{text}", {"budget": 1.0}, "the price of .* is unknown"),
        ("{text}", {"temprature": 1}, "did you mean temperature"),
        ("{text}", {"output": 3}, "output"),
        ("{text}", {"explode": "items"}, "explode"),
    ],
)
async def test_invalid_arguments_are_errors_before_anything_is_sent(prompt, options, problem):
    class Unpriced(ScriptedProvider):
        provider_name = "elsewhere"

    agent = Agent(Unpriced(echo))
    with pytest.raises(ConfigurationError, match=problem):
        await agent.map(pd.DataFrame({"text": ["a"], "n": [1]}), prompt, **options)
    assert len(agent.trace.runs) == 0


async def test_a_rows_error_is_kept_or_raised():
    def turn(messages, *_):
        return ServerError("overloaded") if messages[-1].text == "b" else "fine"

    data = pd.Series(["a", "b"])
    agent = Agent(ScriptedProvider(turn))
    answers = await agent.map(data)
    assert list(answers["status"]) == ["ok", "error"]
    assert "overloaded" in answers["error"][1]
    with pytest.raises(ServerError):
        await agent.map(data, on_error="raise")


async def test_an_error_that_affects_all_rows_ends_the_map_and_keeps_the_answers():
    asked = []

    def turn(messages, *_):
        asked.append(messages[-1].text)
        return AuthenticationError("wrong key") if len(asked) == 4 else "fine"

    agent = Agent(ScriptedProvider(turn))
    data = pd.Series(list(map(str, range(1000))))
    with pytest.raises(AuthenticationError) as caught:
        await agent.map(data, concurrency=1)
    assert "3 of 1,000 rows are done, 997 are left" in caught.value.__notes__[0]
    assert list(agent.last_map["status"][:5]) == ["ok", "ok", "ok", "left", "left"]
    answers = await agent.map(data)
    assert set(answers["status"]) == {"ok"}
    assert len(asked) == 1001, "the same call continues with the remaining rows"


def test_the_preview_shows_rows_tokens_and_dollars_and_sends_nothing():
    agent = Agent(ScriptedProvider(echo, price={"input": 1e6, "output": 2e6}), system_prompt="Be brief.")
    data = pd.DataFrame({"text": ["<b>a</b>", "b", None, "c", "d", "d"]})
    preview = agent.map_sync(data, "Hi {text}", preview=True, budget=1.0, max_tokens=10)
    assert (preview.rows, preview.requests, preview.skipped) == (6, 4, 1)
    assert preview.estimate.output_tokens == 40
    assert preview.estimate.cost == pytest.approx(
        preview.estimate.input_tokens + 80, rel=0.05
    )  # estimated from the mean row
    text, page = repr(preview), preview._repr_html_()
    for shown in ("system: Be brief.", "user: Hi <b>a</b>", "user: Hi c", "$1.00 left, not enough"):
        assert shown in text
    assert "<b>a" not in page
    assert len(agent.trace.runs) == 0

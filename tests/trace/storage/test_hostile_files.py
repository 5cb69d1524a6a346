"""Files of traces with odd names, wrong types or no bounds: each is one clear error, soon, and nothing is changed."""

import json
import os
import sqlite3
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Trace, Usage
from nbagent.errors import ConfigurationError
from nbagent.trace.columns import COLUMNS
from nbagent.trace.recorder import TABLES
from nbagent.trace.storage import files as store

NAMES = ("a?b", "a?mode=rwc", "a?mode=memory&cache=shared", "a#b", "a%41b", "a%00", "?", "file:a", "ä b")


@pytest.fixture
async def trace():
    facts = {"usage": Usage(100, 20), "model": "m-1", "thinking": "hm", "usage_raw": {"a": 1}}
    agent = Agent(ScriptedProvider([LLMResponse("", [FunctionCall("f", {"x": 4}, "1")], None, facts), "done"]))
    agent.register_function("f", "Half", lambda x: x / 2)
    result = await agent.chat("Half of 4?", tags=["a"])
    agent.trace.score(result.run_id, "good", 1)
    return agent.trace


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_the_name_of_a_file(tmp_path, name):
    path = tmp_path / f"{name}.sqlite"
    Trace().save(path)
    Trace().save(path)
    Trace.load(path)
    path.write_bytes(b"no database")
    with pytest.raises(ConfigurationError, match="not a saved trace"):
        Trace.load(path)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == b"no database"


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_name_with_any_suffix_is_the_name_of_a_file(tmp_path, suffix):
    path = tmp_path / f"a?mode=rwc#%41{suffix}"
    Trace().save(path)
    Trace.load(path)
    if suffix == ".jsonl":
        Trace().stream_to(path)
    assert os.listdir(tmp_path) == [path.name]


def changed(path, statement):
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(statement)


def test_views_and_computed_columns_of_a_database_are_not_read(trace, tmp_path):
    path = tmp_path / "t.sqlite"
    trace.save(path)
    too_long = "hex(zeroblob(200000000))"  # an error, where it is computed
    changed(path, f"DROP TABLE scores; CREATE TABLE scores (run_id TEXT, rowid TEXT AS ({too_long}))")
    changed(path, "INSERT INTO scores (run_id) VALUES ('r'), ('s')")
    assert [row["run_id"] for row in Trace.load(path).rows("scores")] == ["r", "s"]
    changed(path, "DROP TABLE events; CREATE VIEW events AS SELECT * FROM runs")
    with pytest.raises(ConfigurationError, match=r"t\.sqlite.*no table 'events'"):
        Trace.load(path)


@pytest.mark.parametrize(
    ("limit", "least", "name", "told"),
    [
        ("LONGEST_VALUE", 100_000, "t.sqlite", "too big"),
        ("LONGEST_VALUE", 100_000, "t.jsonl", "more than 100,000 bytes"),
        ("_STEPS", 0, "t.sqlite", "more steps than its size explains"),
        ("MOST_ROWS", 0, "t.parquet", "'runs' has more than 0 rows"),
        ("LARGEST_TABLE", 100_000, "t.parquet", "'runs' takes more than 100,000 bytes"),
    ],
)
async def test_a_file_beyond_a_limit_is_refused_and_not_locked(tmp_path, monkeypatch, limit, least, name, told):
    agent = Agent(ScriptedProvider(["x" * 200_000]))
    await agent.chat("Much?")
    agent.trace.save(tmp_path / name)
    Trace.load(tmp_path / name)
    monkeypatch.setattr(store, "_STEPS_BETWEEN", 1)
    monkeypatch.setattr(store, limit, least)
    with pytest.raises(ConfigurationError, match=rf"{name}.*{told}"):
        Trace.load(tmp_path / name)
    if name == "t.sqlite":
        changed(tmp_path / name, "DELETE FROM runs")


def test_rows_that_take_more_than_their_file_are_refused():
    assert list(store._bounded(iter([("x" * 50, 1), (b"x", None)]), 53, "runs")) == [("x" * 50, 1), (b"x", None)]
    with pytest.raises(ValueError, match="'runs' holds more than the file"):
        list(store._bounded(iter([("x" * 50, 1), (b"x", None)]), 52, "runs"))


def test_nested_values_and_a_few_bytes_that_stand_for_very_many_are_not_read(trace, tmp_path):
    trace.save(tmp_path / "t.parquet")
    path = tmp_path / "t.parquet" / "events.parquet"
    metadata = pq.read_schema(path).metadata
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 2_000, pa.int32()), pa.array(["x" * 2**20]))
    for column, told in ((text, "'events' takes more than"), (pa.array([["x"]]), "content: expected single values")):
        pq.write_table(pa.table({"content": column}).replace_schema_metadata(metadata), path, compression="zstd")
        assert path.stat().st_size < 100_000
        with pytest.raises(ConfigurationError, match=told):
            Trace.load(tmp_path / "t.parquet")


WRONG = (
    None, 7, "x", "[1]", '{"trimmed": 5}', {}, True, 1.5, -1e14, 10**400, -1e308, [[1]],
    "9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+14:00", "[" * 100_000,
)  # fmt: skip


def use(trace):
    for name in (*COLUMNS,):
        getattr(trace, name)
    for view in ("summary", "timeline", "usage", "tools", "transcript"):
        trace.to_text(view)
    trace.args("f")
    trace.summary("tag")
    assert repr(trace)
    assert trace._repr_html_()
    Trace.concat([trace, Trace()])


def lines_of(trace, path):
    trace.save(path)
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def wrong_lines(trace, path):
    """What a file holds if one value in it has another type: of the head, of a line, of a row."""
    lines = lines_of(trace, path)
    firsts = {line.get("table"): number for number, line in enumerate(lines)}  # a line of each table
    for number in firsts.values():
        for wrong in WRONG:
            yield [*lines[:number], wrong, *lines[number + 1 :]]
        for key in lines[number]:
            for wrong in WRONG:
                yield [*lines[:number], {**lines[number], key: wrong}, *lines[number + 1 :]]


def loaded(path, lines):
    """The trace, or what is wrong with the file."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    try:
        return Trace.load(path)
    except ConfigurationError as error:
        return str(error)


@pytest.mark.filterwarnings("error")
def test_wrong_types_in_a_line_are_one_clear_error(trace, tmp_path):
    path = tmp_path / "t.jsonl"
    found = [loaded(path, lines) for lines in wrong_lines(trace, tmp_path / "good.jsonl")]
    refused = [each for each in found if isinstance(each, str)]
    assert len(refused) > 150
    assert all(str(path) in text for text in refused)


@pytest.mark.filterwarnings("error")
def test_wrong_types_in_a_column_are_one_clear_error_and_what_loads_can_be_used(trace, tmp_path):
    path = tmp_path / "t.jsonl"
    head, *lines = lines_of(trace, path)
    samples = {line["table"]: line["row"] for line in lines}
    for table in TABLES:
        refused, fitting = 0, []
        for number, wrong in enumerate(WRONG):
            sample, fits = samples.get(table, {}), {}
            for column in COLUMNS[table]:
                found = loaded(path, [head, {"table": table, "n": 0, "row": sample | {column: wrong}}])
                if isinstance(found, str):
                    assert found.startswith(f"{str(path)!r} is not a saved trace: ")
                    refused += 1
                else:
                    fits[column] = wrong
            fitting.append({"table": table, "n": 100 + number, "row": sample | fits})
        assert refused > 3 * len(COLUMNS[table]), table
        use(loaded(path, [head, *lines, *fitting]))


def test_what_tools_showed_is_a_list_of_texts(trace, tmp_path):
    lines = lines_of(trace, tmp_path / "t.jsonl")
    row = next(line["row"] for line in lines if line.get("table") == "tool_calls")
    row["outputs"] = '[{"stream": "stdout", "text": "x"}]'
    assert not isinstance(loaded(tmp_path / "t.jsonl", lines), str)
    for outputs in ("x", '"x"', "{}", "[1]", '[{"text": 1}]', '[{"image/png": {}}]', "[" * 500):
        row["outputs"] = outputs
        assert "tool_calls.outputs: expected" in loaded(tmp_path / "t.jsonl", lines)


@pytest.mark.parametrize("name", ["t.jsonl", "t.sqlite"])
def test_a_pipe_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(ConfigurationError, match=rf"{name}.*not a file"):
        Trace.load(tmp_path / name)
    if name == "t.jsonl":
        with pytest.raises(ConfigurationError, match=name):
            Trace().stream_to(tmp_path / name)


@pytest.mark.parametrize("path", [5, None, "a\0b.jsonl", "~nobody-has-this-name/t.jsonl", "a" * 400 + ".jsonl"])
def test_a_path_that_can_not_be_one_is_a_clear_error(path):
    trace = Trace()
    for use_it in (Trace.load, trace.save, trace.save_har, *([trace.stream_to] if path is not None else [])):
        with pytest.raises(ConfigurationError):
            use_it(path)

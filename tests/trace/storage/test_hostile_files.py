"""Files of traces that somebody made to harm: each is one clear error, soon, and nothing is changed."""

import json
import os
import sqlite3

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


@pytest.mark.parametrize("suffix", [".sqlite", ".jsonl", ".parquet"])
@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_the_name_of_a_file(tmp_path, name, suffix):
    path = tmp_path / f"{name}{suffix}"
    Trace().save(path)
    Trace().save(path)
    Trace.load(path)
    if suffix == ".jsonl":
        Trace().stream_to(path)
    assert os.listdir(tmp_path) == [path.name]
    if suffix == ".sqlite":
        path.write_bytes(b"no database")
        with pytest.raises(ConfigurationError, match="not a saved trace"):
            Trace.load(path)
        assert os.listdir(tmp_path) == [path.name]
        assert path.read_bytes() == b"no database"


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n WHERE {}"


@pytest.mark.parametrize("condition", ["1", "i < 0"])
def test_a_view_is_no_table(trace, tmp_path, condition):
    trace.save(tmp_path / "t.sqlite")
    with sqlite3.connect(tmp_path / "t.sqlite") as database:
        columns = ", ".join(f'NULL AS "{name}"' for name in COLUMNS["events"])
        database.execute("DROP TABLE events")
        database.execute(f"CREATE VIEW events AS {ENDLESS.format(columns, condition)}")
    database.close()
    with pytest.raises(ConfigurationError, match=r"t\.sqlite.*no table 'events'"):
        Trace.load(tmp_path / "t.sqlite")


def test_computed_columns_of_a_database_are_not_read(trace, tmp_path):
    trace.save(tmp_path / "t.sqlite")
    with sqlite3.connect(tmp_path / "t.sqlite") as database:
        database.execute("DROP TABLE scores")
        database.execute("CREATE TABLE scores (run_id TEXT, comment TEXT AS (hex(zeroblob(5000))), ts TEXT)")
        database.executemany("INSERT INTO scores (run_id) VALUES (?)", [("r",)] * 1000)
    database.close()
    assert [row["comment"] for row in Trace.load(tmp_path / "t.sqlite").rows("scores")] == [None] * 1000


def test_a_value_without_bounds_is_not_read(trace, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "LONGEST_VALUE", 2**20)
    trace.save(tmp_path / "t.sqlite")
    with sqlite3.connect(tmp_path / "t.sqlite") as database:
        database.execute("UPDATE runs SET prompt = zeroblob(2000000)")
    database.close()
    with pytest.raises(ConfigurationError, match=r"t\.sqlite.*too big"):
        Trace.load(tmp_path / "t.sqlite")
    trace.save(tmp_path / "t.jsonl")
    with (tmp_path / "t.jsonl").open("ab") as file:
        file.write(bytes(2_000_000))
    with pytest.raises(ConfigurationError, match=r"t\.jsonl.*more than 1,048,576 bytes"):
        Trace.load(tmp_path / "t.jsonl")


def rewritten(path, table, **columns):
    """Write one table of a saved trace again."""
    data = pa.table(columns).replace_schema_metadata(pq.read_schema(path / f"{table}.parquet").metadata)
    pq.write_table(data, path / f"{table}.parquet", compression="zstd")
    return (path / f"{table}.parquet").stat().st_size


@pytest.mark.parametrize("column", ["content", "ts", "event_id"])
def test_a_few_bytes_of_parquet_that_stand_for_very_many_are_not_read(trace, tmp_path, column):
    trace.save(tmp_path / "t.parquet")
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 2_000, pa.int32()), pa.array(["x" * 2**20]))
    assert rewritten(tmp_path / "t.parquet", "events", **{column: text}) < 100_000  # for 2 GB
    before = pa.total_allocated_bytes()
    with pytest.raises(ConfigurationError, match=r"t\.parquet.*'events' takes more than"):
        Trace.load(tmp_path / "t.parquet")
    assert pa.total_allocated_bytes() - before < 2**23


def test_very_many_rows_of_parquet_are_not_read(trace, tmp_path):
    trace.save(tmp_path / "t.parquet")
    assert rewritten(tmp_path / "t.parquet", "events", content=pa.nulls(6_000_000, pa.string())) < 100_000
    with pytest.raises(ConfigurationError, match=r"'events' has more than 5,000,000 rows"):
        Trace.load(tmp_path / "t.parquet")


def test_nested_values_of_parquet_are_not_read(trace, tmp_path):
    trace.save(tmp_path / "t.parquet")
    rewritten(tmp_path / "t.parquet", "events", content=pa.array([["x"]]))
    with pytest.raises(ConfigurationError, match=r"events\.content: expected single values"):
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
@pytest.mark.parametrize("table", TABLES)
def test_wrong_types_in_a_column_are_one_clear_error(trace, tmp_path, table):
    path = tmp_path / "t.jsonl"
    lines = lines_of(trace, path)
    place = next((number for number, line in enumerate(lines) if line.get("table") == table), len(lines))
    row = lines[place]["row"] if place < len(lines) else {}

    def changed(**values):
        return {"table": table, "n": 0, "row": row | values}

    refused = 0
    for wrong in WRONG:
        fitting = {}
        for column in COLUMNS[table]:
            if isinstance(found := loaded(path, [lines[0], changed(**{column: wrong})]), str):
                assert found.startswith(f"{str(path)!r} is not a saved trace: ")
                refused += 1
            else:
                fitting[column] = wrong
        if wrong in ("x", '{"trimmed": 5}', 7, -1e14, "9999-12-31T23:59:59+00:00"):
            use(loaded(path, [*lines[:place], changed(**fitting), *lines[place + 1 :]]))
    assert refused > 3 * len(COLUMNS[table])


@pytest.mark.parametrize("outputs", ["x", '"x"', "{}", "[1]", '[{"text": 1}]', '[{"image/png": {}}]', "[" * 500])
def test_what_tools_showed_is_a_list_of_texts(trace, tmp_path, outputs):
    lines = lines_of(trace, tmp_path / "t.jsonl")
    row = next(line["row"] for line in lines if line.get("table") == "tool_calls")
    row["outputs"] = '[{"stream": "stdout", "text": "x"}]'
    assert not isinstance(loaded(tmp_path / "t.jsonl", lines), str)
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


@pytest.mark.parametrize(
    "path", [5, None, b"t.jsonl", "a\0b.jsonl", "~nobody-has-this-name/t.jsonl", "a" * 400 + ".jsonl"]
)
def test_a_path_that_can_not_be_one_is_a_clear_error(path):
    trace = Trace()
    for use_it in (Trace.load, trace.save, trace.save_har, *([trace.stream_to] if path is not None else [])):
        with pytest.raises(ConfigurationError):
            use_it(path)

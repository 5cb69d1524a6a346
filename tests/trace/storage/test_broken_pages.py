"""SQLite files whose pages point to one another, or whose columns compute: read soon, or one clear error.

The format of the pages: https://www.sqlite.org/fileformat.html
"""

import sqlite3
import struct
import tracemalloc

import pytest

from nbagent import Trace
from nbagent.errors import ConfigurationError

PAGE = 4096


@pytest.fixture
def path(tmp_path):
    Trace().save(tmp_path / "t.sqlite")
    return tmp_path / "t.sqlite"


def change(path, *statements):
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()


def root_of(path, name):
    with sqlite3.connect(path) as database:
        (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", [name]).fetchone()
    database.close()
    return root


def interior(pages, last):
    """A page that says: the rows are in these pages, one after the other, and in the last."""
    cells = [struct.pack(">IB", page, 100) for page in pages]
    starts = [PAGE - 5 * (number + 1) for number in range(len(cells))]
    head = struct.pack(">BHHHBI", 5, 0, len(cells), min(starts), 0, last)
    head += b"".join(struct.pack(">H", start) for start in starts)
    return head + bytes(PAGE - len(head) - 5 * len(cells)) + b"".join(reversed(cells))


def leaf(records):
    """A page of rows."""
    cells = [bytes([len(record), 100]) + record for record in records]
    starts, end = [], PAGE
    for cell in cells:
        end -= len(cell)
        starts.append(end)
    head = struct.pack(">BHHHB", 13, 0, len(cells), end, 0)
    head += b"".join(struct.pack(">H", start) for start in starts)
    return head + bytes(end - len(head)) + b"".join(reversed(cells))


def with_pages(data, pages):
    data += b"".join(pages)
    data[28:32] = struct.pack(">I", len(data) // PAGE)
    return data


def repeat_table(path, table, times):
    """Make the only page of a table count so many times."""
    root, data = root_of(path, table), bytearray(path.read_bytes())
    page, place = slice(PAGE * (root - 1), PAGE * root), len(data) // PAGE + 1
    data = with_pages(data, [data[page]])
    data[page] = interior([place] * times, place)
    path.write_bytes(data)


def repeat_schema(path, levels):
    """Add an index to the list of tables: 80 times, and each level of pages says each page below it 500 times."""
    change(path, "CREATE TABLE a (x TEXT UNIQUE)")
    name, root = b"sqlite_autoindex_a_1", root_of(path, "sqlite_autoindex_a_1")
    record = bytes([6, 13 + 2 * 5, 13 + 2 * len(name), 13 + 2 * 1, 1, 0]) + b"index" + name + b"a" + bytes([root])
    data = bytearray(path.read_bytes())
    added = len(data) // PAGE + 1
    pages = [interior([added + level + 1] * 500, added + level + 1) for level in range(levels)]
    data = with_pages(data, [*pages, leaf([record] * 80)])
    count, start, last = struct.unpack(">HHxI", data[103:112])  # the first page begins with 100 other bytes
    start -= 5
    data[start : start + 5] = struct.pack(">IB", last, 50)
    data[112 + 2 * count : 114 + 2 * count] = struct.pack(">H", start)
    data[103:107], data[108:112] = struct.pack(">HH", count + 1, start), struct.pack(">I", added)
    path.write_bytes(data)


def test_a_list_of_tables_without_end(path):
    saved = path.read_bytes()
    repeat_schema(path, 0)
    assert Trace.load(path).runs.empty
    path.write_bytes(saved)
    repeat_schema(path, 5)
    assert path.stat().st_size < 100_000
    with pytest.raises(ConfigurationError, match=r"t\.sqlite.*more steps than its size explains"):
        Trace.load(path)


def test_rows_that_repeat(path):
    change(path, *["INSERT INTO scores (name) VALUES ('good')"] * 40)
    repeat_table(path, "scores", 2)
    assert len(Trace.load(path).rows("scores")) == 120
    repeat_table(path, "scores", 500)
    repeat_table(path, "scores", 500)
    with pytest.raises(ConfigurationError, match=r"t\.sqlite.*'scores' holds more than the file"):
        Trace.load(path)


def test_large_values_that_repeat(path):
    change(path, f"INSERT INTO scores (name) VALUES ('{'x' * 1_000_000}')")
    repeat_table(path, "scores", 250)
    tracemalloc.start()
    try:
        with pytest.raises(ConfigurationError, match=r"t\.sqlite.*'scores' holds more than the file"):
            Trace.load(path)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["rowid", "_rowid_", "oid"])
def test_a_computed_column_with_the_name_of_the_row_is_not_computed(path, name):
    too_long = "hex(zeroblob(200000000))"  # an error, where it is computed
    change(
        path,
        "DROP TABLE scores",
        f"CREATE TABLE scores (run_id TEXT, {name} TEXT AS ({too_long}))",
        "INSERT INTO scores (run_id) VALUES ('r')",
        "INSERT INTO scores (run_id) VALUES ('s')",
    )
    assert [row["run_id"] for row in Trace.load(path).rows("scores")] == ["r", "s"]


def test_a_file_that_was_refused_is_not_locked(path):
    change(path, *["INSERT INTO scores (name) VALUES ('good')"] * 40)
    repeat_table(path, "scores", 500)
    repeat_table(path, "scores", 500)
    with pytest.raises(ConfigurationError, match="more than the file") as refused:
        Trace.load(path)
    change(path, "DELETE FROM runs")
    assert refused.value.__context__ is not None  # which holds what was being done

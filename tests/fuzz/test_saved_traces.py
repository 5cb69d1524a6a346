"""Saved traces that somebody changed, by values or by bytes: loaded, or refused with one clear error.

Whatever was loaded can be looked at, saved and loaded again.
"""

import asyncio
import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import strategies as st
from support.fuzzing import fuzz, mutations, same_each_time
from support.loopback import Answer, Loopback, said, sse
from support.traces import use

from nbagent import Agent, Trace, create_provider
from nbagent.errors import ConfigurationError, NbagentError
from nbagent.trace.columns import COLUMNS

pytestmark = pytest.mark.fuzz

CALL = {"index": 0, "id": "w1", "function": {"name": "double", "arguments": '{"x": 4}'}}
CALLED = {"choices": [{"index": 0, "delta": {"reasoning": "hm", "tool_calls": [CALL]}, "finish_reason": "tool_calls"}]}


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


async def talk() -> Trace:
    """Two runs: with a tool call, thinking, an error, HTTP exchanges, a score."""
    async with Loopback() as server:
        server.answers = [
            *(Answer(sse(CALLED)), Answer(sse(said("It is 8.", usage={"prompt_tokens": 3, "completion_tokens": 2})))),
            *(Answer(sse(said("Bye."))), Answer(b"{}", 400)),
        ]
        provider = create_provider("open_source", model="m", base_url=server.url, api_key="k", max_retries=0)
        agent = Agent(provider, tools=[double], system_prompt="You help.", trace=Trace(record_http=True))
        result = await agent.chat("Twice 4?", tags=["t"])
        await agent.chat("Bye.")
        with pytest.raises(NbagentError):
            await agent.chat("And?")
        await provider.aclose()
    agent.trace.score(result.run_id, "good", 1, comment="Short.")
    return agent.trace


@pytest.fixture(scope="module")
def saved():
    """The folder with the trace in each format, as a file that is saved and as one that grows."""
    with TemporaryDirectory() as folder:
        trace = asyncio.run(talk())
        path, journal = Path(folder) / "t.jsonl", Path(folder) / "journal.jsonl"
        trace.stream_to(journal)
        trace.stream_to(None)
        trace.save(path)
        for each in (path, journal):
            lines = each.read_text("utf-8").splitlines(keepends=True)
            kept = [line for line in lines if json.loads(line).get("table") != "environment"]  # another machine's
            each.write_text(same_each_time("".join(kept)), "utf-8")
        for name in ("t.sqlite", "t.parquet"):
            Trace.load(path).save(Path(folder) / name)
        yield Path(folder)


def look(path: Path) -> Trace | None:
    """Load the trace in a file, or read why it can't be loaded."""
    try:
        trace = Trace.load(path)
    except ConfigurationError as error:
        str(error).encode()
        return None
    assert str(trace) == repr(trace)
    assert set(map(len, trace.rows("runs"))) <= {len(COLUMNS["runs"])}
    return trace


def spliced(content: bytes) -> st.SearchStrategy[bytes]:
    """The bytes with some replaced, left out, moved or repeated, in up to three places."""
    odd = st.sampled_from([b"\x00", b"\xff" * 4, b'"', b"[" * 3_000, b"9" * 5_000, b"\n", b"{}", b"\\ud800", b"null"])
    places = st.integers(0, len(content))
    new = odd | st.binary(max_size=8) | st.builds(lambda a, b: content[a : a + b], places, st.integers(0, 4_096))
    change = st.tuples(places, new, st.integers(0, 50), st.booleans())

    def spliced_with(changes):
        result = content
        for at, piece, more, keeps_length in changes:
            result = result[:at] + piece + result[at + (len(piece) if keeps_length else more) :]
        return result

    return st.lists(change, min_size=1, max_size=3).map(spliced_with) | places.map(lambda end: content[:end])


def changed_line(content: bytes) -> st.SearchStrategy[bytes]:
    """The lines, with a value in one of them replaced."""
    lines = content.splitlines(keepends=True)

    def with_line(number, new):
        return b"".join([*lines[:number], json.dumps(new).encode() + b"\n", *lines[number + 1 :]])

    return st.integers(0, len(lines) - 1).flatmap(
        lambda number: st.builds(with_line, st.just(number), mutations(json.loads(lines[number])))
    )


def changed_rows(content: bytes, table: str, column: str, change) -> bytes:
    """The lines with `change(row)` in a column of each row of a table, nothing if that is None."""
    lines = list(map(json.loads, content.splitlines()))
    for row in (line["row"] for line in lines if line.get("table") == table):
        row[column] = change(row)
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@pytest.mark.parametrize("name", ["t.jsonl", "journal.jsonl", "t.sqlite", "t.parquet/calls.parquet"])
def test_a_damaged_file_is_loaded_or_refused(saved, tmp_path, name):
    content, path = (saved / name).read_bytes(), tmp_path / name
    if path.parent != tmp_path:
        shutil.copytree(saved / "t.parquet", path.parent)

    def check(damaged):
        path.write_bytes(damaged)
        look(path if path.parent == tmp_path else path.parent)

    damaged = spliced(content)
    if name.endswith(".jsonl"):
        lines = content.splitlines(keepends=True)
        moved = st.lists(st.sampled_from(lines), max_size=2 * len(lines)).map(lambda some: b"".join([lines[0], *some]))
        damaged = damaged | changed_line(content) | moved
    fuzz(check, damaged)


LEFT_OUT = [
    *(("calls", "output_tokens"), ("messages", "role"), ("prompts", "text"), ("prompts", "hash")),
    *(("scores", "run_id"), ("scores", "ts")),
]
OTHER_TEXTS = [
    *(("runs", "metadata", "5"), ("calls", "messages_in", "x"), ("calls", "params", "x"), ("prompts", "text", "[5]")),
    *(("messages", "data", '{"tool_calls": 5}'), ("messages", "data", '{"content": 5}')),
    ("messages", "data", '{"tool_calls": [{"name": 5, "arguments": {}}]}'),
]


def test_what_was_loaded_can_be_used(saved, tmp_path):
    path, again = tmp_path / "loaded.jsonl", tmp_path / "again.jsonl"

    def check(changed):
        path.write_bytes(changed)
        if (trace := look(path)) is not None:
            use(trace, tmp_path)
            trace.save(again)
            assert len(Trace.load(again).rows("runs")) == len(trace.rows("runs"))

    content = (saved / "t.jsonl").read_bytes()
    known = [changed_rows(content, table, column, lambda row: None) for table, column in LEFT_OUT]
    after_itself = '{{"after": "{call_id}", "kept": 1, "added": []}}'
    known.append(changed_rows(content, "calls", "messages_in", lambda row: after_itself.format(**row)))
    known += [changed_rows(content, table, column, lambda row, text=text: text) for table, column, text in OTHER_TEXTS]
    fuzz(check, changed_line(content), known, count=5)

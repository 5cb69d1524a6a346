"""A map's checkpoint: what it keeps, what it refuses, and what happens when the disk is full."""

import dataclasses
import sqlite3
import stat

import pandas as pd
import pytest
from support.mapping import RowServer, questions

from nbagent import Agent, ScriptedProvider, create_provider, read_checkpoint
from nbagent.batch import checkpoint as checkpoints
from nbagent.batch.answer import Answer
from nbagent.batch.checkpoint import Checkpoint
from nbagent.errors import ConfigurationError, StoreError


def counting(answers=None):
    """A provider that records its prompts, and repeats them unless `answers` has an answer."""
    return ScriptedProvider(lambda messages, *_: (answers or {}).get(messages[-1].text, f"echo {messages[-1].text}"))


def test_a_keys_latest_answer_is_returned_as_it_was_added(tmp_path):
    answer = Answer("a", "truncated", "Hi", 3, 4, 0.5, 1.5, None, "run_1")
    text = "half a pair \ud83d, a \0 and \N{GRINNING FACE}"
    with Checkpoint(tmp_path / "map.sqlite", "provider:m1") as kept:
        kept.add(Answer("a", "blocked"))
        kept.add(answer, "Say hi.")
        kept.add(Answer("b", text=text), "why \udfff?" * 100)
        found = kept.answers(["a", "b", "a", "unknown"])
    assert found["a"] == dataclasses.replace(answer, text="Hi")
    assert "half a pair" in found["b"].text
    frame = read_checkpoint(tmp_path / "map.sqlite").set_index("key")
    assert frame.loc["a", ["question", "model", "answer"]].tolist() == ["Say hi.", "provider:m1", "Hi"]
    assert len(frame.loc["b", "question"]) == checkpoints.PROMPT_CHARS
    assert frame.dtypes[["answered", "input_tokens", "cost"]].map(str).tolist() == [
        "datetime64[us, UTC]", "Int64", "Float64"
    ]  # fmt: skip


def test_only_its_owner_can_read_it(tmp_path):
    with Checkpoint(tmp_path / "map.sqlite") as kept:
        kept.add(Answer("a"))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(["map.sqlite", "map.sqlite-wal", "map.sqlite-shm"], 0o600)
    assert [path.name for path in tmp_path.iterdir()] == ["map.sqlite"], "a closed checkpoint is one file"


async def test_failed_rows_are_sent_again_and_saved_rows_are_not(tmp_path):
    path, fails = tmp_path / "map.sqlite", True
    guarded = Agent(counting(), guards=[lambda message: False])

    def answer(messages, *_):
        if fails and messages[-1].text == "row 1":
            raise ValueError("no answer")
        return f"echo {messages[-1].text}"

    provider = ScriptedProvider(answer)
    assert list((await guarded.map(questions(3), checkpoint=path))["status"]) == ["blocked"] * 3
    first = await Agent(provider).map(questions(3), checkpoint=path)
    assert list(first["status"]) == ["ok", "error", "ok"]
    fails = False
    second = await Agent(provider).map(questions(5), checkpoint=path)
    assert list(second["status"]) == ["ok"] * 5
    assert len(provider.requests) == 6
    pd.testing.assert_frame_equal(second.iloc[[0, 2]], first.iloc[[0, 2]])


#: What decides an answer, each changed once: the agent, and the arguments of `map`.
CHANGES = {
    "prompt": ({}, {"prompt": "Is this true? {question}"}),
    "system prompt": ({"system_prompt": "Be brief."}, {}),
    "option": ({}, {"temperature": 0.5}),
    "provider's option": ({"max_tokens": 5}, {}),
    "model": ({"model": "m2"}, {}),
    "address": ({"path": "/v2"}, {}),
    "extra body": ({}, {"extra_body": {"min_p": 0.1}}),
    "tools": ({"tools": [len]}, {"tools": True}),
}


async def test_everything_that_determines_an_answer_changes_the_key(tmp_path):
    def agent(url, model="m1", path="/v1", max_tokens=None, **options):
        own = {} if max_tokens is None else {"max_tokens": max_tokens}
        return Agent(create_provider("open_source", model=model, base_url=f"{url}{path}", **own), **options)

    data, path = questions(2).to_frame(), tmp_path / "map.sqlite"
    async with RowServer() as server:
        await agent(server.url).map(data, checkpoint=path)
        for change, (made, mapped) in CHANGES.items():
            before = len(server.asked)
            for _ in range(2):
                await agent(server.url, **made).map(data, checkpoint=path, **mapped)
                assert len(server.asked) == before + 2, change
        await agent(server.url).map(data, checkpoint=path, tags=["a label decides nothing"])
        assert len(server.asked) == 2 * (1 + len(CHANGES)), "all answers are kept"


def a_database_of_another_program(path):
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE answers (key)")
    database.close()


def a_newer_checkpoint(path):
    Checkpoint(path).close()
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA user_version = {checkpoints.FORMAT.version + 1}")
    database.execute("PRAGMA journal_mode = DELETE")
    database.close()


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (a_database_of_another_program, "is not a file for map answers. Name another file"),
        (a_newer_checkpoint, "has format version 2, expected 1. Name another file, or use"),
        (lambda path: path.mkdir(), "it is not a file. Name another file"),
    ],
)
async def test_a_file_that_is_not_a_checkpoint_stays_unchanged(tmp_path, made, problem):
    path, provider = tmp_path / "map.sqlite", counting()
    made(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(ConfigurationError, match=problem):
        await Agent(provider).map(questions(2), checkpoint=path)
    with pytest.raises(ConfigurationError, match=problem):
        read_checkpoint(path)
    assert provider.requests == [], "nothing is paid for if it can't be kept"
    assert (path.read_bytes() if path.is_file() else None) == before


async def test_a_missing_folder_or_checkpoint_is_an_error(tmp_path):
    with pytest.raises(ConfigurationError, match="No such file or directory. Name another file"):
        await Agent(counting()).map(questions(2), checkpoint=tmp_path / "missing" / "map.sqlite")
    with pytest.raises(ConfigurationError, match="There is no checkpoint .*map.sqlite"):
        read_checkpoint(tmp_path / "map.sqlite")


async def test_a_full_disk_ends_the_map_and_loses_nothing(tmp_path, monkeypatch):
    path, provider = tmp_path / "map.sqlite", counting({"row 7": "long " * 10_000})
    with monkeypatch.context() as full:
        opened = type(checkpoints.FORMAT).open

        def small(self, path):
            database = opened(self, path)
            database.execute("PRAGMA max_page_count = 4")
            return database

        full.setattr(type(checkpoints.FORMAT), "open", small)
        with pytest.raises(StoreError, match="the disk is full. Free some space") as raised:
            await Agent(provider).map(questions(9), checkpoint=path, concurrency=1)
    assert list(raised.value.partial["status"]) == ["ok"] * 8 + ["left"]
    assert len(read_checkpoint(path)) == 7
    frame = await Agent(provider).map(questions(9), checkpoint=path, concurrency=1)
    assert (frame["status"] == "ok").all()
    assert len(provider.requests) == 10, "only the answer that did not fit was sent again"

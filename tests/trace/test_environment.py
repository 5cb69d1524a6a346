"""`Trace.environment`: what each session ran on, collected late, saved, and free of folders and names."""

import json
import platform
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from nbagent import Agent, ScriptedProvider, Trace


def traced():
    agent = Agent(ScriptedProvider(["a"] * 3, model="m"))
    agent.chat_sync("?")
    return agent.trace


def test_it_names_code_versions_and_platform(tmp_path, monkeypatch):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        return subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "x")
    monkeypatch.chdir(tmp_path)
    row = traced().environment.iloc[0]
    assert row["git_commit"] == git("rev-parse", "HEAD").stdout.strip()
    assert row["git_dirty"] == False  # noqa: E712  numpy's
    assert row["python"] == platform.python_version()
    assert {"nbagent", "pandas"} <= set(json.loads(row["packages"]))
    assert row["kernel"]
    assert row["host"]
    (tmp_path / "new.txt").write_text("x")
    assert traced().environment.iloc[0]["git_dirty"] == True  # noqa: E712


def test_a_folder_without_git_has_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    row = traced().environment.iloc[0]
    assert pd.isna(row["git_commit"])


def test_no_run_collects_it(monkeypatch):
    monkeypatch.setattr("nbagent.trace.environment.environment", lambda: pytest.fail("collected in a run"))
    traced()


def test_it_holds_no_folder_and_no_secret(monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-hidden-123")
    text = traced().environment.drop(columns="ts").to_json()
    assert "sk-hidden-123" not in text
    assert str(Path.home()) not in text or str(Path.home()) == "/"
    assert platform.node() not in text or not platform.node()


def test_files_keep_it_and_concat_has_one_row_for_each_session(tmp_path):
    first, second = traced(), traced()
    for number, trace in enumerate((first, second)):
        trace.save(tmp_path / f"{number}.sqlite")
    loaded = [Trace.load(tmp_path / f"{number}.sqlite") for number in (0, 1, 1)]
    assert loaded[0].environment.equals(first.environment)
    assert Trace.concat(loaded).environment["session_id"].tolist() == [first.session_id, second.session_id]


def test_a_journal_has_it_from_the_start(tmp_path):
    trace = Trace()
    trace.stream_to(tmp_path / "t.jsonl")
    assert len(Trace.load(tmp_path / "t.jsonl").environment) == 1


def test_a_trace_that_recorded_nothing_has_none():
    assert Trace().environment.empty

"""`Trace.environment`: collected late, without names of folders and people."""

import json
import platform
import subprocess

from nbagent import Agent, ScriptedProvider


def traced():
    agent = Agent(ScriptedProvider(["a"] * 3, model="m"))
    agent.chat_sync("?")
    return agent.trace


def test_it_names_code_versions_and_platform_but_no_folders_or_secrets(tmp_path, monkeypatch):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        return subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "x")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", "sk-hidden-123")
    row = traced().environment.iloc[0]
    assert row["git_commit"] == git("rev-parse", "HEAD").stdout.strip()
    assert row["git_dirty"] == False  # noqa: E712  numpy's
    assert row["python"] == platform.python_version()
    assert {"jupyter-nbagent", "pytest"} <= set(json.loads(row["packages"]))
    assert row["kernel"]
    assert row["host"]
    text = row.to_json()
    assert not any(hidden in text for hidden in ("sk-hidden-123", str(tmp_path), platform.node() or "sk-"))
    (tmp_path / "new.txt").write_text("x")
    assert traced().environment.iloc[0]["git_dirty"] == True  # noqa: E712

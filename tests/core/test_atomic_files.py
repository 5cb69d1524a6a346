"""Saved files are whole, links and permissions stay, and what a killed process left goes with the next save."""

import os
import stat
import subprocess
import sys

import pytest

from nbagent import Agent, ScriptedProvider, Trace
from nbagent.core.atomic_files import atomic_write, atomic_write_folder


def save_conversation(path):
    Agent(ScriptedProvider(["x"])).save(path)


SAVES = {
    "talk.json": save_conversation,
    "t.jsonl": lambda path: Trace().save(path),
    "t.sqlite": lambda path: Trace().save(path),
    "t.parquet": lambda path: Trace().save(path),
}


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("name", "permissions"), list(zip(SAVES, [0o640, 0o604] * 3, strict=False)))
def test_a_save_through_a_link_writes_its_target_and_keeps_its_permissions(name, permissions, tmp_path):
    real, link = tmp_path / f"real-{name}", tmp_path / name
    SAVES[name](real)
    files = list(real.iterdir()) if real.is_dir() else [real]
    for file in files:
        file.chmod(permissions)
    link.symlink_to(real.name)
    before = [file.stat().st_ino for file in files]
    SAVES[name](link)
    assert link.is_symlink()
    assert {mode(file) for file in files} == {permissions}
    assert before != [file.stat().st_ino for file in files]
    assert sorted(os.listdir(tmp_path)) == sorted([real.name, name])


@pytest.mark.parametrize("name", SAVES)
def test_a_new_file_has_the_permissions_that_the_user_gives_to_new_files(name, tmp_path):
    SAVES[name](tmp_path / name)
    (tmp_path / "mine").touch()
    (tmp_path / "folder").mkdir()
    assert mode(tmp_path / name) == mode(tmp_path / ("folder" if name == "t.parquet" else "mine"))


KILLED = """
import os, signal, sys
from pathlib import Path
from nbagent.core import atomic_files
target = Path(sys.argv[1])
if target.suffix == ".parquet":
    with atomic_files.atomic_write_folder(target) as folder:
        (folder / "a").write_text("half")
        if sys.argv[2] == "moved":
            Path.rename = lambda self, to, rename=Path.rename: rename(self, to) and os.kill(os.getpid(), signal.SIGKILL)
        else:
            os.kill(os.getpid(), signal.SIGKILL)
else:
    with atomic_files.atomic_write(target) as path:
        path.write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("name", ["a [1].json", "t.parquet"])
def test_what_a_killed_process_left_goes_with_the_next_save(name, tmp_path):
    others = [f".{name}.mine.nbagent", f".{name}.swp", f".other-{name}.nbagent"]
    for other in others:  # similar names, without a lock
        (tmp_path / other).mkdir()
    write = atomic_write_folder if name == "t.parquet" else atomic_write
    assert subprocess.run([sys.executable, "-c", KILLED, tmp_path / name, ""], check=False).returncode == -9
    assert len(os.listdir(tmp_path)) == 4
    with write(tmp_path / name), write(tmp_path / name):  # the second one leaves the first, which is at work
        assert len(os.listdir(tmp_path)) == 5
    assert sorted(os.listdir(tmp_path)) == sorted([name, *others])


def test_a_folder_that_was_moved_away_when_its_writer_was_killed_is_not_lost(tmp_path):
    with atomic_write_folder(tmp_path / "t.parquet") as folder:
        (folder / "a").write_text("old")
    assert subprocess.run([sys.executable, "-c", KILLED, tmp_path / "t.parquet", "moved"], check=False).returncode == -9
    assert not (tmp_path / "t.parquet").exists()
    with pytest.raises(OSError, match="full"), atomic_write_folder(tmp_path / "t.parquet"):
        raise OSError("disk full")
    assert (tmp_path / "t.parquet" / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["t.parquet"]

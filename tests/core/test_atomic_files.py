"""Saved files are complete, and links and permissions are kept."""

import os
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from nbagent import Agent, ScriptedProvider, Trace
from nbagent.core.atomic_files import write_text
from nbagent.errors import ConfigurationError


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
def test_saving_through_a_link_writes_its_target_and_keeps_permissions(name, permissions, tmp_path):
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


def test_a_read_only_file_is_not_replaced():
    user = os.geteuid()
    with TemporaryDirectory() as name:  # root can write anywhere, and other users can't open its `tmp_path`
        folder, file = Path(name), Path(name, "talk.json")
        folder.chmod(0o777)
        file.touch(0o444)
        try:
            if user == 0:
                os.seteuid(65_534)
            with pytest.raises(ConfigurationError, match=r"talk.json' can't be written: Permission denied"):
                write_text(file, "other")
        finally:
            os.seteuid(user)
        assert file.read_text() == ""


@pytest.mark.parametrize("name", SAVES)
def test_a_new_file_has_the_users_default_permissions(name, tmp_path):
    SAVES[name](tmp_path / name)
    (tmp_path / "mine").touch()
    (tmp_path / "folder").mkdir()
    assert mode(tmp_path / name) == mode(tmp_path / ("folder" if name == "t.parquet" else "mine"))


def test_a_folder_is_restored_if_it_cannot_be_replaced(tmp_path, monkeypatch):
    SAVES["t.parquet"](tmp_path / "t.parquet")
    files, rename = os.listdir(tmp_path / "t.parquet"), Path.rename

    def fails_second(path, target):
        if path.name == "t.parquet" and target == tmp_path / "t.parquet":
            raise OSError("in the way")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fails_second)
    with pytest.raises(ConfigurationError, match="in the way"):
        SAVES["t.parquet"](tmp_path / "t.parquet")
    assert os.listdir(tmp_path / "t.parquet") == files
    assert os.listdir(tmp_path) == ["t.parquet"]

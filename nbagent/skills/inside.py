"""Reads untrusted files: only regular ones, only inside their folder, and nothing huge."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from nbagent.errors import ToolError

#: Files of one skill, and bytes of a file that is read.
MAX_FILES, MAX_BYTES = 2_000, 2 * 2**20


class RefusedFileError(ToolError):
    """A refused file; the message has its name and the reason."""


class File(NamedTuple):
    """A file of a folder. It changes when the file changes."""

    name: str
    changed_ns: int
    size: int


def checked_inside(folder: Path, name: str) -> Path:
    """The path of a file in a folder, with no link that leads out of it. Raises `RefusedFileError`."""
    path = (folder / name.replace("\\", "/")).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise RefusedFileError(f"{name!r} is outside of the skill's folder. Pass a path as it is listed there.")
    return path


def read_text_inside(folder: Path, name: str) -> str:
    """The text of a file in a folder. Raises `RefusedFileError`."""
    try:
        return read_text(checked_inside(folder, name))
    except (OSError, ValueError, RuntimeError) as error:  # a zero byte, links that lead to themselves
        raise RefusedFileError(f"{name!r} can't be read: {getattr(error, 'strerror', None) or error}.") from None


def read_text(path: Path, limit: int = MAX_BYTES) -> str:
    """The text of a file. Raises ValueError for what is no regular file, too large or not text, and OSError."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):  # a pipe would make us wait
        raise ValueError("it is not a regular file: links, devices, pipes and folders are not read")
    if status.st_size > limit:
        raise ValueError(f"it is larger than {limit / 2**20:g} MB")
    data = path.read_bytes()
    if b"\0" in data[:8192]:
        raise ValueError("binary")
    return data.decode("utf-8-sig", "replace")


def files_inside(folder: Path) -> tuple[File, ...]:
    """The regular files and links in a folder, sorted; more than `MAX_FILES` if there are too many.

    `.git` is omitted. Compiled Python files are not, since they may run instead of the source.
    """
    found: list[File] = []
    for number, (path, folders, names) in enumerate(os.walk(folder)):
        folders[:] = sorted(each for each in folders if each != ".git")
        for full in (Path(path, name) for name in (*names, *folders)):
            with suppress(OSError):
                status = full.lstat()
                if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    found.append(File(full.relative_to(folder).as_posix(), status.st_mtime_ns, status.st_size))
        if len(found) + number > MAX_FILES:
            break
    return tuple(sorted(found))

"""Reads files of a folder that somebody else wrote: regular files inside of it only, and nothing huge."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from nbagent.errors import NbagentError

#: Files of one skill.
MAX_FILES = 2_000


class RefusedFileError(NbagentError):
    """A file that is not read; the message names it and says why."""


class File(NamedTuple):
    """A file of a folder. It changes when the file changes."""

    name: str
    changed_ns: int
    size: int


def checked_inside(folder: Path, name: str) -> Path:
    """The path of a regular file in a folder, with no link that leads out of it. Raises `RefusedFileError`."""
    try:
        path = (folder / name.replace("\\", "/")).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise RefusedFileError(f"{name!r} is outside of the skill's folder. Pass a path as it is listed there.")
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would make us wait
            raise RefusedFileError(f"{name!r} is not a regular file.")
    except (OSError, ValueError, RuntimeError) as error:  # such as a zero byte, or links that lead to themselves
        raise RefusedFileError(f"{name!r} can't be read: {getattr(error, 'strerror', None) or error}.") from None
    return path


def read_text_inside(folder: Path, name: str, limit: int) -> str:
    """The text of a file in a folder. Raises `RefusedFileError`, also for more than `limit` bytes."""
    path = checked_inside(folder, name)
    if (size := path.stat().st_size) > limit:
        raise RefusedFileError(f"{name!r} has {size:,} bytes: files over {limit:,} bytes are not read.")
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise RefusedFileError(f"{name!r} can't be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise RefusedFileError(f"{name!r} is not text in UTF-8.")
    return text


def files_inside(folder: Path) -> tuple[File, ...]:
    """The regular files and links in a folder, sorted; more than `MAX_FILES` if there are too many.

    `.git` is left out; what Python compiled is not, since it may run in place of the source.
    """
    found: list[File] = []
    for number, (path, folders, names) in enumerate(os.walk(folder)):
        folders[:] = sorted(each for each in folders if each != ".git")
        for name in (*names, *folders):
            full = Path(path, name)
            with suppress(OSError):
                status = full.lstat()
                if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    found.append(File(full.relative_to(folder).as_posix(), status.st_mtime_ns, status.st_size))
        if len(found) + number > MAX_FILES:
            break
    return tuple(sorted(found))

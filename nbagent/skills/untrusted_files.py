"""Reads untrusted files: only regular files, inside their folder and of limited size."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from nbagent.errors import ToolError

MAX_BYTES = 2 * 2**20


class RefusedFileError(ToolError):
    """A file was refused. The message contains its name and the reason."""


class File(NamedTuple):
    """A file in a folder: its name, and the modification time and size that show whether it has changed."""

    name: str
    changed_ns: int
    size: int


def checked_inside(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder. Raises `RefusedFileError` if the path or a link leads out of it."""
    path = (folder / name.replace("\\", "/")).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise RefusedFileError(f"{name!r} is outside the skill's folder. Pass a path inside it.")
    return path


def read_text_inside(folder: Path, name: str) -> str:
    """Return the text of a file in a folder. Raises `RefusedFileError` if it can't be read."""
    try:
        return read_text(checked_inside(folder, name))
    except (OSError, ValueError, RuntimeError) as error:  # such as a zero byte in the name, or a loop of links
        raise RefusedFileError(f"{name!r} can't be read: {getattr(error, 'strerror', None) or error}.") from None


def read_text(path: Path, limit: int = MAX_BYTES) -> str:
    """Return the text of a file, with U+FFFD for bytes that are not UTF-8.

    Raises OSError, or ValueError if it is not a regular file, is too large or has a zero byte near its start.
    """
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):  # a pipe would block
        raise ValueError("it is not a regular file: links, devices, pipes and folders are not read")
    if status.st_size > limit:
        raise ValueError(f"it is larger than {limit / 2**20:g} MB")
    data = path.read_bytes()
    if b"\0" in data[:8192]:
        raise ValueError("it is not text: it contains zero bytes")
    return data.decode("utf-8-sig", "replace")


def files_inside(folder: Path) -> tuple[File, ...]:
    """The regular files and links in a folder, sorted.

    `.git` is omitted. Compiled Python files are included, since they may run instead of the source.
    """
    found: list[File] = []
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for full in (Path(path, name) for name in (*names, *folders)):
            with suppress(OSError):
                status = full.lstat()
                if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    found.append(File(full.relative_to(folder).as_posix(), status.st_mtime_ns, status.st_size))
    return tuple(sorted(found))

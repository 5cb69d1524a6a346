"""Reads files of a folder that somebody else wrote: inside of it only, no links, no devices, nothing huge."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path, PurePosixPath, PureWindowsPath

from nbagent.errors import NbagentError

#: Files and folders that are looked at when a folder is listed.
MAX_FILES, MAX_FOLDERS = 200, 2_000
#: Folders that hold nothing to read.
SKIPPED = {".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__"}


class RefusedFileError(NbagentError):
    """A file that is not read; the message names it and says why."""


def read_inside(folder: Path, name: str, limit: int) -> bytes:
    """The content of a file in a folder. Raises `RefusedFileError`, also for more than `limit` bytes.

    `name` is relative to the folder, with `/` between its parts. A link is refused wherever it leads, in any part, and
    so is a file that another process puts in place meanwhile.
    """
    file = _open_inside(folder, name)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise RefusedFileError(f"{name!r} is not a regular file: it is not read.")
        if found.st_size > limit:
            raise RefusedFileError(f"{name!r} has {found.st_size:,} bytes: files over {limit:,} bytes are not read.")
        with os.fdopen(file, "rb", closefd=False) as opened:
            content = opened.read(limit + 1)
        if len(content) > limit:  # it grows
            raise RefusedFileError(f"{name!r} has more than {limit:,} bytes: it is not read.")
        return content
    finally:
        os.close(file)


def read_text_inside(folder: Path, name: str, limit: int) -> str:
    """The same as text. Raises `RefusedFileError` for a file that is not text in UTF-8."""
    content = read_inside(folder, name, limit)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RefusedFileError(
            f"{name!r} is not text in UTF-8: byte {error.start} is not part of a character."
        ) from None
    if "\0" in text:
        raise RefusedFileError(f"{name!r} is not text: it has zero bytes.")
    return text.replace("\r\n", "\n")


def checked_inside(folder: Path, name: str) -> Path:
    """The path of a regular file in a folder, with no link on the way. Raises `RefusedFileError`."""
    opened = _open_inside(folder, name)
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise RefusedFileError(f"{name!r} is not a regular file.")
    finally:
        os.close(opened)
    return folder.joinpath(*parts_inside(name))


def files_inside(folder: Path) -> tuple[list[str], bool]:
    """The names of the regular files in a folder, sorted, and whether all of them are listed. Links are left out."""
    names: list[str] = []
    for number, (path, folders, files) in enumerate(os.walk(folder)):
        if number == MAX_FOLDERS:
            return sorted(names), False
        folders[:] = sorted(each for each in folders if each not in SKIPPED)
        for each in sorted(files):
            full = os.path.join(path, each)
            if os.path.isfile(full) and not os.path.islink(full):
                if len(names) == MAX_FILES:
                    return sorted(names), False
                names.append(Path(full).relative_to(folder).as_posix())
    return sorted(names), True


def parts_inside(name: str) -> tuple[str, ...]:
    """The parts of a relative path. Raises `RefusedFileError` if it could lead out of its folder."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or PureWindowsPath(name).anchor or ".." in path.parts or not path.parts or "\0" in name:
        raise RefusedFileError(f"{name!r} is outside of the skill's folder. Pass a path as it is listed there.")
    return path.parts


def _open_inside(folder: Path, name: str) -> int:
    """A descriptor, opened part by part, so that no part can be a link."""
    parts = parts_inside(name)
    try:
        if os.open not in os.supports_dir_fd:  # Windows
            return _open_checked(folder, parts)
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        for number, part in enumerate(parts, 1):
            kind = os.O_NONBLOCK if number == len(parts) else os.O_DIRECTORY  # a pipe must not make us wait
            outer = opened
            try:
                opened = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | kind, dir_fd=outer)
            finally:
                os.close(outer)
        return opened
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK) or any(_links(folder, parts)):
            raise RefusedFileError(f"{name!r} is a link: links are not followed.") from None
        raise RefusedFileError(f"{name!r} can't be read: {error.strerror or error}.") from None


def _open_checked(folder: Path, parts: tuple[str, ...]) -> int:
    if any(_links(folder, parts)):
        raise OSError(errno.ELOOP, "is a link")
    return os.open(folder.joinpath(*parts), os.O_RDONLY | getattr(os, "O_BINARY", 0))


def _links(folder: Path, parts: tuple[str, ...]) -> list[bool]:
    return [folder.joinpath(*parts[:count]).is_symlink() for count in range(1, len(parts) + 1)]

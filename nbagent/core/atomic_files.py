"""Writes files and folders completely or not at all: old content is replaced when the new one is safe on disk.

New content grows in a hidden folder beside the target. A lock in it tells what a killed process left from what another
process still writes: the next save of the same target removes the former. Links stay links, and what is replaced hands
on its permissions.
"""

from __future__ import annotations

import errno
import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from nbagent.core.file_lock import locked
from nbagent.errors import ConfigurationError

#: In each workshop: the file that its writer keeps locked, and an old folder on its way out.
_LOCK, _OLD = ".nbagent-lock", ".old"


@contextmanager
def atomic_write(target: Path) -> Iterator[Path]:
    """The path of a new, empty file. It replaces the target if the block ends without an error. Raises OSError.

    >>> with atomic_write(Path("result.txt")) as path:                        # doctest: +SKIP
    ...     path.write_text("all of it")
    """
    target = Path(os.path.realpath(target))
    if target.exists() and not target.is_file():
        raise OSError(errno.EEXIST, "it is not a file; name another path", str(target))
    with _workshop(target) as workshop:
        temporary = workshop / target.name
        temporary.touch()
        yield temporary
        _finish(temporary, target)
        temporary.replace(target)


def write_text(path: Path, text: str) -> None:
    """Write a whole file. Raises ConfigurationError if that fails; then the old content is still there."""
    try:
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{str(path)!r} can't be written: {error.strerror or error}") from None


@contextmanager
def atomic_write_folder(target: Path) -> Iterator[Path]:
    """Like `atomic_write`, for a folder. An old one is moved away first, since no single step replaces a folder."""
    target = Path(os.path.realpath(target))
    if target.exists() and not target.is_dir():
        raise OSError(errno.ENOTDIR, "it is not a folder; name another path", str(target))
    with _workshop(target) as workshop:
        temporary = workshop / target.name
        temporary.mkdir()
        yield temporary
        for file in temporary.iterdir():
            _finish(file, target / file.name)
        if target.exists():
            shutil.copymode(target, temporary)
            target.rename(workshop / _OLD)
        temporary.rename(target)


def atomic_create(target: Path, content: bytes) -> None:
    """Write a new file, completely; one that is there, perhaps since a moment ago, stays as it is. Raises OSError."""
    target = Path(os.path.realpath(target))
    with _workshop(target) as workshop, suppress(FileExistsError):
        temporary = workshop / target.name
        temporary.write_bytes(content)
        os.link(temporary, target)


def _finish(temporary: Path, target: Path) -> None:
    """Make a new file safe on disk, with the permissions of the one that it replaces."""
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    if target.exists():
        shutil.copymode(target, temporary)


@contextmanager
def _workshop(target: Path) -> Iterator[Path]:
    """A new folder beside the target, for this block. Removes those that killed processes left."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.nbagent"):
        with suppress(OSError), (left / _LOCK).open("r+b") as file, locked(file, wait=False) as is_left:
            if is_left:
                _remove(left, target)
    with ExitStack() as held:
        workshop = _new_workshop(target, held)
        while not (workshop / _LOCK).exists():  # somebody took it for one that was left, before it was locked
            workshop = _new_workshop(target, held)
        try:
            yield workshop
        finally:
            held.close()
            _remove(workshop, target)


def _new_workshop(target: Path, held: ExitStack) -> Path:
    workshop = target.with_name(f".{target.name}.{token_hex(4)}.nbagent")
    workshop.mkdir(0o700)
    file = held.enter_context((workshop / _LOCK).open("xb"))
    with suppress(OSError):  # where files can't be locked, nothing is ever taken for left
        held.enter_context(locked(file))
    return workshop


def _remove(workshop: Path, target: Path) -> None:
    """Remove a workshop. A folder that was moved away, but not replaced, comes back."""
    with suppress(OSError):
        if not target.exists():
            (workshop / _OLD).rename(target)
    shutil.rmtree(workshop, ignore_errors=True)

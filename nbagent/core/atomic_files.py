"""Writes files and folders completely or not at all. The new content replaces the old once it is safe on disk.

New content is written to a hidden folder next to the target. Symbolic links and permissions are kept.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from nbagent.errors import ConfigurationError


@contextmanager
def atomic_write(target: Path) -> Iterator[Path]:
    """Yield the path of a new, empty file. It replaces the target if the block ends without an error. Raises OSError.

    >>> with atomic_write(Path("result.txt")) as path:                        # doctest: +SKIP
    ...     path.write_text("all of it")
    """
    target = Path(os.path.realpath(target))
    if target.exists() and not target.is_file():
        raise OSError(errno.EEXIST, "it is not a file; name another path", str(target))
    if target.exists():
        target.open("rb+").close()  # a read-only file is not replaced
    with _sibling(target) as temporary:
        temporary.touch()
        yield temporary
        _finish(temporary, target)
        temporary.replace(target)


def write_text(path: Path, text: str) -> None:
    """Write a whole file. Raises ConfigurationError if that fails, and leaves the old content unchanged."""
    try:
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise ConfigurationError(f"{str(path)!r} can't be written: {error.strerror or error}") from None


@contextmanager
def atomic_write_folder(target: Path) -> Iterator[Path]:
    """Write a folder as `atomic_write` writes a file. An existing folder is moved aside first, because it can't be
    overwritten.
    """
    target = Path(os.path.realpath(target))
    if target.exists() and not target.is_dir():
        raise OSError(errno.ENOTDIR, "it is not a folder; name another path", str(target))
    with _sibling(target) as temporary:
        temporary.mkdir()
        yield temporary
        for file in temporary.iterdir():
            _finish(file, target / file.name)
        if not target.exists():
            temporary.rename(target)
            return
        shutil.copymode(target, temporary)
        old = target.rename(temporary.with_name(".old"))
        try:
            temporary.rename(target)
        except BaseException:
            old.rename(target)
            raise


def _finish(temporary: Path, target: Path) -> None:
    """Flush a new file to disk, with the permissions of the file that it replaces."""
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    if target.exists():
        shutil.copymode(target, temporary)


@contextmanager
def _sibling(target: Path) -> Iterator[Path]:
    """A path with the same name in a temporary folder next to the target. It is removed after this block."""
    with TemporaryDirectory(".nbagent", f".{target.name}.", target.parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder, target.name)

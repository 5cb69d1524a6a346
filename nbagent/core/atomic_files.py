"""Writes files and folders completely or not at all: old content is replaced when the new one is safe on disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(target: Path) -> Iterator[Path]:
    """The path of a new, empty file in the same folder. It replaces the target if the block ends without an error.

    >>> with atomic_write(Path("result.txt")) as path:                        # doctest: +SKIP
    ...     path.write_text("all of it")
    """
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_write_folder(target: Path) -> Iterator[Path]:
    """Like `atomic_write`, for a folder. An old one is moved away first, since no single step replaces a folder."""
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    old = temporary.with_name(f"{temporary.name}.old")
    try:
        yield temporary
        for file in temporary.iterdir():
            _sync(file)
        if target.exists():
            target.rename(old)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if not target.exists() and old.exists():
            old.rename(target)
        shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())

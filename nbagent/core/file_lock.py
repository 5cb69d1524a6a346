"""Lets several processes append lines to the same file, one process at a time and only whole lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO


@contextmanager
def locked(file: BinaryIO, *, wait: bool = True) -> Iterator[bool]:
    """Lock the file for a block. With `wait=False`, yields False if another process has locked it. Raises OSError on
    failure.
    """
    if sys.platform == "win32":
        import msvcrt

        file.seek(_FAR)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except PermissionError:
            if wait:
                raise
            yield False
            return
        try:
            yield True
        finally:
            file.seek(_FAR)
            msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)


#: Windows locks bytes and makes them unreadable for others. This byte is beyond the end of any file.
_FAR = 2**40


def cut_torn_line(file: BinaryIO) -> int:
    """Cut off an incomplete last line, which a crash may have left. Returns the file's length. The caller must have
    locked the file.
    """
    end = file.seek(0, 2)
    if end:
        file.seek(end - 1)
        if file.read(1) != b"\n":
            file.seek(0)
            end = file.read(end).rfind(b"\n") + 1
            file.truncate(end)
    return end


def append(file: BinaryIO, content: bytes, end: int) -> None:
    """Append to an unbuffered file. If that fails, raises OSError and leaves the file unchanged."""
    rest = memoryview(content)
    try:
        while rest:
            rest = rest[file.write(rest) :]
    except OSError:
        with suppress(OSError):
            file.truncate(end)
        raise

"""Files of lines that several processes append to: one at a time, whole lines only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO


@contextmanager
def locked(file: BinaryIO, *, wait: bool = True) -> Iterator[bool]:
    """Wait for the file's lock, then keep it for this block.

    With `wait=False` it yields False instead of waiting. Raises OSError where files can't be locked.
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


#: Windows locks bytes and makes them unreadable for others; this one is beyond the end of any file.
_FAR = 2**40


def cut_torn_line(file: BinaryIO) -> int:
    """Cut off an incomplete last line after a crash. Returns the file's length. Call it with the lock."""
    end = file.seek(0, 2)
    if end:
        file.seek(end - 1)
        if file.read(1) != b"\n":
            file.seek(0)
            end = file.read(end).rfind(b"\n") + 1
            file.truncate(end)
    return end


def append(file: BinaryIO, content: bytes, end: int) -> None:
    """Append to an unbuffered file: everything or, with an OSError, nothing."""
    rest = memoryview(content)
    try:
        while rest:
            rest = rest[file.write(rest) :]
    except OSError:
        with suppress(OSError):
            file.truncate(end)
        raise

"""Which folders the skills may read, and how a file there is opened: never through a link, never a device.

That is the folder that Python works in, with all inside it, and those of the variable `NBAGENT_SKILL_FOLDERS`.
"""

import os
import stat
from pathlib import Path

#: Names folders that may be read besides the current one, separated as in PATH.
VARIABLE = "NBAGENT_SKILL_FOLDERS"
#: Not on every platform: a link is not followed, and a pipe does not block.
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def allowed_folders() -> list[Path]:
    """The folders that may be read, without links.

    A variable that is set and empty adds none.
    """
    others = os.environ.get(VARIABLE, "").split(os.pathsep)
    return [Path.cwd().resolve(), *(Path(each).expanduser().resolve() for each in others if each)]


def allowed_path(name: str, path: str) -> Path:
    """The path without links. Raises PermissionError unless it is in one of the folders; `name` is the argument's.

    A relative path starts at the current folder. What is hidden below the folders, such as `.env`, is refused, too.
    """
    if "\0" in path:
        raise PermissionError(f"{name}: expected a path, got {path[:60]!r}.")
    folders = allowed_folders()
    try:
        resolved = (folders[0] / Path(path).expanduser()).resolve()
    except (OSError, RuntimeError):  # links that lead to themselves; the home of a user who does not exist
        resolved = None
    inside = [resolved.relative_to(each) for each in folders if resolved and resolved.is_relative_to(each)]
    if resolved is None or not inside:
        allowed = " or ".join(map(str, folders))
        raise PermissionError(
            f"{name}: expected a path inside {allowed}, got {path[:200]!r}. Only the user can allow other folders, "
            f"by the environment variable {VARIABLE}."
        )
    if all(any(part.startswith(".") for part in each.parts) for each in inside):
        raise PermissionError(f"{name}: expected a path without hidden files and folders, got {path[:200]!r}.")
    return resolved


def read_regular(path: str | Path, limit: int, *, folder: int | None = None) -> bytes:
    """The bytes of a regular file, or of `path` in the open directory `folder`.

    Raises ValueError for links, devices and pipes, and for more than `limit` bytes; OSError if it can't be read.
    """
    before = os.stat(path, dir_fd=folder, follow_symlinks=False)
    _check_regular(before, limit)  # before it is opened: to open a device may already do something
    opened = os.open(path, _FLAGS, dir_fd=folder)
    with os.fdopen(opened, "rb") as file:
        _check_regular(os.fstat(opened), limit)  # it may be another one by now
        data = file.read(limit + 1)  # a file may grow, and those of /proc have no size
    if len(data) > limit:
        raise _too_large(limit)
    return data


def _check_regular(status: os.stat_result, limit: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a regular file: links, devices, pipes and folders are not read")
    if status.st_size > limit:
        raise _too_large(limit)


def _too_large(limit: int) -> ValueError:
    return ValueError(f"it is larger than {limit / 2**20:g} MB")


def is_binary(data: bytes) -> bool:
    """Whether it is not text: a NUL within the first 8 kB."""
    return b"\0" in data[:8192]

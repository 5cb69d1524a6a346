"""Which files the skills may read: regular ones in the folder that Python works in, and in those of
`NBAGENT_SKILL_FOLDERS`. Nothing that is hidden there, such as `.env`.
"""

import os
import stat
from pathlib import Path

#: Names folders that may be read besides the current one, separated as in PATH.
VARIABLE = "NBAGENT_SKILL_FOLDERS"


def allowed_path(name: str, path: str) -> Path:
    """The path without links. Raises PermissionError if it may not be read; `name` is the argument's."""
    others = os.environ.get(VARIABLE, "").split(os.pathsep)
    folders = [Path.cwd().resolve(), *(Path(each).expanduser().resolve() for each in others if each)]
    try:
        resolved = (folders[0] / Path(path).expanduser()).resolve()
    except (OSError, RuntimeError, ValueError) as error:  # such as links that lead to themselves, a zero byte
        raise PermissionError(f"{name}: expected a path, got {path[:200]!r}: {error}.") from None
    inside = [resolved.relative_to(each) for each in folders if resolved.is_relative_to(each)]
    if not inside:
        allowed = " or ".join(map(str, folders))
        raise PermissionError(
            f"{name}: expected a path inside {allowed}, got {path[:200]!r}. Only the user can allow other folders, "
            f"by the environment variable {VARIABLE}."
        )
    if all(any(part.startswith(".") for part in each.parts) for each in inside):
        raise PermissionError(f"{name}: expected a path without hidden files and folders, got {path[:200]!r}.")
    return resolved


def read_text(path: Path, limit: int) -> str:
    """The text of a file. Raises ValueError for what is no regular file, too large or not text, and OSError."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a regular file: links, devices, pipes and folders are not read")
    if status.st_size > limit:
        raise ValueError(f"it is larger than {limit / 2**20:g} MB")
    with path.open("rb") as file:
        data = file.read(limit)
    if b"\0" in data[:8192]:
        raise ValueError("binary")
    return data.decode("utf-8", "replace")

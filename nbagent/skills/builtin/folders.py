"""Checks which files nbagent's own skills may read: those in Python's working folder and in the folders that
`NBAGENT_SKILL_FOLDERS` lists.

Hidden files such as `.env` may not be read.
"""

import os
from pathlib import Path

#: Lists more folders that may be read, separated as in PATH.
VARIABLE = "NBAGENT_SKILL_FOLDERS"


def allowed_path(name: str, path: str) -> Path:
    """Return the path, with links resolved. Raises PermissionError if it may not be read.

    `name` is the name of the argument, for the message.
    """
    more = os.environ.get(VARIABLE, "").split(os.pathsep)
    folders = [Path.cwd().resolve(), *(Path(folder).expanduser().resolve() for folder in more if folder)]
    resolved = (folders[0] / Path(path).expanduser()).resolve()
    inside = [resolved.relative_to(folder) for folder in folders if resolved.is_relative_to(folder)]
    if not inside:
        allowed = " or ".join(map(str, folders))
        raise PermissionError(
            f"{name}: expected a path inside {allowed}, got {path[:200]!r}. Only the user can allow other folders, "
            f"with the environment variable {VARIABLE}."
        )
    if all(any(part.startswith(".") for part in relative.parts) for relative in inside):
        raise PermissionError(f"{name}: expected a path without hidden files and folders, got {path[:200]!r}.")
    return resolved

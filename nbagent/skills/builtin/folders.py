"""The files that skills may read: regular files in Python's working folder and in the folders of
`NBAGENT_SKILL_FOLDERS`, but no hidden ones such as `.env`.
"""

import os
from pathlib import Path

#: Names folders that may be read besides the current one, separated as in PATH.
VARIABLE = "NBAGENT_SKILL_FOLDERS"


def allowed_path(name: str, path: str) -> Path:
    """The path without links. Raises PermissionError if it may not be read; `name` is the argument's."""
    others = os.environ.get(VARIABLE, "").split(os.pathsep)
    folders = [Path.cwd().resolve(), *(Path(each).expanduser().resolve() for each in others if each)]
    resolved = (folders[0] / Path(path).expanduser()).resolve()
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

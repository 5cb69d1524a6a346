"""Finds skills: in given folders, of the project, of the user, of installed packages, and nbagent's own."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from nbagent.functions.formatting import error_summary
from nbagent.skills.manifest import EXECUTABLE_FILE, SKILL_FILE, Problem

logger = logging.getLogger("nbagent")

#: Where agents of all kinds look for skills, in a project and in the user's home.
SKILL_FOLDERS = (".agents/skills", ".claude/skills")
#: The group of entry points. Each is a folder's path, a package, or a function that returns one of them.
ENTRY_POINTS = "nbagent.skills"
#: How far a place is searched: levels below it, and folders.
MAX_DEPTH, MAX_FOLDERS = 5, 5_000
_SKIPPED = {".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__"}
BUILTIN = Path(__file__).with_name("builtin")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of skills. Those of a `project` are used once the user trusts it."""

    folder: Path
    scope: str
    project: Path | None = None


def places(
    given: Iterable[Path], packages: Iterable[Path | Problem], *, discover: bool, builtin: bool
) -> tuple[list[Place], list[Problem]]:
    """Where to look, the most important first, and what is wrong with these places. `packages` are `of_packages()`."""
    found: list[Place] = []
    problems: list[Problem] = []
    for folder in given:
        if folder.is_dir():
            found.append(Place(folder, "given"))
        else:
            problems.append(Problem("error", "", "there is no such folder", str(folder)))
    if discover:
        users = [_home() / each for each in SKILL_FOLDERS]
        for project in _projects():
            folders = [project / each for each in SKILL_FOLDERS]
            found += [Place(each, "project", project) for each in folders if each.is_dir() and each not in users]
        found += [Place(each, "user") for each in users if each.is_dir()]
        found += [Place(each, "package") for each in packages if isinstance(each, Path)]
        problems += [each for each in packages if isinstance(each, Problem)]
    return found + ([Place(BUILTIN, "builtin")] if builtin else []), problems


def skill_folders(place: Place) -> tuple[list[Path], list[Problem]]:
    """The folders at and below this one that hold a skill, sorted. In a project, links are not followed."""
    found: list[Path] = []
    waiting = deque([(place.folder, 0)])
    for _ in range(MAX_FOLDERS):
        if not waiting:
            return sorted(found), []
        folder, depth = waiting.popleft()
        try:
            with os.scandir(folder) as entries:
                inside = {each.name: each for each in entries}
        except OSError:
            continue
        if SKILL_FILE in inside or EXECUTABLE_FILE in inside:
            found.append(folder)
        for name, each in inside.items():
            if depth < MAX_DEPTH and name not in _SKIPPED and each.is_dir(follow_symlinks=place.project is None):
                waiting.append((folder / name, depth + 1))
    text = f"it has more than {MAX_FOLDERS:,} folders: the rest was not searched. Name the folders with skills."
    return sorted(found), [Problem("warning", "", text, str(place.folder))]


def _projects() -> list[Path]:
    """The current folder, and the folders around it up to that of the repository, if it is in one."""
    try:
        current = Path.cwd().resolve()
    except OSError:  # it was removed
        return []
    around = [current, *current.parents]
    root = next((number for number, each in enumerate(around) if os.path.lexists(each / ".git")), 0)
    return [each for each in around[: root + 1] if each != _home().resolve()]


def _home() -> Path:
    return Path(os.path.expanduser("~"))


def of_packages() -> Iterator[Path | Problem]:
    """The folders that entry points of installed packages name. Reads what is installed, which takes a while."""
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS):
        try:
            folder = _folder_of(point.load())
            if not folder.is_dir():
                raise NotADirectoryError(f"{folder} is not a folder")
            yield folder
        except Exception as error:  # a package's code
            logger.debug("the entry point %s failed", point.name, exc_info=True)
            yield Problem("error", point.name, f"the entry point failed: {error_summary(error)}", point.value)


def _folder_of(value: Any) -> Path:
    if callable(value):
        value = value()
    if isinstance(value, ModuleType):
        value = next(iter(value.__path__))
    return Path(value)

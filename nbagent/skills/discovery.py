"""Finds skills: in given folders, of the project, of the user, of installed packages, and nbagent's own."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from nbagent.skills.manifest import SKILL_FILE, Problem

#: The usual skill folders of agents, in a project and in the user's home.
SKILL_FOLDERS = (".agents/skills", ".claude/skills")
#: The group of entry points. Each names a package whose folder contains skills.
ENTRY_POINTS = "nbagent.skills"
#: How many folders of a place are searched.
MAX_FOLDERS = 5_000
_SKIPPED = {".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__"}


class Place(NamedTuple):
    """A folder of skills. Those of a `project` are used once the user trusts it."""

    folder: Path
    scope: str
    project: Path | None = None


def discovered() -> Iterator[Place]:
    """The places of the project, the current folder and those around it up to the repository's; then the user's."""
    home, current = Path.home(), Path.cwd().resolve()
    around = [current, *current.parents]
    root = next((number for number, each in enumerate(around) if (each / ".git").exists()), 0)
    projects = [each for each in around[: root + 1] if each != home.resolve()]
    places = [Place(project / each, "project", project) for project in projects for each in SKILL_FOLDERS]
    places += [Place(home / each, "user") for each in SKILL_FOLDERS]
    return (each for each in places if each.folder.is_dir())


def of_packages() -> Iterator[Place]:
    """The packages that entry points name. Slowly reads the installed packages; imports nothing."""
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            spec = find_spec(point.value)
        except (ImportError, ValueError):
            spec = None
        locations = spec and spec.submodule_search_locations
        yield Place(Path(locations[0] if locations else point.value), "package")


def skill_folders(place: Place) -> tuple[list[Path], list[Problem]]:
    """The folders at and below this one that contain a skill, sorted; and the problems found.

    In a project, links are not followed.
    """
    if not place.folder.is_dir():
        return [], [Problem("error", "", "there is no such folder or package", str(place.folder))]
    found: list[Path] = []
    for number, (path, folders, names) in enumerate(os.walk(place.folder, followlinks=place.project is None)):
        if number == MAX_FOLDERS:
            text = f"it has more than {MAX_FOLDERS:,} folders: the rest was not searched. Name the folders with skills."
            return sorted(found), [Problem("warning", "", text, str(place.folder))]
        if SKILL_FILE in names:
            found.append(Path(path))
        folders[:] = sorted(set(folders) - _SKIPPED)
    return sorted(found), []

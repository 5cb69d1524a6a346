"""Finds skills in given folders, in the project, in the user's home and in installed packages."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterator
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from nbagent.skills.manifest import SKILL_FILE, Problem

#: Agents' usual skill folders, in a project and in the user's home.
SKILL_FOLDERS = (".agents/skills", ".claude/skills")
#: The group of entry points. Each names a package whose folder contains skills.
ENTRY_POINTS = "nbagent.skills"
#: How many folders are searched in one place, since links can form loops.
MAX_FOLDERS = 5_000
_SKIPPED = {".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__"}


class Place(NamedTuple):
    """A folder of skills. If it belongs to a `project`, its skills are used only after the user trusts the project."""

    folder: Path
    scope: str
    project: Path | None = None


def project_and_user_places() -> Iterator[Place]:
    """The project's skill folders (in the current folder and its parents, up to the repository's root), then the
    user's.
    """
    home, current = Path.home(), Path.cwd().resolve()
    around = [current, *current.parents]
    root = next((number for number, folder in enumerate(around) if (folder / ".git").exists()), 0)
    projects = [folder for folder in around[: root + 1] if folder != home.resolve()]
    places = [Place(project / name, "project", project) for project in projects for name in SKILL_FOLDERS]
    places += [Place(home / name, "user") for name in SKILL_FOLDERS]
    return (place for place in places if place.folder.is_dir())


def package_places() -> Iterator[Place]:
    """The packages named by entry points. This is slow, because it searches all installed packages. It imports none."""
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        yield Place(_folder_of(point.value) or Path(point.value), "package")


def _folder_of(package: str) -> Path | None:
    """The folder of a package, found without importing its parents, unlike with `find_spec("parent.child")`."""
    top, *below = package.split(".")
    try:
        spec = find_spec(top)
    except ValueError:  # an imported module that has no spec
        return None
    for name in below:
        spec = spec and PathFinder.find_spec(name, spec.submodule_search_locations or [])
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def skill_folders(place: Place) -> tuple[list[Path], list[Problem]]:
    """Return the folders in a place that contain a skill, and the problems found. Links in a project are ignored."""
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

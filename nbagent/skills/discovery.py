"""Finds skills: in given folders, of the project, of the user, of installed packages, and nbagent's own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from nbagent.skills.manifest import SKILL_FILE, Problem

#: Where agents of all kinds look for skills, in a project and in the user's home.
SKILL_FOLDERS = (".agents/skills", ".claude/skills")
#: The group of entry points. Each names a package, whose folder holds skills.
ENTRY_POINTS = "nbagent.skills"
#: How many folders of a place are searched.
MAX_FOLDERS = 5_000
_SKIPPED = {".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__"}
BUILTIN = Path(__file__).with_name("builtin")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of skills. Those of a `project` are used once the user trusts it."""

    folder: Path
    scope: str
    project: Path | None = None


def places(given: Iterable[Path], packages: Iterable[Place], *, discover: bool, builtin: bool) -> list[Place]:
    """Where to look, the most important first. `packages` are `of_packages()`."""
    found = [Place(folder, "given") for folder in given]
    if discover:
        users = [_home() / each for each in SKILL_FOLDERS]
        for project in _projects():
            folders = [project / each for each in SKILL_FOLDERS]
            found += [Place(each, "project", project) for each in folders if each.is_dir() and each not in users]
        found += [Place(each, "user") for each in users if each.is_dir()]
        found += packages
    return found + ([Place(BUILTIN, "builtin")] if builtin else [])


def skill_folders(place: Place) -> tuple[list[Path], Problem | None]:
    """The folders at and below this one that hold a skill, sorted; and what is wrong with it.

    In a project, links are not followed.
    """
    if not place.folder.is_dir():
        return [], Problem("error", "", "there is no such folder or package", str(place.folder))
    found: list[Path] = []
    for number, (path, folders, names) in enumerate(os.walk(place.folder, followlinks=place.project is None)):
        if number == MAX_FOLDERS:
            text = f"it has more than {MAX_FOLDERS:,} folders: the rest was not searched. Name the folders with skills."
            return sorted(found), Problem("warning", "", text, str(place.folder))
        if SKILL_FILE in names:
            found.append(Path(path))
        folders[:] = sorted(set(folders) - _SKIPPED)
    return sorted(found), None


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


def of_packages() -> Iterator[Place]:
    """The packages that entry points name. Reads what is installed, which takes a while; imports nothing."""
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS):
        try:
            spec = find_spec(point.value)
        except (ImportError, ValueError):
            spec = None
        locations = spec and spec.submodule_search_locations
        yield Place(Path(locations[0] if locations else point.value), "package")

"""Finds the lines of files that contain a text.

The text is searched for as it is. It is not a regular expression, so that no query can take longer than another.
Links, devices, hidden, binary and large files are left out.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

from pydantic import BaseModel, Field, field_validator

from nbagent.skills.builtin.folders import allowed_path, is_binary, read_regular

MAX_FILE_BYTES = 2 * 2**20
MAX_FILES = 20_000
MAX_SECONDS = 10.0
#: Characters of a line before and after what was found.
_AROUND = 80
#: Folders of tools, not of the user.
_SKIPPED_FOLDERS = {"__pycache__", "node_modules", "site-packages"}


class Input(BaseModel):
    """What to search for, and where."""

    query: str = Field(description="The text to search for, in any case; not a regular expression", max_length=200)
    root_dir: str = Field(default=".", description="The folder to search, inside the current one", max_length=4096)
    limit: int = Field(default=20, description="Return so many lines at most", ge=1, le=200)

    @field_validator("query")
    @classmethod
    def _one_line(cls, query: str) -> str:
        if not query.strip() or len(query.splitlines()) != 1:
            raise ValueError("expected some text of one line")
        return query


class Match(BaseModel):
    """One line that contains the text."""

    path: str = Field(description="Relative to root_dir")
    line: int = Field(description="Counted from 1")
    text: str


class Output(BaseModel):
    """The lines found, and what was left out."""

    matches: list[Match]
    files_with_matches: list[str]
    files_searched: int
    skipped: dict[str, int] = Field(description="How many files were not searched, by reason")
    complete: bool = Field(description="False if the search ended early, at a limit")


def run(request: Input) -> Output:
    """Search the files below a folder for a text, and return the lines that contain it.

    Raises PermissionError for a folder outside the allowed ones, and NotADirectoryError for one that is none.
    """
    root = allowed_path("root_dir", request.root_dir)
    if not root.is_dir():
        raise NotADirectoryError(f"root_dir: there is no folder {request.root_dir!r}.")
    needle, deadline = request.query.lower(), monotonic() + MAX_SECONDS
    found: list[Match] = []
    skipped: Counter[str] = Counter()
    searched, complete = 0, True
    for path, data in _texts(root, skipped):
        found += _matches(path, data, needle)
        searched += 1
        if len(found) > request.limit or searched >= MAX_FILES or monotonic() > deadline:
            complete = False
            break
    found = found[: request.limit]
    files = list(dict.fromkeys(match.path for match in found))
    return Output(
        matches=found,
        files_with_matches=files,
        files_searched=searched,
        skipped=dict(skipped),
        complete=complete,
    )


def _matches(path: str, data: bytes, needle: str) -> list[Match]:
    text = data.decode("utf-8", "replace")
    if needle not in text.lower():
        return []
    matches = []
    for number, line in enumerate(text.splitlines(), 1):
        at = line.lower().find(needle)
        if at >= 0:
            shown = line[max(at - _AROUND, 0) : at + len(needle) + _AROUND].strip()
            matches.append(Match(path=path, line=number, text=shown))
    return matches


def _texts(root: Path, skipped: Counter[str]) -> Iterator[tuple[str, bytes]]:
    """The path below the root and the content of each text file, in alphabetical order."""
    for folder, names, descriptor in _folders(root):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.startswith("."):
                skipped["hidden"] += 1
                continue
            try:
                where = path if descriptor is None else name
                data = read_regular(where, MAX_FILE_BYTES, folder=descriptor)
            except ValueError as refused:
                skipped[str(refused)] += 1
            except OSError:
                skipped["it can't be read"] += 1
            else:
                if is_binary(data):
                    skipped["binary"] += 1
                else:
                    yield os.path.relpath(path, root), data


def _folders(root: Path) -> Iterator[tuple[str, list[str], int | None]]:
    """Each folder, its files, and its descriptor where the platform has such: a folder can't become a link then."""
    if hasattr(os, "fwalk"):
        for folder, inner, names, descriptor in os.fwalk(root):
            _keep(inner)
            yield folder, names, descriptor
    else:
        for folder, inner, names in os.walk(root):
            _keep(inner)
            yield folder, names, None


def _keep(folders: list[str]) -> None:
    """Leave out hidden folders and those of tools."""
    folders[:] = sorted(each for each in folders if not each.startswith(".") and each not in _SKIPPED_FOLDERS)

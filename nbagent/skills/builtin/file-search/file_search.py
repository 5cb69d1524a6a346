"""Finds the lines in files that contain a string. The string is not a regular expression, so no query is slow."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

from pydantic import BaseModel, Field, field_validator

from nbagent.skills.builtin.folders import allowed_path
from nbagent.skills.untrusted_files import read_text

MAX_SECONDS = 10.0
#: Characters of a line that are shown before and after a match.
_AROUND = 80
#: Folders that tools created, not the user.
_SKIPPED_FOLDERS = {"__pycache__", "node_modules", "site-packages"}


class Input(BaseModel):
    """The text to search for, and the folder."""

    query: str = Field(description="The text to search for, ignoring case; not a regular expression", max_length=200)
    root_dir: str = Field(default=".", description="The folder to search, inside the current folder", max_length=4096)
    limit: int = Field(default=20, description="The maximum number of lines to return", ge=1, le=200)

    @field_validator("query")
    @classmethod
    def _one_line(cls, query: str) -> str:
        if not query.strip() or len(query.splitlines()) != 1:
            raise ValueError("expected one line of text")
        return query


class Match(BaseModel):
    """A line that contains the text."""

    path: str = Field(description="Relative to root_dir")
    line: int = Field(description="Counted from 1")
    text: str


class Output(BaseModel):
    """The lines found, and how complete the search was."""

    matches: list[Match] = []
    files_searched: int = 0
    skipped: dict[str, int] = Field(default={}, description="How many files were not searched, by reason")
    complete: bool = Field(default=True, description="False if the search ended early, at a limit")


def run(request: Input) -> Output:
    """Search the files below a folder for a string, and return the lines that contain it."""
    root = allowed_path("root_dir", request.root_dir)
    if not root.is_dir():
        raise NotADirectoryError(f"root_dir: there is no folder {request.root_dir!r}.")
    needle, deadline = request.query.lower(), monotonic() + MAX_SECONDS
    found, skipped = Output(), Counter[str]()
    for path in _files(root):
        try:
            text = read_text(path)
        except (OSError, ValueError) as error:
            skipped["it can't be read" if isinstance(error, OSError) else str(error)] += 1
            continue
        found.matches += _matches(os.path.relpath(path, root), text, needle)
        found.files_searched += 1
        if len(found.matches) > request.limit or monotonic() > deadline:
            found.complete = False
            break
    found.matches = found.matches[: request.limit]
    found.skipped = dict(skipped)
    return found


def _files(root: Path) -> Iterator[Path]:
    """The files below a folder, in alphabetical order, without hidden files or tools' folders."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED_FOLDERS)
        yield from (Path(folder, name) for name in sorted(names) if not name.startswith("."))


def _matches(path: str, text: str, needle: str) -> Iterator[Match]:
    if needle not in text.lower():
        return
    for number, line in enumerate(text.splitlines(), 1):
        at = line.lower().find(needle)
        if at >= 0:
            shown = line[max(at - _AROUND, 0) : at + len(needle) + _AROUND].strip()
            yield Match(path=path, line=number, text=shown)

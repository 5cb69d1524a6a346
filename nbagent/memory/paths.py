"""Names of notes: paths below `/memories`, in which nothing is hidden and of which no two look alike.

A path is a name in a table, never one of a file. All the same, what could lead out of a folder is refused, since
somebody may write notes into files one day.
"""

from __future__ import annotations

import unicodedata
from urllib.parse import unquote

from nbagent.errors import ConfigurationError
from nbagent.text import shortened

#: Where all notes are.
ROOT = "/memories"
MAX_PATH_CHARS, MAX_DEPTH = 200, 6


def checked_note_path(path: str) -> str:
    """The path of a note or folder, composed (Unicode NFC) and without a `/` at its end.

    Raises `ConfigurationError` for what is not a path below `/memories`.

    >>> checked_note_path("/memories/team/")
    '/memories/team'
    >>> checked_note_path("/memories/../etc/passwd")
    Traceback (most recent call last):
    nbagent.errors.ConfigurationError: The path '/memories/../etc/passwd' is refused: '..' is not a valid name.
    """
    composed = unicodedata.normalize("NFC", path)
    composed = composed[:-1] if composed.endswith("/") else composed
    if problem := _problem(composed) or _problem(unicodedata.normalize("NFKC", composed)):
        raise ConfigurationError(f"The path {shortened(repr(path), MAX_PATH_CHARS)} is refused: {problem}.")
    return composed


def key_of(path: str) -> str:
    """The same for all paths that people could take for the same: capitals, and wide or styled letters, don't count.

    >>> key_of("/memories/Straße.md") == key_of("/memories/STRASSE.MD")
    True
    """
    folded = unicodedata.normalize("NFKC", path).casefold()
    return unicodedata.normalize("NFKC", folded)


def _problem(path: str) -> str:
    """What is wrong with a path; "" if nothing is."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        return f"paths begin with {ROOT}, as in {ROOT}/preferences.md"
    if len(path) > MAX_PATH_CHARS:
        return f"it has more than {MAX_PATH_CHARS} characters"
    names = path.split("/")[2:]
    if len(names) > MAX_DEPTH:
        return f"it has more than {MAX_DEPTH} levels"
    if "\\" in path or unquote(path) != path:
        return "backslashes and %-escapes are not allowed"
    if any(char != " " and unicodedata.category(char)[0] in "CZ" for char in path):
        return "control characters, invisible ones and odd spaces are not allowed"
    for name in names:
        if not name.strip(" .") or name[0] in " ." or name[-1] in " .":
            return f"{name!r} is not a valid name"
    return ""

"""Records which projects' skills the user trusts.

Anybody may have written a project's repository, and its skills tell the model what to do. So the user's trust covers
the skills' current files only: when one changes, nbagent asks again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from nbagent.core.atomic_files import atomic_write
from nbagent.core.render.control_chars import show_all_chars
from nbagent.skills.manifest import SkillManifest
from nbagent.skills.untrusted_files import File

logger = logging.getLogger("nbagent")

#: Receives a project and the names of its skills. Returns the answer, or None if there is nobody to ask.
Asker = Callable[[Path, Sequence[str]], bool | None]


def input_asker(can_answer: Callable[[], bool]) -> Asker:
    """Return a function that asks with `input`. It returns None if nobody can answer."""

    def ask_person(project: Path, names: Sequence[str]) -> bool | None:
        listed = ", ".join(map(show_all_chars, names))
        text = f"The project {show_all_chars(str(project))} has skills: {listed}. Trust it, and use them? [y/N] "
        with suppress(EOFError, NotImplementedError):  # raised by front ends without an input box
            return input(text).strip().lower() in ("y", "yes") if can_answer() else None
        return None

    return ask_person


_in_terminal = input_asker(lambda: sys.stdin is not None and sys.stdin.isatty())
#: The function that asks. A notebook sets its own.
_asker: list[Asker] = [_in_terminal]
#: The answers given in this process.
_session_answers: dict[str, str | bool] = {}


def set_asker(asker: Asker | None) -> None:
    """Set the function that asks whether a project is trusted. With None, the question appears in the terminal."""
    _asker[:] = [asker or _in_terminal]


def ask(project: Path, skills: Sequence[SkillManifest]) -> bool | None:
    """Whether the user trusts a project with these skills. If the answer is not known yet, asks the user.

    Returns None if there is nobody to ask, which includes calls outside the main thread.
    """
    known, digest = _answers().get(str(project)), _digest_of(skills)
    if known in (digest, False):
        return known == digest
    can_ask = threading.current_thread() is threading.main_thread()
    answer = _asker[0](project, [skill.name for skill in skills]) if can_ask else None
    if answer is not None:
        set_trust(project, skills, answer)
    elif known is not None:
        _warn_once(project, digest)
    return answer


def set_trust(project: Path, skills: Sequence[SkillManifest], answer: bool) -> None:
    """Remember whether a project is trusted with the current files of these skills.

    If the answer can't be saved, it applies only to this process.
    """
    _session_answers[str(project)] = answer and _digest_of(skills)
    path = _file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps({"projects": _answers()}, indent=1), encoding="utf-8")
    except OSError as error:
        logger.warning("the answer for %s applies only to this process, since it can't be saved: %s", project, error)


def _answers() -> dict[str, str | bool]:
    """For each project, the digest of its trusted skills, or False."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        return {**json.loads(_file().read_text(encoding="utf-8"))["projects"], **_session_answers}
    return dict(_session_answers)


def _file() -> Path:
    import platformdirs

    return Path(platformdirs.user_config_dir("nbagent", appauthor=False)) / "trusted_projects.json"


def _digest_of(skills: Sequence[SkillManifest]) -> str:
    """The digest of these skills' current files."""
    return _digest(tuple((skill.name, skill.folder, skill.files) for skill in skills))


@lru_cache
def _digest(skills: tuple[tuple[str, Path, tuple[File, ...]], ...]) -> str:
    digest = hashlib.sha256()
    for name, folder, files in skills:
        for file in files:
            content = ""
            with suppress(OSError), (folder / file.name).open("rb") as opened:
                content = hashlib.file_digest(opened, "sha256").hexdigest()
            digest.update(f"{name!r} {file.name!r} {content}\n".encode())
    return digest.hexdigest()


@lru_cache
def _warn_once(project: Path, digest: str) -> None:
    logger.warning("The skills in %s have changed. They are off until you trust them again: host.trust()", project)

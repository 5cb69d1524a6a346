"""Records which projects' skills the user trusts. The answer is saved for the skills' current files.

A project comes from a repository that anybody may have written, and its skills would tell the model what to do. When
one of their files changes, nbagent asks again.
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
from nbagent.skills.inside import File
from nbagent.skills.manifest import SkillManifest

logger = logging.getLogger("nbagent")

#: `(project, names of its skills) -> True, False`, or None if nobody can be asked.
Asker = Callable[[Path, Sequence[str]], bool | None]


def by_input(can_answer: Callable[[], bool]) -> Asker:
    """Asks with `input`, if anybody can answer."""

    def ask_person(project: Path, names: Sequence[str]) -> bool | None:
        listed = ", ".join(map(show_all_chars, names))
        text = f"The project {show_all_chars(str(project))} has skills: {listed}. Trust it, and use them? [y/N] "
        with suppress(EOFError, NotImplementedError):  # as frontends without an input box say
            return input(text).strip().lower() in ("y", "yes") if can_answer() else None
        return None

    return ask_person


_in_terminal = by_input(lambda: sys.stdin is not None and sys.stdin.isatty())
#: The function that asks. A notebook sets its own.
_asker: list[Asker] = [_in_terminal]
#: The answers that were given in this process.
_here: dict[str, str | bool] = {}


def set_asker(asker: Asker | None) -> None:
    """Set who is asked whether a project is trusted; None for whoever is at the terminal."""
    _asker[:] = [asker or _in_terminal]


def ask(project: Path, skills: Sequence[SkillManifest]) -> bool | None:
    """Whether the user trusts a project with these skills; asks if that is not known yet.

    None if nobody can be asked, as outside the main thread.
    """
    known, digest = _answers().get(str(project)), _digest_of(skills)
    if known in (digest, False):
        return known == digest
    can_ask = threading.current_thread() is threading.main_thread()
    answer = _asker[0](project, [each.name for each in skills]) if can_ask else None
    if answer is not None:
        set_trust(project, skills, answer)
    elif known is not None:
        _warn_once(project, digest)
    return answer


def set_trust(project: Path, skills: Sequence[SkillManifest], answer: bool) -> None:
    """Remember whether a project is trusted with these skills as they are; for this process at least."""
    _here[str(project)] = answer and _digest_of(skills)
    path = _file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps({"projects": _answers()}, indent=1), encoding="utf-8")
    except OSError as error:
        logger.warning("the trust in %s is remembered for this process only: %s", project, error)


def _answers() -> dict[str, str | bool]:
    """By project: the digest of what is trusted, or False."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        return {**json.loads(_file().read_text(encoding="utf-8"))["projects"], **_here}
    return dict(_here)


def _file() -> Path:
    import platformdirs

    return Path(platformdirs.user_config_dir("nbagent", appauthor=False)) / "trusted_projects.json"


def _digest_of(skills: Sequence[SkillManifest]) -> str:
    """The digest that the user's answer is bound to: these skills' current files."""
    return _digest(tuple((each.name, each.folder, each.files) for each in skills))


@lru_cache
def _digest(skills: tuple[tuple[str, Path, tuple[File, ...]], ...]) -> str:
    """The digest, computed again when a file has changed."""
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
    logger.warning("The skills in %s have changed: they are off until you trust them again, by host.trust().", project)

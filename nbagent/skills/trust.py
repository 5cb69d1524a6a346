"""Which projects' skills the user trusts. The answer is kept in a file, for the files that the skills have now.

A project comes from a repository that anybody may have written, and its skills would tell the model what to do. When
one of their files changes, the question is asked again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from nbagent.core.atomic_files import atomic_write
from nbagent.core.render.control_chars import show_all_chars
from nbagent.skills.manifest import SkillManifest

logger = logging.getLogger("nbagent")

#: `(project, names of its skills) -> True, False`, or None if nobody can be asked.
Asker = Callable[[Path, Sequence[str]], bool | None]


def ask_in_terminal(project: Path, names: Sequence[str]) -> bool | None:
    """Ask in the terminal, if there is one."""
    if sys.stdin is None or not sys.stdin.isatty():
        return None
    return input(question(project, names)).strip().lower() in ("y", "yes")


def question(project: Path, names: Sequence[str]) -> str:
    """The text of the question."""
    listed = ", ".join(map(show_all_chars, names))
    return f"The project {show_all_chars(str(project))} has skills: {listed}. Trust it, and use them? [y/N] "


#: Who is asked: one function. A notebook sets its own.
_asker: list[Asker] = [ask_in_terminal]


def set_asker(asker: Asker | None) -> None:
    """Set who is asked whether a project is trusted; None for whoever is at the terminal."""
    _asker[:] = [asker or ask_in_terminal]


def digest_of(skills: Iterable[SkillManifest]) -> str:
    """A digest of all files of these skills."""
    digest = hashlib.sha256()
    for skill in skills:
        for file in skill.files:
            content = ""
            with suppress(OSError), (skill.folder / file.name).open("rb") as opened:
                content = hashlib.file_digest(opened, "sha256").hexdigest()
            digest.update(f"{skill.name!r} {file.name!r} {content}\n".encode())
    return digest.hexdigest()


def ask(project: Path, names: Sequence[str], digest: str) -> bool | None:
    """Whether the user trusts a project whose skills have this digest; asks if that is not known yet.

    None if nobody can be asked, as in a thread beside the main one.
    """
    known = _read().get(_key(project))
    if known in (digest, False):
        return known == digest
    can_ask = threading.current_thread() is threading.main_thread()
    answer = _asker[0](project, names) if can_ask else None
    if answer is not None:
        set_trust(project, digest if answer else False)
    elif known is not None:
        _warn_once(project, digest)
    return answer


@lru_cache
def _warn_once(project: Path, digest: str) -> None:
    logger.warning("The skills in %s have changed: they are off until you trust them again, by host.trust().", project)


def set_trust(project: Path, answer: str | bool) -> None:
    """Remember the digest that is trusted for this project, or False; for this process at least."""
    _here[_key(project)] = answer
    path = trust_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps({"projects": _read()}, indent=1), encoding="utf-8")
    except OSError as error:
        logger.warning("the trust in %s is remembered for this process only: %s", project, error)


def trust_file() -> Path:
    """Where the answers are."""
    import platformdirs

    return Path(platformdirs.user_config_dir("nbagent", appauthor=False)) / "trusted_projects.json"


#: The answers that were given in this process.
_here: dict[str, str | bool] = {}


def _read() -> dict[str, str | bool]:
    with suppress(OSError, ValueError, LookupError, TypeError):
        return {**json.loads(trust_file().read_text(encoding="utf-8"))["projects"], **_here}
    return dict(_here)


def _key(project: Path) -> str:
    return str(project.resolve())

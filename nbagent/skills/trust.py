"""Which projects' skills the user trusts. Each project is asked about once, and the answer is kept in a file.

A project comes from a repository that anybody may have written, and its skills would tell the model what to do.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from nbagent.core.atomic_files import atomic_write
from nbagent.core.file_lock import locked
from nbagent.core.render.control_chars import show_all_chars

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


def trusted(project: Path) -> bool | None:
    """The user's answer for this project; None if there is none yet."""
    return _read().get(_key(project))


def ask(project: Path, names: Sequence[str]) -> bool | None:
    """The user's answer; asks if there is none yet. None if nobody can be asked, as in a thread beside the main one."""
    known, can_ask = trusted(project), threading.current_thread() is threading.main_thread()
    if known is None and can_ask and (answer := _asker[0](project, names)) is not None:
        set_trust(project, answer)
        return answer
    return known


def set_trust(project: Path, answer: bool) -> None:
    """Remember the answer for this project, for this process at least."""
    _here[_key(project)] = answer
    path = trust_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("ab") as lock, locked(lock):
            answers = {**_read(), _key(project): answer}
            with atomic_write(path) as temporary:
                temporary.write_text(json.dumps({"projects": answers}, indent=1), encoding="utf-8")
    except OSError as error:
        logger.warning("the trust in %s is remembered for this process only: %s", project, error)


def trust_file() -> Path:
    """Where the answers are."""
    import platformdirs

    return Path(platformdirs.user_config_dir("nbagent", appauthor=False)) / "trusted_projects.json"


#: The answers that were given in this process.
_here: dict[str, bool] = {}


def _read() -> dict[str, bool]:
    with suppress(OSError, ValueError, AttributeError):
        found = json.loads(trust_file().read_text(encoding="utf-8")).get("projects")
        return {**{key: value is True for key, value in found.items()}, **_here}
    return dict(_here)


def _key(project: Path) -> str:
    return str(project.resolve())

"""Where a vendor's key comes from, if it is not given as an argument. The first of these that has it:

1. what was typed after `%agent key`, in this process
2. the environment
3. the file `.env` in the working directory, or in the nearest folder above it that has one
4. Colab's secrets, where the notebook has access to them

Only keys are read there, never addresses: a `.env` that came with somebody's project must not say where your key is
sent. What is found stays here and is not put into the environment, which every child process can read.
"""

from __future__ import annotations

import functools
import importlib
import math
import os
import sys
import threading
from collections.abc import Iterable, Mapping
from time import monotonic

from nbagent.errors import ConfigurationError

#: Seconds before Colab is asked again for a secret that it did not have.
ASK_AGAIN = 10.0


class KeyRing:
    """The keys that this process was told."""

    def __init__(self) -> None:
        self._typed: dict[str, str] = {}
        #: What Colab answered, and until when that holds.
        self._answers: dict[str, tuple[str, float]] = {}

    def keep(self, variable: str, key: str) -> None:
        """Remember a key that was typed, under the name of the variable that could hold it."""
        self._typed[variable] = key

    def forget(self, variable: str) -> None:
        """Look elsewhere for it again."""
        self._typed.pop(variable, None)

    def find(self, variables: Iterable[str]) -> str | None:
        """The key that one of these variables stands for; the first place that has any wins."""
        names = tuple(variables)
        for place in (self._typed.get, os.environ.get, _in_file, self._in_colab):
            if found := next((key for name in names if (key := (place(name) or "").strip())), None):
                return found
        return None

    def _in_colab(self, variable: str) -> str | None:
        """Colab asks the browser, which may not be there: only the main thread waits for it, and not again at once."""
        if "google.colab" not in sys.modules:
            return None
        answer, until = self._answers.get(variable, ("", 0.0))
        if monotonic() > until and threading.current_thread() is threading.main_thread():
            answer, lasts = _ask_colab(variable)
            self._answers[variable] = answer, monotonic() + lasts
        return answer


def _ask_colab(variable: str) -> tuple[str, float]:
    """What Colab answers, and for how many seconds that holds. A front end without secrets is asked once."""
    try:
        answer = importlib.import_module("google.colab.userdata").get(variable)
    except Exception as error:  # noqa: BLE001  its errors differ from version to version; all mean that there is none
        return "", math.inf if "Timeout" in type(error).__name__ else ASK_AGAIN
    return (answer, math.inf) if answer else ("", ASK_AGAIN)


def _in_file(variable: str) -> str | None:
    from dotenv import find_dotenv

    try:
        path = find_dotenv(usecwd=True)
        facts = os.stat(path) if path else None
    except OSError:  # the working directory was deleted
        return None
    return _values(path, facts.st_mtime_ns, facts.st_size).get(variable) if facts else None


@functools.lru_cache(maxsize=1)
def _values(path: str, changed: int, size: int) -> Mapping[str, str | None]:
    """What a file says that was last changed then."""
    from dotenv import dotenv_values

    try:
        return dotenv_values(path)
    except PermissionError:  # somebody else's, further up
        return {}
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is not UTF-8 text: correct it, or remove it.") from None


#: The keys of this process.
keys = KeyRing()

"""Finds the keys of providers if they are not passed as arguments. A key is taken from the first of these places that
has one:

1. a key typed after `%agent key`, in this process
2. the environment
3. the file `.env` in the working directory, or in the nearest folder above it that has one
4. Colab's secrets, if the notebook has access to them

Only keys are read from `.env`, never addresses: another project's `.env` must not decide where your key is sent. Keys
that are found are not put into the environment, which every child process can read.
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
COLAB_RETRY_S = 10.0


class KeyRing:
    """Keeps the keys that the user typed, and looks for others in the places that the module docstring lists."""

    def __init__(self) -> None:
        self._typed: dict[str, str] = {}
        #: Colab's answers by variable, and when they expire.
        self._colab_answers: dict[str, tuple[str, float]] = {}

    def keep(self, variable: str, key: str) -> None:
        """Remember a typed key under the name of its environment variable."""
        self._typed[variable] = key

    def find(self, variables: Iterable[str]) -> str | None:
        """The value of one of these variables, from the first place that has any of them."""
        names = tuple(variables)
        for place in (self._typed.get, os.environ.get, _from_env_file, self._from_colab):
            if found := next((key for name in names if (key := (place(name) or "").strip())), None):
                return found
        return None

    def _from_colab(self, variable: str) -> str | None:
        """Colab asks the browser, which may not answer, so only the main thread waits for it, and only now and then."""
        if "google.colab" not in sys.modules:
            return None
        answer, until = self._colab_answers.get(variable, ("", 0.0))
        if monotonic() > until and threading.current_thread() is threading.main_thread():
            answer, seconds = _ask_colab(variable)
            self._colab_answers[variable] = answer, monotonic() + seconds
        return answer


def _ask_colab(variable: str) -> tuple[str, float]:
    """Colab's answer, and for how many seconds it is valid. A front end without secrets is asked only once."""
    try:
        answer = importlib.import_module("google.colab.userdata").get(variable)
    except Exception as error:  # noqa: BLE001  its errors vary between versions; all mean that there is no key
        return "", math.inf if "Timeout" in type(error).__name__ else COLAB_RETRY_S
    return (answer, math.inf) if answer else ("", COLAB_RETRY_S)


def _from_env_file(variable: str) -> str | None:
    from dotenv import find_dotenv

    if not (path := find_dotenv(usecwd=True)):
        return None
    found = os.stat(path)
    return _read_env_file(path, found.st_mtime_ns, found.st_size).get(variable)


@functools.lru_cache(maxsize=1)
def _read_env_file(path: str, modified: int, size: int) -> Mapping[str, str | None]:
    """The variables in a file, read again when its modification time or size changes."""
    from dotenv import dotenv_values

    try:
        return dotenv_values(path, interpolate=False)  # a key may contain "${"
    except PermissionError:  # in somebody else's parent folder
        return {}
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is not UTF-8 text: correct or remove it.") from None


#: The keys of this process.
keys = KeyRing()

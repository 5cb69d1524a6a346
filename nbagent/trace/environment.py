"""A session's environment, for `Trace.environment`: the git commit, versions and platform.

It is collected when it is first read, or when the trace is saved or streamed to a file, so no run waits for it. It
doesn't contain names of folders, machines or people.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys

from nbagent.trace.rows import Row, as_json
from nbagent.version import DISTRIBUTION, VERSION

#: The timeout of git, in seconds. In a huge or broken clone, its columns stay empty.
GIT_SECONDS = 5.0

#: For each module, its packages with their versions.
_versions: dict[str, dict[str, str]] = {}


def environment() -> Row:
    """Return a row of `environment`, without the shared columns."""
    status = _git("status", "--porcelain")
    return {
        "git_commit": (_git("rev-parse", "HEAD") or "").strip() or None,
        "git_dirty": None if status is None else bool(status.strip()),
        "python": platform.python_version(),
        "packages": as_json(_packages()),
        "kernel": _kernel(),
        "host": _host(),
        "platform": platform.platform(),
    }


def _git(*arguments: str) -> str | None:
    """The output of git in the working directory; None without git or outside a clone."""
    try:
        done = subprocess.run(  # noqa: S603  fixed arguments
            ["git", *arguments],  # noqa: S607  the user's own git
            capture_output=True, text=True, errors="replace", timeout=GIT_SECONDS, check=False,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


def _packages() -> dict[str, str]:
    """The versions of the imported packages, by name."""
    imported = {name.partition(".")[0] for name in list(sys.modules)}
    if new := imported - _versions.keys():
        owners = importlib.metadata.packages_distributions()  # slow: reads the file list of each installed package
        for module in new:
            _versions[module] = {owner: importlib.metadata.version(owner) for owner in owners.get(module, ())}
    found = {name: version for module in imported for name, version in _versions[module].items()}
    found[DISTRIBUTION] = VERSION
    return dict(sorted(found.items(), key=lambda package: package[0].lower()))


def _kernel() -> str:
    """The program that runs the code: `ipykernel 7.1.0`, `IPython 9.6.0` or `python`."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None:
        return "python"
    name = "ipykernel" if getattr(shell, "kernel", None) is not None else "IPython"
    return f"{name} {sys.modules[name].__version__}"


def _host() -> str:
    """The application around the kernel, if known: colab, vscode, jupyter, or terminal."""
    if "google.colab" in sys.modules:
        return "colab"
    if "VSCODE_PID" in os.environ:
        return "vscode"
    return "jupyter" if "ipykernel" in sys.modules else "terminal"

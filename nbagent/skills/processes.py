"""Runs commands of skills in processes of their own, under limits, without the secrets of this one.

The limits are kept by `launcher.py`, a small process between this one and the command, so that a busy kernel does not
delay them, and so that nothing is left if this process dies.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from nbagent.core.browser import check_possible

_LAUNCHER = Path(__file__).with_name("launcher.py")
#: Seconds that the launcher may take to begin and to clean up.
_GRACE_S = 10.0
#: Environment variables that a command gets. Others may hold keys.
_PASSED = {
    *str.split("PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TERM VIRTUAL_ENV CONDA_PREFIX LD_LIBRARY_PATH"),
    *str.split("SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT APPDATA LOCALAPPDATA USERPROFILE PROGRAMFILES"),
}


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What a command of a skill may use: seconds, memory and processes of all its processes together, and output.

    `output_bytes` holds for each of its two streams.
    """

    seconds: float = 30.0
    memory_mb: int = 1_024
    processes: int = 32
    output_bytes: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Finished:
    """What became of a command. `refused` says which limit stopped it, `confined` if it could write inside only."""

    exit_code: int | None
    stdout: str
    stderr: str
    refused: str | None
    confined: bool


def run_limited(
    command: Sequence[str], *, cwd: Path, writable: Sequence[Path] = (), stdin: bytes = b"", limits: ProcessLimits
) -> Finished:
    """Run a command to its end, or to its limits. It can write in `cwd` and below `writable`. Blocks.

    Whatever ends this call, such as a KeyboardInterrupt, ends the command and all that it started.
    """
    check_possible("A skill's program", "another process", "SkillHost(…, in_process=True) runs Python skills here.")
    with tempfile.TemporaryDirectory(prefix="nbagent-skill-", ignore_cleanup_errors=True) as private:
        files = {name: str(Path(private, name)) for name in ("stdin", "stdout", "stderr", "status")}
        Path(files["stdin"]).write_bytes(stdin)
        options = {
            **asdict(limits),
            **files,
            "command": list(command),
            "cwd": str(cwd),
            "writable": [str(cwd), *map(str, writable)],
        }
        _launch([sys.executable, "-P", str(_LAUNCHER), json.dumps(options)], cwd, limits)
        return _finished(files, limits)


def _launch(command: list[str], cwd: Path, limits: ProcessLimits) -> None:
    launcher = subprocess.Popen(  # noqa: S603  our own launcher
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=_environment(cwd),
        start_new_session=True,
    )
    try:
        with suppress(subprocess.TimeoutExpired):
            launcher.wait(limits.seconds + _GRACE_S)
    finally:
        assert launcher.stdin is not None
        launcher.stdin.close()  # which tells it to end
        try:
            launcher.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            launcher.kill()
            launcher.wait()


def _finished(files: dict[str, str], limits: ProcessLimits) -> Finished:
    try:
        status = json.loads(Path(files["status"]).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        status = {"exit_code": None, "refused": "the process that watches over it has ended", "confined": False}
    stdout, stderr = (_beginning(files[name], limits.output_bytes) for name in ("stdout", "stderr"))
    return Finished(stdout=stdout, stderr=stderr, **status)


def _beginning(path: str, limit: int) -> str:
    with suppress(OSError), open(path, "rb") as file:
        return file.read(limit).decode("utf-8", "replace")
    return ""


def _environment(cwd: Path) -> dict[str, str]:
    passed = {name: value for name, value in os.environ.items() if name.upper() in _PASSED or name.startswith("LC_")}
    own = {"TMPDIR": str(cwd), "TEMP": str(cwd), "TMP": str(cwd), "PYTHONUTF8": "1"}
    return {**passed, **own, "PYDANTIC_DISABLE_PLUGINS": "1"}  # to look for them takes as long as all else

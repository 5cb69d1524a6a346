"""`make release-check`: builds what would be released, and tries it as users get it.

The wheel is installed with each extra alone, into a fresh environment, on each Python that is supported and present.
The tests must be found in the unpacked source distribution. What it built stays in `dist/`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2]
DIST = PROJECT / "dist"
SMOKE = Path(__file__).with_name("smoke.py")
#: The programs of this check: `build`, `twine`, `uv` and others.
BIN = Path(sys.executable).parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def run(*command: object, **options: object) -> str:
    """What a command prints; where it fails, end with what it said."""
    words = [str(part) for part in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def check_tests_in(source: Path, python: Path) -> str:
    """Let pytest find the tests in the unpacked source distribution -> its closing line."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
        (unpacked,) = Path(folder).iterdir()
        environment = os.environ | {"PYTHONPATH": str(unpacked)}
        found = run(python, "-m", "pytest", "-q", "--collect-only", "tests", cwd=unpacked, env=environment)
    return found.splitlines()[-1]


def interpreter(version: str) -> str | None:
    """A Python of this version on this machine, or None. Those of pyenv are found too."""
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    for request in [version, *sorted(root.glob(f"versions/{version}.*/bin/python"))]:
        command = [BIN / "uv", "python", "find", "--no-project", "--no-python-downloads", request]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return found.stdout.strip()
    return None


def check_extra(python: str, wheel: Path, extra: str) -> None:
    """Install the wheel with one extra, or none (""), into a fresh environment and try it there."""
    with tempfile.TemporaryDirectory() as folder:
        run(BIN / "uv", "venv", "--quiet", "--python", python, f"{folder}/env")
        inside = Path(folder, "env", "bin", "python")
        run(BIN / "uv", "pip", "install", "--quiet", "--python", inside, f"{wheel}[{extra}]" if extra else wheel)
        others = ("PYTHON", "JUPYTER", "VIRTUAL_ENV")  # IPython imports from an active environment too
        environment = {name: value for name, value in os.environ.items() if not name.startswith(others)}
        # -P: the modules beside it are not for it
        run(inside, "-P", SMOKE, *([extra] if extra else []), cwd=folder, env=environment | {"IPYTHONDIR": folder})


def main(test_python: str) -> None:
    """Check everything; `test_python` is an interpreter that has what the tests need."""
    sys.stdout.reconfigure(line_buffering=True)
    for old in DIST.glob("*"):
        old.unlink()
    run(sys.executable, "-m", "build", "--installer", "uv", "--outdir", DIST, PROJECT)
    (wheel,), (source,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    print(f"Built {wheel.name} and {source.name}")
    run(BIN / "check-wheel-contents", wheel)
    run(BIN / "twine", "check", "--strict", wheel, source)
    print("Tests of the unpacked source distribution:", check_tests_in(source, Path(test_python).absolute()))
    run(BIN / "zizmor", "--offline", "--quiet", PROJECT / ".github")
    print("Workflows: no findings (zizmor)")
    (every,) = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["all"]
    extras = ["", *every.partition("[")[2].removesuffix("]").split(","), "all"]
    for version in PYTHONS:
        python = interpreter(version)
        if python is None:
            print(f"Python {version}: NOT TRIED, since this machine has none")
            continue
        for extra in extras:
            check_extra(python, wheel, extra)
        print(f"Python {version}: installed and tried without extras, and with each of {', '.join(extras[1:])}")


if __name__ == "__main__":
    main(*sys.argv[1:])

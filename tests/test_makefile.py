"""The Makefile's refusal of a Python that is too old."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Answers as Python 3.10 does.
OLD_PYTHON = """#!/bin/sh
if [ "$1" = --version ]; then echo "Python 3.10.12"; exit; fi
exec {python} -c "import sys; sys.version_info = (3, 10, 12); $2"
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the Makefile is for POSIX systems")
def test_an_old_python_is_refused_with_the_command_that_names_another(tmp_path):
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    old = tmp_path / "bin" / "python3"
    old.parent.mkdir()
    old.write_text(OLD_PYTHON.format(python=sys.executable))
    old.chmod(0o755)
    # not what the `make` that runs the tests was told
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "PYTHON")}
    env["PATH"] = f"{old.parent}:{env['PATH']}"
    made = subprocess.run(["make", "demo"], cwd=tmp_path, env=env, capture_output=True, text=True)
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["requires-python"].removeprefix(
        ">="
    )
    advice = (
        f"nbagent needs Python {oldest} or newer, and `python3` is Python 3.10.12. Name one: make demo PYTHON=python3."
    )
    assert made.returncode != 0
    assert advice in made.stderr
    assert not (tmp_path / ".venv").exists()

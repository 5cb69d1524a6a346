"""The recipes in CONTRIBUTING.md work: their code is added to a copy of the project, and their commands run there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

PROJECT = Path(__file__).parents[1]
PAGE = (PROJECT / "CONTRIBUTING.md").read_text("utf-8")
COPIED = ("nbagent", "tests", "docs", "notebooks/skills", "pyproject.toml", "README.md", "CONTRIBUTING.md")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "_build", "_contents", "browser", "benchmarks")
#: A code block, and the file whose name stands last before it.
BLOCK = re.compile(r"`([\w./-]+)`:\n\n( *)```(\w+)\n(.*?)\n\2```", re.DOTALL)
#: A path in the table, of which a part may be open: `providers/<provider>.py`, `*_tools.py`.
NAME = re.compile(r"`([\w<>*./-]+(?:/|\.(?:py|js|html)))`")


def section(title):
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def run(copy, *command):
    """Run Python with the copy's `nbagent` and `support`."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_", "COVERAGE_"))}
    env["PYTHONPATH"] = os.pathsep.join(map(str, [copy, copy / "tests"]))
    done = subprocess.run(
        [sys.executable, *command], cwd=copy, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}"
    return done.stdout


def changed(text, diff):
    """Apply a diff without line numbers. The lines that a hunk removes or repeats occur once in the text."""
    for part in re.split(r"^@@\n", diff, flags=re.MULTILINE):
        lines = part.splitlines(keepends=True)
        before, after = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
        assert text.count(before) == 1, f"not once in the file:\n{before}"
        text = text.replace(before, after)
    return text


@pytest.fixture
def copy(tmp_path):
    """Copy the project without generated files."""
    for name in COPIED:
        if (PROJECT / name).is_dir():
            shutil.copytree(PROJECT / name, tmp_path / name, ignore=LEFT_OUT)
        else:
            shutil.copy(PROJECT / name, tmp_path / name)
    assert Path(run(tmp_path, "-c", "import nbagent; print(nbagent.__file__)").strip()).is_relative_to(tmp_path)
    return tmp_path


def write(copy, recipe):
    """Apply a recipe's blocks to the copy, and return the names of the Python files."""
    blocks = BLOCK.findall(recipe)
    assert len(blocks) == recipe.count("```") / 2, "each block follows the name of its file, and a colon"
    for name, _, language, block in blocks:
        path, code = copy / name, dedent(f"{block}\n")
        path.parent.mkdir(exist_ok=True)
        path.write_text(changed(path.read_text("utf-8"), code) if language == "diff" else code, "utf-8")
    return [name for name, *_ in blocks if name.endswith(".py")]


def test_the_recipes_work_as_written(copy):
    """All recipes share one copy, because loading the package and the tests takes longer than running these."""
    recipes = [
        section(f"Adding {what}") for what in ("a provider", "a skill", "a trace column", "an option of `%%agent`")
    ]
    written = [name for recipe in recipes for name in write(copy, recipe)]
    files, wanted = [], []
    for recipe in recipes:
        (command,) = re.findall(r"`\.venv/bin/pytest ([^`]+)`", recipe)
        paths, _, keyword = command.partition(" -k ")
        files += paths.split()
        wanted += shlex.split(keyword) or [Path(name).stem for name in paths.split()]
    run(copy, "-m", "support.reference")  # `make reference`
    said = run(copy, "-m", "pytest", "-q", "-rp", "-p", "no:cacheprovider", *files, "-k", " or ".join(wanted))
    assert [name for name in files if f"PASSED {name}::" not in said] == []
    run(copy, "-m", "ruff", "check", "--no-cache", *written)
    run(copy, "-m", "ruff", "format", "--no-cache", "--check", *written)


def test_the_table_of_changes_names_files_that_exist():
    rows = section("Where things are").partition("| tests |\n|---|---|---|\n")[2].splitlines()
    assert len(rows) > 50
    for row in rows:
        _, _, code, tests, _ = row.split("|")
        assert list(missing(PROJECT / "nbagent", NAME.findall(code))) == []
        assert list(missing(PROJECT, re.findall(r"`(tests/[^`]+)`", tests) or ["tests of this row"])) == []


def missing(base, names):
    """Return the paths that don't exist, below the base or next to the path before them."""
    beside = base
    for name in names:
        pattern = re.sub(r"<\w+>", "*", name).rstrip("/")
        found = [path for folder in (base, beside) for path in folder.glob(pattern)]
        if not found:
            yield name
        beside = next((path if path.is_dir() else path.parent for path in found), base)

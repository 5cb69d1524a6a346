"""The recipes of CONTRIBUTING.md work: a copy of the project gets their code, and their commands are run there."""

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
#: A path in the table, of which a part may be open: `vendors/<vendor>.py`, `*_tools.py`.
NAME = re.compile(r"`([\w<>*./-]+(?:/|\.(?:py|js|html)))`")
COMMAND = re.compile(r"`(make reference|\.venv/bin/pytest [^`]+)`")


def section(title):
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def run(copy, *command):
    """Run Python where `nbagent` and `support` are those of the copy."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_", "COVERAGE_"))}
    env["PYTHONPATH"] = os.pathsep.join(map(str, [copy, copy / "tests"]))
    done = subprocess.run(
        [sys.executable, *command], cwd=copy, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}"
    return done.stdout


def changed(text, diff):
    """The text after a diff without line numbers: what a part of it removes or repeats stands in the text once."""
    for part in re.split(r"^@@\n", diff, flags=re.MULTILINE):
        lines = part.splitlines(keepends=True)
        before, after = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
        assert text.count(before) == 1, f"not once in the file:\n{before}"
        text = text.replace(before, after)
    return text


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The project, and nothing that was made from it."""
    folder = tmp_path_factory.mktemp("project")
    for name in COPIED:
        if (PROJECT / name).is_dir():
            shutil.copytree(PROJECT / name, folder / name, ignore=LEFT_OUT)
        else:
            shutil.copy(PROJECT / name, folder / name)
    assert run(folder, "-c", "import nbagent; print(nbagent.__file__)").strip() == str(folder / "nbagent/__init__.py")
    return folder


@pytest.mark.parametrize(
    "title", ["Adding a vendor", "Adding a skill", "Adding a trace column", "Adding an option of `%%agent`"]
)
def test_a_recipe_works(copy, title):
    recipe = section(title)
    blocks, touched = BLOCK.findall(recipe), []
    assert len(blocks) == recipe.count("```") / 2, "each block follows the name of its file, and a colon"
    for name, _, language, block in blocks:
        path, code = copy / name, dedent(f"{block}\n")
        path.parent.mkdir(exist_ok=True)
        path.write_text(changed(path.read_text("utf-8"), code) if language == "diff" else code, "utf-8")
        touched += [name] if path.suffix == ".py" else []
    commands = COMMAND.findall(recipe)
    assert len(commands) == 2 - (title == "Adding a skill")
    for command in commands:
        if command == "make reference":
            run(copy, "-m", "support.reference")
        else:
            assert " passed" in run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *shlex.split(command)[1:])
    run(copy, "-m", "ruff", "check", "--no-cache", *touched)
    run(copy, "-m", "ruff", "format", "--no-cache", "--check", *touched)


def test_where_to_change_what_names_files_that_exist():
    rows = section("Where things are").partition("| tests |\n|---|---|---|\n")[2].splitlines()
    assert len(rows) > 50
    for row in rows:
        _, _, code, tests, _ = row.split("|")
        assert list(missing(PROJECT / "nbagent", NAME.findall(code))) == []
        assert list(missing(PROJECT, re.findall(r"`(tests/[^`]+)`", tests) or ["tests of this row"])) == []


def missing(base, names):
    """Those of the paths that are not there, below the base or beside the path before them."""
    beside = base
    for name in names:
        pattern = re.sub(r"<\w+>", "*", name).rstrip("/")
        found = [path for folder in (base, beside) for path in folder.glob(pattern)]
        if not found:
            yield name
        beside = next((path if path.is_dir() else path.parent for path in found), base)

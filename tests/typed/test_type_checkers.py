"""What mypy (strict) and pyright say about programs that use nbagent: all wrong ones are refused, all right ones pass.

basedpyright is pyright in a package that brings its own Node, so that it runs wherever pip does.
"""

import json
import re
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest

from nbagent import Agent
from nbagent.agent.options import AgentOptions

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS = [HERE / "right.py", HERE / "wrong.py"]
Finding = tuple[str, int]


def _output(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def mypy(folder: Path) -> dict[Finding, str]:
    flags = ("--strict", "--no-warn-unreachable", "--cache-dir", ".mypy_cache/typed")
    found = _output(sys.executable, "-m", "mypy", *flags, *map(str, PROGRAMS))
    lines = re.findall(r"^(?:.*/)?(\w+\.py):(\d+): error: (.*)", found, re.MULTILINE)
    return {(name, int(number)): text for name, number, text in lines}


def pyright(folder: Path) -> dict[Finding, str]:
    settings = {"include": list(map(str, PROGRAMS)), "typeCheckingMode": "standard"}
    settings |= {"reportUnnecessaryComparison": "error", "reportUnusedCoroutine": "none"}
    config = folder / "pyrightconfig.json"
    config.write_text(json.dumps(settings))
    found = _output(
        sys.executable, "-m", "basedpyright", "-p", str(config), "--pythonpath", sys.executable, "--outputjson"
    )
    errors = [each for each in json.loads(found)["generalDiagnostics"] if each["severity"] == "error"]
    return {(Path(each["file"]).name, each["range"]["start"]["line"] + 1): each["message"] for each in errors}


def test_load_takes_what_an_agent_takes():
    assert AgentOptions.__optional_keys__ == signature(Agent).parameters.keys() - {"provider", "unknown"}


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_wrong_programs_are_refused_and_right_ones_accepted(checker, tmp_path):
    lines = (HERE / "wrong.py").read_text("utf-8").splitlines()
    wrong = {("wrong.py", number) for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert len(wrong) >= 20
    found = checker(tmp_path)
    assert {place: text for place, text in found.items() if place not in wrong} == {}
    assert wrong - found.keys() == set()

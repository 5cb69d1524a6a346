"""Binder: what mybinder.org would build from binder/.

`make test-all` also installs the environment and does what a visitor does there: `tests/support/binder.py`.
"""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_binder_installs_what_the_project_needs_and_offers():
    lines = (ROOT / "binder/requirements.txt").read_text("utf-8").splitlines()
    project, *others = [line for line in lines if not line.startswith("#")]
    extras = re.fullmatch(r"-e \.\[(.*)\]", project)[1].split(",")
    assert set(extras) <= PROJECT["optional-dependencies"].keys()
    floors = {Requirement(line).name: next(iter(Requirement(line).specifier)).version for line in others}
    assert floors.keys() == {"ipykernel", "jupyterlab", "nbgitpuller"}
    # The image has older ones, which ignore clicks while a cell runs.
    assert floors["ipykernel"] >= "7.4"
    assert floors["jupyterlab"] >= "4.6"
    version = (ROOT / "binder/runtime.txt").read_text("utf-8").strip().removeprefix("python-")
    assert version in SpecifierSet(PROJECT["requires-python"])

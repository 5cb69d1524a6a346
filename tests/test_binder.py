"""Binder: what mybinder.org would build from binder/, and the link that opens it.

`make test-all` also installs the environment, and does in it what a visitor does: `tests/support/binder.py`.
"""

import re
import tomllib
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture
def link(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "binder")
    import link

    return link


def test_what_is_installed_is_what_the_project_needs_and_offers():
    lines = (ROOT / "binder/requirements.txt").read_text("utf-8").splitlines()
    project, *others = [line for line in lines if not line.startswith("#")]
    extras = re.fullmatch(r"-e \.\[(.*)\]", project)[1].split(",")
    assert set(extras) <= PROJECT["optional-dependencies"].keys()
    floors = {Requirement(line).name: next(iter(Requirement(line).specifier)).version for line in others}
    assert floors.keys() == {"ipykernel", "jupyterlab", "nbgitpuller"}
    # The image brings older ones, which take no clicks while a cell runs.
    assert floors["ipykernel"] >= "7.4"
    assert floors["jupyterlab"] >= "4.6"
    version = (ROOT / "binder/runtime.txt").read_text("utf-8").strip().removeprefix("python-")
    assert version in SpecifierSet(PROJECT["requires-python"])


def test_the_link_builds_one_branch_and_pulls_the_other(link):
    for repository, image in [
        ("https://github.com/someone/agents.git", "gh/someone/agents"),
        ("https://gitlab.com/group/room/agents/", "gl/group%2Froom%2Fagents"),
        ("https://git.example.org/agents", "git/https%3A%2F%2Fgit.example.org%2Fagents"),
    ]:
        address = urlsplit(link.link(repository))
        assert f"{address.scheme}://{address.netloc}{address.path}" == f"https://mybinder.org/v2/{image}/binder"
        (pulling,) = parse_qs(address.query)["urlpath"]
        asked = {name: value for name, (value,) in parse_qs(urlsplit(pulling).query).items()}
        assert (asked["repo"], asked["branch"]) == (repository.rstrip("/").removesuffix(".git"), "main")
        assert f'PYTHONPATH="$PWD/{asked["targetpath"]}' in (ROOT / "binder/start").read_text("utf-8")
        assert (ROOT / urlsplit(unquote(asked["urlpath"])).path.removeprefix("lab/tree/latest/")).is_file()
    with pytest.raises(SystemExit, match="https address of a repository, got 'someone/agents'"):
        link.link("someone/agents")

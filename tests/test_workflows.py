"""The workflows for releases and CI: what they run is pinned, and they may do no more than they need."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
#: All that jobs may do beyond reading the repository.
GRANTED = {
    "release.yml/attest": {"id-token": "write", "attestations": "write"},
    "release.yml/publish": {"id-token": "write"},
}


JOBS = [
    pytest.param(path, name, job, id=f"{path.name}/{name}")
    for path in WORKFLOWS
    for name, job in yaml.safe_load(path.read_text("utf-8"))["jobs"].items()
]


def test_there_are_workflows():
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "release.yml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_with_their_version(path):
    used = [line.split("uses:")[1].strip() for line in path.read_text("utf-8").splitlines() if "uses:" in line]
    assert used
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


@pytest.mark.parametrize(("path", "name", "job"), JOBS)
def test_a_job_may_do_no_more_than_it_needs(path, name, job):
    default = yaml.safe_load(path.read_text("utf-8"))["permissions"]
    allowed = job.get("permissions", default)
    expected = GRANTED.get(f"{path.name}/{name}", {"contents": "read"})
    assert allowed == expected
    assert job["timeout-minutes"] <= 120
    for step in job["steps"]:
        if "checkout@" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize(("path", "name", "job"), JOBS)
def test_nothing_of_the_event_is_put_into_a_script(path, name, job):
    assert not [step["run"] for step in job["steps"] if "${{" in step.get("run", "")]


def test_only_the_job_that_publishes_is_trusted_by_the_index_and_it_runs_nothing_of_ours():
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))
    assert [name for name, job in release["jobs"].items() if "environment" in job] == ["publish"]
    assert not [step for step in release["jobs"]["publish"]["steps"] if "run" in step]


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.name
)
def test_issue_forms_are_forms(path):
    form = yaml.safe_load(path.read_text("utf-8"))
    if path.name == "config.yml":
        assert form["blank_issues_enabled"] is False
        return
    assert form["name"]
    assert form["description"]
    ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert len(ids) == len(set(ids)) > 0
    assert all(part["attributes"]["label"] for part in form["body"] if part["type"] != "markdown")

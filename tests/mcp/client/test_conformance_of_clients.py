"""MCP's own conformance suite, from npm: the requirements of each revision for clients, one scenario at a time.

The suite itself would start all clients at the same time, which few machines bear.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.mcp_environment import conformance

pytestmark = pytest.mark.full

CLIENT = Path(__file__).with_name("conformance_client.py")


def required(revision):
    """The client scenarios that a revision requires."""
    listed = subprocess.run(
        conformance("list", "--client", "--requirements", revision), capture_output=True, text=True, check=True
    ).stdout
    scored = listed.partition("Client scenarios")[2].partition("Run and reported")[0]
    return re.findall(r"^  - (\S+)", scored, re.MULTILINE)


@pytest.mark.parametrize(("revision", "count"), [("2025-11-25", 18), ("2026-07-28", 32)])
def test_the_client_meets_a_revisions_requirements(revision, count, tmp_path):
    scenarios, failed = required(revision), {}
    for scenario in scenarios:
        words = ["--command", f"{sys.executable} {CLIENT}", "--scenario", scenario, "--spec-version", revision]
        command = conformance("client", *words, "--timeout", "120000", "--output-dir", str(tmp_path))
        ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        if ran.returncode or "OVERALL: PASSED" not in ran.stdout + ran.stderr:
            failed[scenario] = ran.stdout + ran.stderr
    assert failed == {}
    assert len(scenarios) >= count

"""MCP's own conformance suite, of npm: what each revision requires of a client."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.mcp_environment import conformance

pytestmark = pytest.mark.full

CLIENT = Path(__file__).with_name("conformance_client.py")
#: Many clients are tested at the same time; a busy machine starts them slowly.
TIMEOUT_MS = "240000"


@pytest.mark.parametrize(("revision", "required"), [("2025-11-25", 18), ("2026-07-28", 32)])
def test_a_client_meets_what_a_revision_requires(revision, required, tmp_path):
    options = ["--requirements", revision, "--timeout", TIMEOUT_MS, "--output-dir", str(tmp_path)]
    command = conformance("client", "--command", f"{sys.executable} {CLIENT}", *options)
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    summary = ran.stdout.partition("=== SUITE SUMMARY ===")[2]
    unscored = set(re.findall(r"^  ✗ (\S+) \(", summary, re.MULTILINE))
    failed = set(re.findall(r"^✗ (\S+): .*", summary, re.MULTILINE)) - unscored
    passed = set(re.findall(r"^✓ (\S+): .*", summary, re.MULTILINE))
    assert failed == set(), summary
    assert len(passed) >= required
    assert ran.returncode == 0

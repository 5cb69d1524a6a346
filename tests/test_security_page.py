"""SECURITY.md names existing tests for each threat."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_each_threat_names_a_test():
    rows = [line.split("|")[1:-1] for line in (ROOT / "SECURITY.md").read_text("utf-8").splitlines() if line[:1] == "|"]
    for threat, measure, tests in rows[2:]:
        assert threat.strip()
        assert measure.strip()
        named = re.findall(r"`(tests/[\w/]+\.py)`", tests)
        assert named, threat
        assert all((ROOT / name).is_file() for name in named), tests

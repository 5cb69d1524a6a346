"""`make audit` fails for a known weakness, and never takes silence for a clean result."""

import json

from support import audit

WEAK = {"name": "old", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"], "description": "…"}]}
FINE = {"name": "new", "version": "2.0", "vulns": []}
UNREAD = {"name": "own", "skip_reason": "Dependency not found on PyPI and could not be audited: own (0.1)"}


def verdict(*packages):
    return audit.verdict(json.dumps({"dependencies": packages, "fixes": []}))


def test_a_weakness_fails_and_says_what_helps_unless_it_is_accepted(monkeypatch):
    assert verdict(WEAK, FINE) == (True, "old 1.0: PYSEC-1, fixed in ['1.1']\nAudited 2 of 2 packages, weaknesses: 1.")
    assert verdict(FINE, UNREAD) == (False, "Audited 1 of 2 packages, weaknesses: 0.")
    monkeypatch.setitem(audit.ACCEPTED, "PYSEC-1", "It concerns servers only.")
    failed, text = verdict(WEAK, FINE)
    assert not failed
    assert "PYSEC-1 is accepted: It concerns servers only." in text


def test_nothing_read_is_not_clean():
    for failed, text in (verdict(), verdict(UNREAD, UNREAD), audit.verdict("{", "no route to host")):
        assert not failed
        assert text.startswith("NOT AUDITED")

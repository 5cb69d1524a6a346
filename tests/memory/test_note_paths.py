"""What may be the path of a note."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbagent.errors import ConfigurationError
from nbagent.memory.paths import ROOT, checked_note_path, key_of


def test_refused():
    for path, why in [
        ("/etc/passwd", "begin with /memories"),
        ("preferences.md", "begin with /memories"),
        ("/memoriesx/a", "begin with /memories"),
        ("", "begin with /memories"),
        ("/memories/../../etc/passwd", "not a valid name"),
        ("/memories/./a", "not a valid name"),
        ("/memories//a", "not a valid name"),
        ("/memories/.hidden", "not a valid name"),
        ("/memories/a./b", "not a valid name"),
        ("/memories/ a", "not a valid name"),
        ("/memories/..\\..\\a", "backslashes"),
        ("/memories/%2e%2e%2fa", "%-escapes"),
        ("/memories/．．/a", "not a valid name"),  # wide full stops
        ("/memories/‥/a", "not a valid name"),
        ("/memories/a／..／b", "not a valid name"),
        ("/memories/a\0.md", "control"),
        ("/memories/a\nb", "control"),
        ("/memories/gnp\u202efdp", "invisible"),
        ("/memories/a\u200bb", "invisible"),
        ("/memories/a\u00a0b", "odd spaces"),
        ("/memories/a\ud800", "control"),
        (f"/memories/{'a' * 200}", "more than 200"),
        (f"/memories{'/a' * 7}", "levels"),
    ]:
        with pytest.raises(ConfigurationError, match=why):
            checked_note_path(path)


def test_accepted():
    for path in (ROOT, "/memories/a.md", "/memories/our team/Ü-1 (old).md", "/memories/偏好.md"):
        assert checked_note_path(path) == checked_note_path(f"{path}/") == path


def test_what_looks_the_same_is_the_same():
    keys = {key_of(checked_note_path(f"/memories/{name}")) for name in ("Café.md", "CAFE\u0301.md", "ｃａｆé.md")}
    assert len(keys) == 1
    assert checked_note_path("/memories/cafe\u0301") == "/memories/café"


@given(st.text(max_size=30))
def test_whatever_is_accepted_stays_below_the_root(name):
    try:
        path = checked_note_path(f"/memories/{name}")
    except ConfigurationError:
        return
    for form in (path, key_of(path)):
        assert form == ROOT or form.startswith("/memories/")
        assert not {"", ".", ".."} & set(form.split("/")[1:])
        assert form.isprintable()

"""The built-in skill `log-transform`: log formats, the summary, and refused files."""

import pytest
from pydantic import ValidationError
from support.skills import builtin_skill

log_transform = builtin_skill("log-transform")
PLAIN = """\
2026-01-20 18:19:12,875 INFO app: started worker 1
2026-01-20 18:19:13,100 INFO app: started worker 2
2026-01-20 18:20:00,000 ERROR app: job 17 failed
Traceback (most recent call last):
  File "app.py", line 3, in <module>
ValueError: no error here
2026-01-20 18:21:00,000 WARN app: slow
2026-01-20 18:22:00,000 ERROR app: job 18 failed
"""


def summary(text="", **options):
    return log_transform.run(log_transform.Input(text=text, **options))


def test_levels_messages_range_and_table():
    found = summary(PLAIN, rows=2)
    assert found.counts_by_level == {"INFO": 2, "ERROR": 2, "WARNING": 1}
    assert [(top["message"], top["count"]) for top in found.top_messages][:2] == [
        ("app: started worker #", 2),
        ("app: job # failed", 2),
    ]
    assert found.time_range["start"] == "2026-01-20T18:19:12.875000+00:00"
    assert found.time_range["seconds"] == pytest.approx(167.125)
    assert [row["message"] for row in found.table] == ["app: slow", "app: job 18 failed"]
    assert found.entries == 5
    assert [row["message"] for row in summary(PLAIN, level="ERROR").table] == [
        "app: job 17 failed",
        "app: job 18 failed",
    ]


def test_formats():
    for line, level, time in [
        ("[2026-01-20T18:19:12Z] [error] disk full", "ERROR", "2026-01-20T18:19:12+00:00"),
        ("2026-01-20T18:19:12.5+0200 FATAL disk full", "CRITICAL", "2026-01-20T18:19:12.500000+02:00"),
        ("WARNING:root:disk full", "WARNING", None),
        ('h - - [20/Jan/2026:18:19:12 +0000] "GET / HTTP/1.1" 500 1', "OTHER", "2026-01-20T18:19:12+00:00"),
        ('{"ts": 1768933152, "level": "warn", "msg": "disk full"}', "WARNING", "2026-01-20T18:19:12+00:00"),
        ("Information about errors: the TERROR", "OTHER", None),
        ("{not json} ERROR disk full", "ERROR", None),
    ]:
        row = summary(line).table[0]
        assert (row["level"], row["time"]) == (level, time), line[:99]
        assert row["message"]


def test_only_files_inside_the_folder_are_read(tmp_path, monkeypatch):
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.chdir(root)
    (root / "app.log").write_text(PLAIN, "utf-8")
    assert summary(path="app.log").entries == 5
    (tmp_path / "outside.log").write_text("ERROR secret", "utf-8")
    (root / "binary.log").write_bytes(b"a\0b")
    with (root / "huge.log").open("wb") as file:
        file.truncate(2**40)
    for path, kind, message in [
        (".env", PermissionError, "hidden"),
        ("../outside.log", PermissionError, "inside"),
        ("binary.log", ValueError, "zero bytes"),
        ("huge.log", ValueError, "larger than 50 MB"),
        ("nothing.log", FileNotFoundError, "there is no file 'nothing.log'"),
    ]:
        with pytest.raises(kind, match=message):
            summary(path=path)
    with pytest.raises(ValidationError, match="expected either path or text"):
        log_transform.Input()

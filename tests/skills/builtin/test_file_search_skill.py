"""The built-in skill `file-search`: it never leaves its folder, hangs or reads binary files."""

import os

import pytest
from pydantic import ValidationError
from support.skills import builtin_skill

from nbagent.skills.builtin import folders

file_search = builtin_skill("file-search")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A working folder next to a file with a secret."""
    root = tmp_path / "project"
    (root / "docs").mkdir(parents=True)
    (root / "docs" / "tools.md").write_text("# Tools\nThe Calculator computes.\nno match\n", "utf-8")
    (root / "main.py").write_text("from calculator import mean  # calculator\n", "utf-8")
    (tmp_path / "secret.txt").write_text("calculator secret\n", "utf-8")
    monkeypatch.chdir(root)
    monkeypatch.delenv(folders.VARIABLE, raising=False)
    return root


def search(query="calculator", **options):
    return file_search.run(file_search.Input(query=query, **options))


def test_lines_are_found_in_any_case_with_file_and_number(project):
    found = search()
    assert [(match.path, match.line, match.text) for match in found.matches] == [
        ("main.py", 1, "from calculator import mean  # calculator"),
        (os.path.join("docs", "tools.md"), 2, "The Calculator computes."),
    ]
    assert (found.files_searched, found.complete, found.skipped) == (2, True, {})


def test_a_folder_inside_and_a_limit(project):
    (project / "docs" / "more.md").write_text("calculator\n" * 50, "utf-8")
    found = search(root_dir="docs", limit=5)
    assert [match.path for match in found.matches] == ["more.md"] * 5
    assert not found.complete
    assert search("nothing like it").matches == []


def test_paths_that_lead_out_are_refused(project, tmp_path, monkeypatch):
    for root in ("docs/../..", "/etc", "~"):
        with pytest.raises(PermissionError, match=r"root_dir: expected a path"):
            search(root_dir=root)
    with pytest.raises(PermissionError, match=f"inside {project}, got '..'. Only the user .* {folders.VARIABLE}"):
        search(root_dir="..")
    monkeypatch.setenv(folders.VARIABLE, str(tmp_path))
    assert search(root_dir="..").matches[0].path == "secret.txt"
    with pytest.raises(NotADirectoryError, match="there is no folder 'nowhere'"):
        search(root_dir="nowhere")


def test_links_and_pipes_are_skipped(project, tmp_path):
    (project / "file_link.txt").symlink_to(tmp_path / "secret.txt")
    (project / "folder_link").symlink_to(tmp_path)
    os.mkfifo(project / "pipe")
    found = search()
    assert "secret.txt" not in found.model_dump_json()
    assert found.files_searched == 2
    with pytest.raises(PermissionError):
        search(root_dir="folder_link")


def test_huge_binary_hidden_and_unreadable_files_are_counted(project):
    with (project / "huge.txt").open("wb") as file:
        file.truncate(2**40)  # a hole: a terabyte that takes no space
    (project / "image.bin").write_bytes(b"\x89PNG\0calculator")
    (project / ".env").write_text("calculator_key=1", "utf-8")
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("calculator", "utf-8")
    (project / "latin.txt").write_bytes("Größe calculator".encode("latin-1"))
    with pytest.raises(PermissionError, match="hidden"):
        search(root_dir=".git")
    found = search()
    assert found.skipped == {"it is larger than 2 MB": 1, "it is not text: it contains zero bytes": 1}
    assert [match.path for match in found.matches if "Gr" in match.text] == ["latin.txt"]


def test_a_regular_expression_is_only_text(project):
    (project / "trap.txt").write_text("a" * 100_000 + "!\nthe pattern (a+)+$ is slow\n", "utf-8")
    assert [match.line for match in search("(a+)+$").matches] == [2]


def test_a_time_limit(project, monkeypatch):
    monkeypatch.setattr(file_search, "MAX_SECONDS", -1.0)
    assert (search().files_searched, search().complete) == (1, False)
    with pytest.raises(ValidationError, match="query"):
        search("  ")

"""Skills are read leniently, and what is wrong has a file and a line. skills-ref is the standard's own validator."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from skills_ref import validate
from support.skill_folders import write_executable, write_skill

from nbagent import SkillManifest
from nbagent.errors import ConfigurationError
from nbagent.skills.manifest import load_manifest


def loaded(tmp_path, front_matter, body="# Body"):
    folder = tmp_path / "tea"
    folder.mkdir(exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\n{front_matter}\n---\n{body}", "utf-8")
    manifest, problems = load_manifest(folder, "given")
    for problem in problems:
        assert problem.file == str(folder / "SKILL.md")
    return manifest, [(problem.level, problem.line, problem.message) for problem in problems]


FULL = """name: tea
description: Makes tea. Use it for tea.
license: Apache-2.0
compatibility: Needs a kettle
metadata:
  author: example
  version: 1.0
allowed-tools: Bash(git:*) Read"""


def test_all_fields_of_the_standard(tmp_path):
    manifest, problems = loaded(tmp_path, FULL)
    assert problems == []
    assert validate(tmp_path / "tea") == []
    assert (manifest.name, manifest.license) == ("tea", "Apache-2.0")
    assert manifest.description == "Makes tea. Use it for tea."
    assert manifest.metadata == {"author": "example", "version": "1.0"}
    assert (manifest.compatibility, manifest.allowed_tools) == ("Needs a kettle", "Bash(git:*) Read")
    assert (manifest.body, manifest.is_executable) == ("# Body", False)


def test_what_is_wrong_has_a_line(tmp_path):
    for front_matter, level, line, word in [
        ("name: Tea\ndescription: x", "warning", 2, "lowercase"),
        ("name: tea--pot\ndescription: x", "warning", 2, "single hyphens"),
        ("name: pot\ndescription: x", "warning", 2, "must be the folder's"),
        ("description: x", "warning", None, "name is missing"),
        ("name: tea\ndescription: ''", "error", None, "description is missing"),
        ("name: tea", "error", None, "description is missing"),
        ("name: tea\ndescription: " + "x" * 1025, "warning", 3, "1,025 characters"),
        ("name: tea\ndescription: x\ncompatibility: " + "x" * 501, "warning", 4, "501 characters"),
        ("name: tea\ndescription: Use when: thirsty", "warning", 3, "as if the value were in quotes"),
        ("name: tea\ndescription: [x", "error", 3, "not YAML"),
        ("name: tea\nname: pot\ndescription: x", "warning", 3, "twice"),
        ("name: tea\ndescription: x\ncolour: red", "warning", 4, "unknown field 'colour'"),
        ("name: tea\ndescription: {a: b}", "warning", 3, "must be a text"),
        ("- tea", "error", 2, "key: value"),
        ("name: tea\ndescription: &a x\nmetadata: {b: *a}", "error", 3, "anchors and aliases"),
        ("name: tea\ndescription: x\nmetadata: " + "[" * 30 + "]" * 30, "error", 4, "more than 20 levels"),
        ("name: tea\ndescription: x\nmetadata: {" + "a: b, " * 20_000 + "}", "error", 2, "are read"),
    ]:
        manifest, problems = loaded(tmp_path, front_matter)
        assert (manifest is None) == any(found[0] == "error" for found in problems)
        assert [found for found in problems if found[:2] == (level, line) and word in found[2]], front_matter[:99]


def test_an_object_of_python_is_not_made(tmp_path):
    manifest, _ = loaded(tmp_path, "name: tea\ndescription: x\nlicense: !!python/object:os.system y")
    assert manifest is not None


def test_a_yaml_bomb_is_refused_at_once(tmp_path):
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
        f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    manifest, problems = loaded(tmp_path, f"name: tea\ndescription: x\n{bomb}")
    assert manifest is None
    assert ("error", 4, "this is not YAML: anchors and aliases are not read") in problems


def test_without_front_matter(tmp_path):
    folder = write_skill(tmp_path, "tea")
    for text in ("# Tea", "---\nname: tea\n# no end"):
        (folder / "SKILL.md").write_text(text)
        manifest, (problem,) = load_manifest(folder, "given")
        assert manifest is None
        assert "front matter is missing" in problem.message


def test_huge_binary_and_special_files(tmp_path):
    folder = write_skill(tmp_path, "tea")
    file = folder / "SKILL.md"
    file.write_bytes(b"---\nname: tea\xff\n---")
    assert "not text in UTF-8" in load_manifest(folder, "given")[1][0].message
    file.write_bytes(b"---\nname: tea\0\n---")
    assert "zero bytes" in load_manifest(folder, "given")[1][0].message
    file.write_bytes(b"x" * 1_000_001)
    assert "1,000,001 bytes" in load_manifest(folder, "given")[1][0].message
    file.unlink()
    os.mkfifo(file)
    assert "not a regular file" in load_manifest(folder, "given")[1][0].message
    file.unlink()
    file.symlink_to("/etc/passwd")
    assert "is a link" in load_manifest(folder, "given")[1][0].message


def test_control_characters_are_shown(tmp_path):
    manifest, _ = loaded(tmp_path, 'name: tea\ndescription: "a\\e[31m b\\u202ec"')
    assert manifest.description == "a b⟨U+202E⟩c"


def test_an_executable_skill(tmp_path):
    folder = write_executable(tmp_path, more="timeout: 5\ndescription: Averages.")
    assert validate(folder) == []
    manifest = SkillManifest.load(folder)
    assert (manifest.is_executable, manifest.entry, manifest.timeout) == (True, "skill.py:run", 5.0)
    assert (manifest.own_description, manifest.tool_name, manifest.source) == ("Averages.", "average", "skill:average")


def test_what_is_wrong_with_skill_yaml(tmp_path):
    for number, (more, level, line, word) in enumerate(
        [
            ("timeout: soon", "warning", 3, "timeout must be seconds"),
            ("timeout: .inf", "warning", 3, "timeout must be seconds"),
            ("parameters: {type: array}", "error", 3, "type object"),
            ("document: ../x.md", "warning", 3, "outside"),
            ("when: 2026-99-99", "error", 1, "can't be read"),
        ]
    ):
        _, problems = load_manifest(write_executable(tmp_path / str(number), more=more), "given")
        assert [each for each in problems if (each.level, each.line) == (level, line) and word in each.message], more


def test_entries_that_are_none(tmp_path):
    folder = write_executable(tmp_path)
    for entry in ("other.py:run", "../skill.py:run", "/skill.py:run", "skill.py", "5", "os:system"):
        (folder / "skill.yaml").write_text(f'id: average\nentry: "{entry}"\n')
        manifest, problems = load_manifest(folder, "given")
        assert manifest is None
        assert (problems[0].level, problems[0].line) == ("error", 2)
        with pytest.raises(ConfigurationError, match="skill.yaml:2: "):
            SkillManifest.load(folder)


PIECES = st.sampled_from([
    "---\n", "name: tea\n", "description: x\n", "metadata:\n", "  a: b\n", ": ", "- ", "[", "{", "}", "&a", "*a",
    "!!int x", "|", ">", "'", '"', "\t", "?", "<<: ", "\x00", "\x85", "2026-99-99", "1e999", "#", "%YAML 9", "\n",
])  # fmt: skip


@given(st.lists(PIECES | st.text(max_size=5), max_size=20).map("".join))
def test_any_text_is_a_skill_or_has_a_problem(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("skills", numbered=True)
    for file in ("SKILL.md", "skill.yaml"):
        (folder / file).write_text("---\nname: tea\n" + text, "utf-8", "replace")
    manifest, problems = load_manifest(folder, "given")
    assert manifest is not None or any(problem.level == "error" for problem in problems)
    assert all(problem.line is None or problem.line > 0 for problem in problems)

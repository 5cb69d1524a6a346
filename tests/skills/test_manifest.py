"""Skills are read leniently, and each problem has a file and a line. skills-ref is the standard's own validator."""

import pytest
from skills_ref import validate
from support.skill_folders import write_executable, write_skill

from nbagent.skills.manifest import load_manifest, tool_name
from nbagent.skills.signature import read_signature
from nbagent.skills.untrusted_files import files_inside


def read(folder):
    return load_manifest(folder, "given", files_inside(folder))


def loaded(tmp_path, front_matter, body="# Body"):
    folder = tmp_path / "tea"
    folder.mkdir(exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\n{front_matter}\n---\n{body}", "utf-8")
    manifest, problems = read(folder)
    for problem in problems:
        assert problem.file == str(folder / "SKILL.md")
    return manifest, [(problem.level, problem.line, problem.message) for problem in problems]


def test_a_skill_of_the_standard(tmp_path):
    more = "license: Apache-2.0\nmetadata:\n  version: 1.0\nallowed-tools: Bash(git:*) Read"
    manifest, problems = loaded(tmp_path, f"name: tea\ndescription: Makes tea.\n{more}")
    assert (problems, validate(tmp_path / "tea")) == ([], [])
    assert (manifest.name, manifest.description, manifest.body) == ("tea", "Makes tea.", "# Body")
    assert not manifest.is_executable


def test_problems_in_skill_md(tmp_path):
    for front_matter, level, line, word in [
        ("name: Tea\ndescription: x", "warning", None, "expected the folder's name, in lowercase"),
        ("description: x", "warning", None, "got ''"),
        ("name: tea", "error", None, "description is missing"),
        ("name: tea\ndescription: " + "x" * 1025, "warning", None, "1,025 characters"),
        ("name: tea\ndescription: [x", "error", 3, "not YAML"),
        ("- tea", "error", 2, "key: value"),
        ("name: tea\n? [x]\n: y", "error", 3, "not YAML"),
        ("name: tea\ndescription: &a x\nmetadata: {b: *a}", "error", 4, "YAML aliases are not supported"),
    ]:
        manifest, problems = loaded(tmp_path, front_matter)
        assert (manifest is None) == any(found[0] == "error" for found in problems)
        assert [found for found in problems if found[:2] == (level, line) and word in found[2]], front_matter[:99]


def test_a_colon_needs_no_quotes(tmp_path):
    manifest, problems = loaded(tmp_path, "name: tea\ndescription: Use when: thirsty")
    assert (manifest.description, problems) == ("Use when: thirsty", [])


@pytest.mark.parametrize("name", ["数据分析", "café", "报表-v2", "мой-навык", "मौसम"])
def test_names_in_any_script(tmp_path, name):
    folder = write_executable(tmp_path, name)
    manifest, problems = read(folder)
    assert (manifest.name, problems) == (name, [])
    assert manifest.tool_name == name.replace("-", "_")
    assert name == "मौसम" or validate(folder) == []  # the validator rejects vowel signs


def test_vowel_signs_distinguish_tools():
    assert len({tool_name(name) for name in ("कल", "काल", "कील")}) == 3


def test_unreadable_files(tmp_path):
    file = write_skill(tmp_path, "tea") / "SKILL.md"
    for content, reason in (
        (b"---\nname: tea\0\n---", "not text"),
        (b"x" * (2**21 + 1), "larger than 2 MB"),
        (b"---\nname: tea\n# no end", "front matter is missing"),
    ):
        file.write_bytes(content)
        assert reason in read(file.parent)[1][0].message
    file.unlink()
    file.symlink_to("/etc/passwd")
    assert "is outside" in read(file.parent)[1][0].message


def test_an_executable_skill(tmp_path):
    folder = write_executable(tmp_path, more="timeout: 5\ndescription: Averages.")
    assert validate(folder) == []
    manifest, _ = read(folder)
    assert (manifest.is_executable, manifest.entry, manifest.timeout) == (True, "skill.py:run", 5.0)
    about = (manifest.tool_description, manifest.tool_name)
    assert about == ("Averages.", "average")


TYPED = """
import datetime as dt
from pathlib import Path
from typing import Annotated, Callable, ClassVar, Literal
from pydantic import BaseModel, BaseSettings, Field
MOST = 5
Unit = Literal["m", "km"]

class Part(BaseModel):
    inner: "Part | None" = None

class Color(Enum):
    RED = "red"

class Base(BaseModel):
    model_config = ConfigDict(extra=spy())
    KIND: ClassVar[str] = "x"
    _seen: int
    start: str = Field(alias="from")

class Input(Base):
    color: Color
    count: float = Field(ge=1, lt=MOST, description="How many")
    names: list[str] = Field(default_factory=list, max_length=3)
    unit: Unit = "m"
    day: dt.date | None = None
    part: Annotated[Part, Field(description="A part")]
    odd: numpy.ndarray = make()
    code: Literal[exit()]
    more: exit()

    @field_validator("unit")
    def _checked(cls, value): ...

def run(request: Input): ...
async def plain(day: str, *, sizes: dict[str, float], path: Path, key: Callable = len): ...
def color(color: Color): ...
def wrong(day: str = Field(pattern="(")): ...
"""


def test_parameters_are_read_without_running_code(tmp_path):
    def parameters(function):
        return read_signature(f"1 / 0\n{TYPED}", function)[0]

    inner = {"anyOf": [{}, {"type": "null"}], "default": None}
    assert parameters("run") == {
        "type": "object",
        "properties": {
            "from": {"type": "string"},
            "color": {},
            "count": {"type": "number", "minimum": 1, "exclusiveMaximum": 5, "description": "How many"},
            "names": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
            "unit": {"enum": ["m", "km"], "type": "string", "default": "m"},
            "day": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
            "part": {"$ref": "#/$defs/Part", "description": "A part"},
            "odd": {},
            "code": {},
            "more": {},
        },
        "required": ["from", "color", "count", "part", "code", "more"],
        "$defs": {"Part": {"title": "Part", "type": "object", "properties": {"inner": inner}}},
    }
    properties = {"day": {"type": "string"}, "sizes": {"type": "object", "additionalProperties": {"type": "number"}}}
    properties |= {"path": {"type": "string", "format": "path"}, "key": {}}
    assert parameters("plain") == {"type": "object", "properties": properties, "required": ["day", "sizes", "path"]}
    assert parameters("color") == {"type": "object", "properties": {"color": {}}, "required": ["color"]}
    doubled = "A0 = int\n" + "".join(f"A{n + 1} = dict[A{n}, A{n}]\n" for n in range(40))
    assert len(str(read_signature(f"{doubled}def run(a: A40): ...", "run"))) < 200_000
    assert parameters("wrong") == {"type": "object", "properties": {}}
    for source in ("def run(", "def other(): ...", "(" * 10_000, "\0"):
        assert read_signature(source, "run") is None
    with pytest.raises(TypeError, match=r"run accepts \*nums: make it a list"):
        read_signature("def run(*nums): ...", "run")


def test_problems_in_skill_yaml(tmp_path):
    folder = write_executable(tmp_path)
    for text, reason in {
        "timeout: soon": "timeout: Input should be a valid number",
        "timeout: !!bool maybe": "can't be read",
        "entry: other.py:run": "entry: 'other.py' can't be read",
        "entry: ../skill.py:run": "entry: '../skill.py' is outside",
        "entry: skill.py:walk": "has no function 'walk'",
        "entry: os:system": "entry: 'os' can't be read",
    }.items():
        (folder / "skill.yaml").write_text(text)
        manifest, (problem,) = read(folder)
        assert (manifest, reason in problem.message) == (None, True), (text, problem)

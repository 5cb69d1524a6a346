"""`SkillManifest`: the description of a skill. Reading it runs none of the skill's code.

A skill is a folder with a `SKILL.md` in the format of https://agentskills.io/specification. A skill with a Python
entry, by default the function `run` in `skill.py`, is executable; a `skill.yaml` can add details. Skills are written
for many programs, so loading is lenient: it uses what it can and reports each deviation as a `Problem`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nbagent.checks import problem_in
from nbagent.core.render.control_chars import show_control_chars
from nbagent.errors import ToolError
from nbagent.functions.registry import MAX_NAME, clean_name
from nbagent.skills.signature import read_signature
from nbagent.skills.untrusted_files import File, RefusedFileError, files_inside, read_text_inside

SKILL_FILE, EXECUTABLE_FILE, ENTRY_FILE = "SKILL.md", "skill.yaml", "skill.py"
#: Limits in characters: the specification's for a description, and ours for YAML, which is slow to parse.
MAX_DESCRIPTION, MAX_YAML = 1_024, 64_000
_FRONT_MATTER = re.compile(r"\s*^---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
#: A value that contains a colon, which YAML would read as another key: `description: Use it when: …`.
_UNQUOTED = re.compile(r"^([A-Za-z][\w-]*):[ \t]+([^\s'\"|>\[{&*!#].*?:(?: .*?)?)[ \t]*$", re.MULTILINE)


class Problem(NamedTuple):
    """A problem in a skill's file. `line` locates a YAML error. A skill with an error is not used."""

    level: Literal["error", "warning"]
    skill: str
    message: str
    file: str
    line: int | None = None


@dataclass(frozen=True)
class SkillManifest:
    """A skill: its name, description and folder. `body` is its instructions, `files` the files in its folder.

    For an executable skill, `entry` names the function to call (`skill.py:run`), `parameters` is the JSON Schema of its
    input, and `timeout` is the time limit of a call in seconds. The model reads `tool_description`, which comes from
    `skill.yaml`, else from the function's docstring, else from `SKILL.md`. If `for_people_only` is true
    (`disable-model-invocation`), the skill is not offered to models. `scope` is where the skill was found: "given",
    "project", "user", "package" or "builtin".
    """

    name: str
    description: str
    folder: Path
    body: str = field(default="", repr=False)
    scope: str = "given"
    for_people_only: bool = False
    id: str = ""
    entry: str | None = None
    timeout: float = 0.0
    parameters: dict[str, Any] | None = None
    tool_description: str = ""
    files: tuple[File, ...] = field(default=(), repr=False)

    @property
    def is_executable(self) -> bool:
        """Whether the skill has a Python entry, which makes it a tool."""
        return self.entry is not None

    @property
    def tool_name(self) -> str:
        """The name of an executable skill's tool."""
        return tool_name(self.id or self.name)

    def check_trusted(self) -> None:
        """Raise `ToolError` if this is a project's skill and one of its files has changed since the user trusted it."""
        if self.scope == "project" and files_inside(self.folder) != self.files:
            remedy = "The user can trust them again: %agent skills trust, or host.trust()."
            raise ToolError(f"The files of {self.name!r} have changed since they were trusted. {remedy}")


def tool_name(skill_id: str) -> str:
    """The name of a skill's tool.

    >>> tool_name("file-search"), tool_name("数据分析"), tool_name("मौसम")
    ('file_search', '数据分析', 'मौसम')
    """
    return clean_name(skill_id.replace("-", "_"))[:MAX_NAME]


def load_manifest(folder: Path, scope: str, files: tuple[File, ...]) -> tuple[SkillManifest | None, list[Problem]]:
    """Return the skill in a folder and its problems. An unusable skill is None, and its error comes last."""
    reader = _Reader(folder)
    try:
        link = next((file.name for file in files if (folder / file.name).is_symlink()), None)
        if link and scope == "project":  # its target can change, and is not part of the digest
            raise _BrokenSkillError(f"{link} is a link, and links can't be trusted")
        fields = reader.fields()
    except (_BrokenSkillError, RefusedFileError) as error:
        reader.add("error", str(error).rstrip("."), getattr(error, "line", None))
        return None, reader.problems
    return SkillManifest(folder=folder, scope=scope, files=files, **fields), reader.problems


class _BrokenSkillError(Exception):
    """The reason why a skill can't be used, with the `line` of a YAML error."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class _FrontMatter(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    name: str = ""
    description: str = ""
    for_people_only: bool = Field(default=False, alias="disable-model-invocation")


class _SkillYAML(BaseModel):
    """`timeout` is in seconds; `parameters` is a JSON Schema."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    id: str = ""
    description: str = ""
    entry: str = "skill.py:run"
    timeout: float = Field(default=30.0, gt=0, le=3_600)
    parameters: dict[str, Any] | None = None


_Model = TypeVar("_Model", bound=BaseModel)


class _Reader:
    """Reads a skill's files and collects problems. Raises `_BrokenSkillError` if the skill is unusable."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[Problem] = []
        #: The file being read, to which problems are attributed.
        self._file = SKILL_FILE

    def add(self, level: Literal["error", "warning"], message: str, line: int | None = None) -> None:
        name, message, path = map(show_control_chars, (self.folder.name, message, str(self.folder / self._file)))
        self.problems.append(Problem(level, name, message, path, line))

    def fields(self) -> dict[str, Any]:
        """The fields of the manifest."""
        executable, about = self._executable(), self._instructions()
        if not executable and not about["description"]:
            raise _BrokenSkillError("the description is missing or empty: models need it to find the skill")
        return about | {"tool_description": about["description"]} | executable

    def _text(self, file: str) -> str:
        self._file = file
        return read_text_inside(self.folder, file)

    def _instructions(self) -> dict[str, Any]:
        """The fields of `SKILL.md`."""
        text = self._text(SKILL_FILE)
        found = _FRONT_MATTER.match(text)
        if found is None:
            expected = "start the file with a line of three hyphens, and end the front matter with another"
            raise _BrokenSkillError(f"the front matter is missing: {expected}")
        read = _read_yaml(_FrontMatter, found[1].rstrip(), text.count("\n", 0, found.start(1)) + 1)
        description = show_control_chars(read.description.strip())
        if len(description) > MAX_DESCRIPTION:
            self.add("warning", f"description has {len(description):,} characters: it is cut to {MAX_DESCRIPTION:,}")
        return {
            "name": self._name(read.name.strip()),
            "description": description[:MAX_DESCRIPTION],
            "body": text[found.end() :].strip(),
            "for_people_only": read.for_people_only,
        }

    def _name(self, written: str) -> str:
        """The name in its usable form, or the folder's name if there is none."""
        written, folder = (unicodedata.normalize("NFKC", name) for name in (written, self.folder.name))
        name = re.sub("[-_]+", "-", clean_name((written or folder).lower()))[:MAX_NAME].strip("-")
        if not name:
            raise _BrokenSkillError("the skill has no usable name")
        if not written == name == folder:
            expected = "expected the folder's name, in lowercase letters, digits and single hyphens"
            self.add("warning", f"name: {expected}, got {written[:80]!r}")
        return name

    def _executable(self) -> dict[str, Any]:
        """The fields of `skill.yaml` and of the entry; empty without an entry."""
        has_yaml, has_entry = ((self.folder / name).exists() for name in (EXECUTABLE_FILE, ENTRY_FILE))
        if not has_yaml and not has_entry:
            return {}
        read = _read_yaml(_SkillYAML, self._text(EXECUTABLE_FILE)) if has_yaml else _SkillYAML()
        file, _, function = read.entry.rpartition(":")
        try:
            signature = read_signature(read_text_inside(self.folder, file), function)
        except (RefusedFileError, TypeError) as error:
            raise _BrokenSkillError(f"entry: {error}") from None
        if signature is None:
            if not has_yaml:
                return {}  # a script that happens to be called skill.py
            raise _BrokenSkillError(f"entry: {file} is not Python, or has no function {function!r}")
        parameters, docstring = signature
        description = show_control_chars((read.description or docstring).strip())
        return {
            "id": show_control_chars(read.id or self.folder.name),
            "entry": read.entry,
            "timeout": read.timeout,
            "parameters": read.parameters or parameters,
        } | ({"tool_description": description} if description else {})


def _read_yaml(model: type[_Model], text: str, first_line: int = 1) -> _Model:
    """Read YAML that starts in this line of its file."""
    if len(text) > MAX_YAML:
        raise _BrokenSkillError(f"the YAML has {len(text):,} characters; the maximum is {MAX_YAML:,}", first_line)
    text = _UNQUOTED.sub(lambda line: f"{line[1]}: {json.dumps(line[2])}", text)
    try:
        # aliases let a few lines expand to gigabytes
        if alias := next((token for token in yaml.scan(text) if isinstance(token, yaml.AliasToken)), None):
            raise _BrokenSkillError("YAML aliases are not supported", first_line + alias.start_mark.line)
        values = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = first_line + (mark.line if mark is not None else 0)
        raise _BrokenSkillError(f"this is not YAML: {getattr(error, 'problem', None) or error}", line) from None
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:  # such as `!!bool maybe`
        raise _BrokenSkillError(f"a value can't be read: {error}", first_line) from None
    if not isinstance(values, dict):
        raise _BrokenSkillError("expected `key: value` lines", first_line)
    try:
        return model.model_validate({key: value for key, value in values.items() if value is not None})
    except ValidationError as error:
        raise _BrokenSkillError(problem_in(error), first_line) from None

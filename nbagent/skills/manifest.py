"""`SkillManifest`: what is known of a skill before it is used. Reading it runs none of its code.

A skill is a folder with a `SKILL.md` in the format of https://agentskills.io/specification. One with a Python entry, by
default the function `run` of `skill.py`, is executable; a `skill.yaml` can say more of it. Loading is lenient, since
skills are written for many programs: what can be used is used, and each departure is a `Problem`.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from nbagent.checks import problem_in
from nbagent.core.render.control_chars import show_control_chars
from nbagent.errors import ToolError
from nbagent.skills.front_matter import BrokenSkillError, read_mapping, split_front_matter
from nbagent.skills.inside import MAX_FILES, File, RefusedFileError, files_inside, read_text_inside

SKILL_FILE, EXECUTABLE_FILE, ENTRY_FILE = "SKILL.md", "skill.yaml", "skill.py"
#: Characters of a name and a description, as the specification has them.
MAX_NAME, MAX_DESCRIPTION = 64, 1_024


class Problem(NamedTuple):
    """Something that is wrong with a skill's file; `line` is where the YAML breaks. After an error it is not used."""

    level: Literal["error", "warning"]
    skill: str
    message: str
    file: str
    line: int | None = None


@dataclass(frozen=True)
class SkillManifest:
    """A skill: its name, what it is for, and where it is. `body` holds its instructions, `files` what is in its folder.

    Of an executable skill, `entry` names the function to call (`skill.py:run`), `parameters` is the JSON Schema of its
    input, `timeout` the seconds of a call, and `tool_description` what a model reads of it: the description of
    `skill.yaml`, else the function's docstring, else that of `SKILL.md`. A skill `for_people_only` is not offered to
    models (`disable-model-invocation`). `scope` is where the skill was found: "given", "project", "user", "package" or
    "builtin".
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
        """Whether it has a Python entry, which is then a tool."""
        return self.entry is not None

    @property
    def tool_name(self) -> str:
        """The name of an executable skill's tool."""
        return tool_name(self.id or self.name)

    @property
    def source(self) -> str:
        """What `trace.tool_calls.source` says of its calls."""
        return f"skill:{self.name}"

    def check_trusted(self) -> None:
        """Raises `ToolError` if it is a project's, and a file has changed since the user trusted it."""
        if self.scope == "project" and files_inside(self.folder) != self.files:
            remedy = "The user can trust them again: %agent skills trust, or host.trust()."
            raise ToolError(f"The files of {self.name!r} have changed since they were trusted. {remedy}")


def tool_name(skill_id: str) -> str:
    """The name of a skill's tool. Vowel signs are left out, as names of functions have none: a hash stands for them.

    >>> tool_name("file-search"), tool_name("数据分析"), tool_name("मौसम")
    ('file_search', '数据分析', 'म_सम_50ac9a')
    """
    plain = re.sub(r"\W+", "_", skill_id)
    if re.search(r"[^\w\0-\x7f]", skill_id):
        plain = f"{plain.strip('_')[: MAX_NAME - 7]}_{hashlib.sha256(skill_id.encode()).hexdigest()[:6]}"
    return plain[:MAX_NAME]


def load_manifest(folder: Path, scope: str, files: tuple[File, ...]) -> tuple[SkillManifest | None, list[Problem]]:
    """A folder's skill, or None if it can't be used, and what is wrong with it: the error that stopped it is last."""
    reader = _Reader(folder, {each.name for each in files})
    try:
        if scope == "project":
            reader.check_can_be_trusted(files)
        fields = reader.fields()
    except (BrokenSkillError, RefusedFileError) as error:
        reader.add("error", str(error).rstrip("."), getattr(error, "line", None))
        return None, reader.problems
    return SkillManifest(folder=folder, scope=scope, files=files, **fields), reader.problems


class _Reader:
    """Reads the files of a skill, and collects what is wrong. Raises `BrokenSkillError` for what makes it unusable."""

    def __init__(self, folder: Path, names: set[str]) -> None:
        self.folder, self.names = folder, names
        self.problems: list[Problem] = []
        #: The file that is read now, which the problems are of.
        self._file = SKILL_FILE

    def add(self, level: Literal["error", "warning"], message: str, line: int | None = None) -> None:
        name, message, path = map(show_control_chars, (self.folder.name, message, str(self.folder / self._file)))
        self.problems.append(Problem(level, name, message, path, line))

    def check_can_be_trusted(self, files: Sequence[File]) -> None:
        if len(files) > MAX_FILES:
            raise BrokenSkillError(f"more than {MAX_FILES:,} files can't be trusted")
        for each in files:  # what they lead to can change, and is not in the digest
            if (self.folder / each.name).is_symlink():
                raise BrokenSkillError(f"{each.name} is a link, and links can't be trusted")

    def fields(self) -> dict[str, Any]:
        """The fields of the manifest."""
        executable, about = self._executable(), self._skill_file()
        if not executable and not about["description"]:
            raise BrokenSkillError("the description is missing or empty: it is how a model finds the skill")
        return about | {"tool_description": about["description"]} | executable

    def _text(self, file: str) -> str:
        self._file = file
        return read_text_inside(self.folder, file)

    def _skill_file(self) -> dict[str, Any]:
        """What `SKILL.md` says."""
        found = split_front_matter(self._text(SKILL_FILE))
        if found is None:
            raise BrokenSkillError(
                "the front matter is missing: begin the file with a line ---, and end it with another"
            )
        front_matter, body, first_line = found
        values = read_mapping(front_matter, first_line, plain=True)
        texts = {key: show_control_chars(value.strip()) for key, value in values.items() if isinstance(value, str)}
        description = texts.get("description", "")
        if len(description) > MAX_DESCRIPTION:
            self.add("warning", f"description has {len(description):,} characters: it is cut to {MAX_DESCRIPTION:,}")
        return {
            "name": self._name(texts.get("name")),
            "description": description[:MAX_DESCRIPTION],
            "body": body,
            "for_people_only": texts.get("disable-model-invocation", "").lower() == "true",
        }

    def _name(self, given: str | None) -> str:
        """The name as it can be used; without one, the folder's."""
        folder = unicodedata.normalize("NFKC", self.folder.name)
        name = unicodedata.normalize("NFKC", given or folder)
        # letters, digits, and the marks that Hindi and other scripts need
        chars = (char if char.isalnum() or unicodedata.category(char).startswith("M") else " " for char in name.lower())
        usable = "-".join("".join(chars).split())[:MAX_NAME].strip("-")
        if not usable:
            raise BrokenSkillError("the skill has no usable name")
        if not given:
            self.add("warning", "the name is missing: the folder's name is used")
        elif not name == usable == folder:
            what = "must be the folder's, of lowercase letters, digits and single hyphens"
            self.add("warning", f"the name {name[:80]!r} {what}")
        return usable

    def _executable(self) -> dict[str, Any]:
        """What `skill.yaml` and the entry say; nothing if there is no entry."""
        if EXECUTABLE_FILE not in self.names and ENTRY_FILE not in self.names:
            return {}
        from pydantic import ValidationError

        from nbagent.skills.signature import SkillYAML, read_signature

        values = read_mapping(self._text(EXECUTABLE_FILE)) if EXECUTABLE_FILE in self.names else {}
        try:
            said = SkillYAML.model_validate(values)
            file, _, function = said.entry.rpartition(":")
            read = read_signature(read_text_inside(self.folder, file), function)
        except ValidationError as error:
            raise BrokenSkillError(problem_in(error)) from None
        except (RefusedFileError, TypeError) as error:
            raise BrokenSkillError(f"entry: {error}") from None
        if read is None and not values:
            return {}  # a script that is called skill.py
        if read is None:
            raise BrokenSkillError(f"entry: {file} is not Python, or has no function {function!r}")
        description = show_control_chars((said.description or read[1]).strip())
        return {
            "id": show_control_chars(said.id or self.folder.name),
            "entry": said.entry,
            "timeout": said.timeout,
            "parameters": said.parameters or read[0],
        } | ({"tool_description": description} if description else {})

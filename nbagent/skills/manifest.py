"""`SkillManifest`: what is known of a skill before it is used, read from its `SKILL.md` and `skill.yaml`.

The format of `SKILL.md` is the Agent Skills specification's (https://agentskills.io/specification). Loading is lenient,
since skills are written for many programs: what can be used is used, and each departure is a `Problem`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from nbagent.core.render.control_chars import show_control_chars
from nbagent.skills.front_matter import Fields, read_yaml, split_front_matter
from nbagent.skills.inside import RefusedFileError, checked_inside, read_text_inside

SKILL_FILE, EXECUTABLE_FILE = "SKILL.md", "skill.yaml"
#: Bytes of a `SKILL.md` or `skill.yaml`; characters of a name, a description and a compatibility note.
MAX_FILE, MAX_NAME, MAX_DESCRIPTION, MAX_COMPATIBILITY = 1_000_000, 64, 1_024, 500
#: Seconds that a call of an executable skill may take, unless its manifest says otherwise.
TIMEOUT_S, MAX_TIMEOUT_S = 30.0, 3_600.0

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_ENTRY = re.compile(r"([^:]+\.py):([A-Za-z_]\w*)")
_KNOWN = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
_KNOWN_EXECUTABLE = {"id", "description", "entry", "timeout", "document", "parameters"}


class Problem(NamedTuple):
    """Something that is wrong with a skill's file, in this line. After an error the skill is not used."""

    level: Literal["error", "warning"]
    skill: str
    message: str
    file: str
    line: int | None = None


@dataclass(frozen=True)
class SkillManifest:
    """A skill: its name, what it is for, and where it is. `body` holds its instructions.

    Of an executable skill, `entry` names the function to call (`skill.py:run`), `timeout` the seconds of a call,
    `parameters` the JSON Schema of its input if the manifest gives one, and `document` the file that describes it.
    `allowed_tools` is what the skill's author asks for; it allows nothing. `scope` is where the skill was found:
    "given", "project", "user", "package" or "builtin".

    >>> manifest = SkillManifest.load("skills/pdf-processing")              # doctest: +SKIP
    >>> manifest.name, manifest.is_executable                               # doctest: +SKIP
    ('pdf-processing', False)
    """

    name: str
    description: str
    folder: Path
    body: str = field(default="", repr=False)
    scope: str = "given"
    license: str | None = None
    compatibility: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    allowed_tools: str | None = None
    id: str = ""
    entry: str | None = None
    timeout: float = TIMEOUT_S
    parameters: dict[str, Any] | None = None
    document: str | None = None
    #: What `skill.yaml` says, "" if nothing. It comes before the function's docstring, and this before `description`.
    own_description: str = ""

    @property
    def is_executable(self) -> bool:
        """Whether it has a Python entry, which is then a tool."""
        return self.entry is not None

    @property
    def tool_name(self) -> str:
        """The name of an executable skill's tool."""
        return re.sub(r"[^a-zA-Z0-9_]", "_", self.id or self.name)[:MAX_NAME]

    @property
    def source(self) -> str:
        """What `trace.tool_calls.source` says of its calls."""
        return f"skill:{self.name}"

    @classmethod
    def load(cls, folder: str | Path) -> SkillManifest:
        """The skill in a folder. Raises `ConfigurationError` with the first error if it can't be used."""
        from nbagent.errors import ConfigurationError

        manifest, problems = load_manifest(Path(folder).expanduser().resolve(), "given")
        if manifest is None:
            problem = next(each for each in problems if each.level == "error")
            place = f"{problem.file}:{problem.line}" if problem.line else problem.file
            raise ConfigurationError(f"{place}: {problem.message}.")
        return manifest


def load_manifest(folder: Path, scope: str) -> tuple[SkillManifest | None, list[Problem]]:
    """A folder's skill, or None if it can't be used, and what is wrong with it."""
    reader = _Reader(folder)
    fields = reader.skill_file() if os.path.lexists(folder / SKILL_FILE) else {}
    executable = reader.executable() if os.path.lexists(folder / EXECUTABLE_FILE) else {}
    if not fields and not reader.is_broken:
        reader.warn(f"there is no {SKILL_FILE}: other programs can't use the skill", EXECUTABLE_FILE)
        fields = {"name": folder.name, "description": executable.get("own_description", ""), "body": ""}
    if not reader.is_broken and not fields["description"] and not executable:
        reader.fail("the description is missing or empty: it is how a model finds the skill", SKILL_FILE)
    if reader.is_broken:
        return None, reader.problems
    return SkillManifest(folder=folder, scope=scope, **{**fields, **executable}), reader.problems


class _Reader:
    """Reads the two files of a skill, and collects what is wrong."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[Problem] = []
        self._fields = Fields()

    @property
    def is_broken(self) -> bool:
        return any(problem.level == "error" for problem in self.problems)

    def warn(self, message: str, file: str, key: str = "", line: int | None = None) -> None:
        self._add("warning", message, file, line or self._fields.lines.get(key))

    def fail(self, message: str, file: str, key: str = "", line: int | None = None) -> None:
        self._add("error", message, file, line or self._fields.lines.get(key))

    def _add(self, level: Literal["error", "warning"], message: str, file: str, line: int | None) -> None:
        name, path = show_control_chars(self.folder.name), str(self.folder / file)
        self.problems.append(Problem(level, name, show_control_chars(message), show_control_chars(path), line))

    def _read(self, file: str) -> str | None:
        try:
            return read_text_inside(self.folder, file, MAX_FILE)
        except RefusedFileError as error:
            self.fail(str(error).rstrip("."), file)
            return None

    def _read_fields(self, file: str, text: str, first_line: int, known: set[str], *, plain: bool) -> bool:
        """Whether the YAML could be read."""
        self._fields = read_yaml(text, first_line, plain=plain)
        for line, message in self._fields.problems:
            (self.fail if self._fields.is_broken else self.warn)(message, file, line=line)
        for key in self._fields.values.keys() - known:
            self.warn(f"unknown field {key!r}; known are {', '.join(sorted(known))}", file, key)
        return not self._fields.is_broken

    # -- SKILL.md -----------------------------------------------------------------------------------------------------

    def skill_file(self) -> dict[str, Any]:
        if (text := self._read(SKILL_FILE)) is None:
            return {}
        front_matter, body, first_line = split_front_matter(text)
        if front_matter is None:
            self.fail(
                "the front matter is missing: begin the file with a line ---, and end it with another", SKILL_FILE
            )
            return {}
        if not self._read_fields(SKILL_FILE, front_matter, first_line, _KNOWN, plain=True):
            return {}
        name = self._name()
        description = self._text("description", MAX_DESCRIPTION) or ""
        metadata = self._fields.values.get("metadata") or {}
        if not isinstance(metadata, dict):
            self.warn("metadata must be a mapping of texts", SKILL_FILE, "metadata")
            metadata = {}
        return {
            "name": name,
            "description": description,
            "body": body,
            "license": self._text("license"),
            "compatibility": self._text("compatibility", MAX_COMPATIBILITY),
            "metadata": {str(key): str(value) for key, value in metadata.items()},
            "allowed_tools": self._text("allowed-tools"),
        }

    def _name(self) -> str:
        """The name as it can be used; without a usable one, the folder's."""
        name = self._text("name") or ""
        if not name:
            self.warn("the name is missing: the folder's name is used", SKILL_FILE, "name", None)
        elif not _NAME.fullmatch(name) or len(name) > MAX_NAME:
            text = f"the name {name[:80]!r} must be 1 to {MAX_NAME} lowercase letters, digits and single hyphens"
            self.warn(text, SKILL_FILE, "name")
        elif name != self.folder.name:
            self.warn(f"the name {name!r} must be the folder's, {self.folder.name!r}", SKILL_FILE, "name")
        usable = re.sub(r"[^a-z0-9]+", "-", (name or self.folder.name).lower()).strip("-")[:MAX_NAME].strip("-")
        if not usable:
            self.fail("the skill has no usable name", SKILL_FILE, "name")
        return usable

    def _text(self, key: str, limit: int | None = None) -> str | None:
        """A field that is a text, cut to `limit` characters."""
        value = self._fields.values.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self.warn(f"{key} must be a text", SKILL_FILE, key)
            return None
        value = show_control_chars(value.strip())
        if limit is not None and len(value) > limit:
            self.warn(f"{key} has {len(value):,} characters: it is cut to {limit:,}", SKILL_FILE, key)
        return value[:limit]

    # -- skill.yaml ---------------------------------------------------------------------------------------------------

    def executable(self) -> dict[str, Any]:
        text = self._read(EXECUTABLE_FILE)
        if text is None or not self._read_fields(EXECUTABLE_FILE, text, 1, _KNOWN_EXECUTABLE, plain=False):
            return {}
        values = self._fields.values
        found: dict[str, Any] = {
            "id": str(values.get("id") or self.folder.name),
            "own_description": show_control_chars(str(values.get("description") or "").strip()),
            "entry": self._entry(values.get("entry")),
            "timeout": self._timeout(values.get("timeout", TIMEOUT_S)),
            "document": self._document(values.get("document")),
        }
        parameters = values.get("parameters")
        if parameters is not None and not (isinstance(parameters, dict) and parameters.get("type") == "object"):
            self.fail("parameters must be a JSON Schema of type object", EXECUTABLE_FILE, "parameters")
        return {**found, "parameters": parameters}

    def _entry(self, value: Any) -> str:
        match = _ENTRY.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            self.fail(f"entry must be like 'skill.py:run', got {value!r}", EXECUTABLE_FILE, "entry")
            return ""
        try:
            checked_inside(self.folder, match[1])
        except RefusedFileError as error:
            self.fail(f"entry: {str(error).rstrip('.')}", EXECUTABLE_FILE, "entry")
            return ""
        return match[0]

    def _timeout(self, value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or not 0 < value <= MAX_TIMEOUT_S:
            text = f"timeout must be seconds, up to {MAX_TIMEOUT_S:g}, got {value!r}: {TIMEOUT_S:g} is used"
            self.warn(text, EXECUTABLE_FILE, "timeout")
            return TIMEOUT_S
        return float(value)

    def _document(self, value: Any) -> str | None:
        """The file's name, if it can be read; its text is read when it is needed."""
        if value is None:
            return None
        try:
            read_text_inside(self.folder, str(value), MAX_FILE)
        except RefusedFileError as error:
            self.warn(str(error).rstrip("."), EXECUTABLE_FILE, "document")
            return None
        return str(value)

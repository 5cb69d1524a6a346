"""Progressive disclosure: the model reads names and descriptions first, then instructions and files as it needs them.

A skill's text is data that somebody wrote. It becomes a part of the conversation, and changes nothing else: scripts
need approval each time, whatever the text or its `allowed-tools` say.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nbagent.core.content.marks import without_marks
from nbagent.core.current import current
from nbagent.core.render.control_chars import show_control_chars
from nbagent.errors import ToolError
from nbagent.functions.registry import FunctionDefinition
from nbagent.skills.inside import RefusedFileError, checked_inside, files_inside, read_text_inside
from nbagent.skills.manifest import EXECUTABLE_FILE, SKILL_FILE, SkillManifest
from nbagent.skills.processes import Finished, ProcessLimits, run_limited

ACTIVATE, READ, RUN = "activate_skill", "read_skill_file", "run_skill_script"
#: Bytes of a file that can be read, characters of one answer, characters of instructions.
MAX_RESOURCE, RESOURCE_CHARS, MAX_BODY = 2_000_000, 15_000, 200_000
MAX_SCRIPT_ARGUMENTS = 200
#: Seconds that stopping a script may take beyond its limit.
_MORE_TIME_S = 15.0
#: What runs a script, by the end of its name.
_INTERPRETERS = {".py": [sys.executable], ".sh": ["bash"], ".bash": ["bash"], ".js": ["node"], ".mjs": ["node"]}

_INTRODUCTION = (
    f"Skills are instructions for particular tasks. If a task matches a description, call {ACTIVATE} with the skill's "
    "name before you begin."
)


def catalogue(skills: Iterable[SkillManifest]) -> str:
    """What the system prompt says of the skills that can be activated; "" if there are none."""
    lines = [f"- {each.name}: {' '.join(each.description.split())}" for each in skills]
    return "\n".join([_INTRODUCTION, *lines]) if lines else ""


def wrapped(skill: SkillManifest) -> str:
    """A skill's instructions, between marks, with the names of its files."""
    body, names = show_control_chars(skill.body), resources(skill)
    if len(body) > MAX_BODY:
        body = f"{body[:MAX_BODY]}\n… ({len(body) - MAX_BODY:,} more characters are in {SKILL_FILE})"
    lines = [f'<skill_content name="{skill.name}">', without_marks(body, "skill_")]
    if names:
        lines.append(f"\n<skill_files> (call {READ} to read one)")
        lines += [without_marks(show_control_chars(name), "skill_") for name in names]
        lines.append("</skill_files>")
    return "\n".join([*lines, "</skill_content>"])


def is_active(skill: SkillManifest, messages: Iterable[Any]) -> bool:
    """Whether a conversation has a skill's instructions as they are now."""
    text = wrapped(skill)
    return any(message.pinned and text in message.text for message in messages)


def resources(skill: SkillManifest) -> list[str]:
    """The names of a skill's files that can be read."""
    names, is_whole = files_inside(skill.folder)
    names = [name for name in names if name not in (SKILL_FILE, EXECUTABLE_FILE)]
    return names if is_whole else [*names, "…"]


def scripts(skill: SkillManifest) -> list[str]:
    """The names of a skill's files that can be run."""
    entry = (skill.entry or "").rpartition(":")[0]
    return [name for name in resources(skill) if Path(name).suffix in _INTERPRETERS and name != entry]


class Disclosure:
    """The tools that activate skills, read their files and run their scripts."""

    def __init__(self, find: Callable[[str], SkillManifest | None], limits: ProcessLimits, folder: Path | None) -> None:
        self._find = find
        self._limits = limits
        self._folder = folder
        #: The turn that the names belong to, which were activated in it.
        self._given: tuple[str | None, set[str]] = (None, set())
        # the same functions each time, so that what a person allowed is found again
        self._functions: dict[str, Callable[..., Any]] = {ACTIVATE: self.activate, READ: self.read, RUN: self.run}
        #: The scripts that `_functions[RUN]` stands for. Of others, nothing is allowed yet.
        self._scripts: list[tuple[str, int, int]] = []

    def definitions(self, skills: Mapping[str, SkillManifest]) -> list[FunctionDefinition]:
        """The tools for these skills; none that would have nothing to do."""
        with_files = [name for name, each in skills.items() if resources(each)]
        with_scripts = [name for name, each in skills.items() if scripts(each)]
        found = []
        if skills:
            text = "Read the instructions of a skill. Follow them for the task at hand."
            found.append(self._definition(ACTIVATE, text, list(skills), {}, pinned=True, parallel=False))
        if with_files:
            more: dict[str, Any] = {
                "path": {"type": "string", "description": "As it is listed in the skill's instructions"},
                "offset": {"type": "integer", "description": "The first character to read", "minimum": 0, "default": 0},
            }
            found.append(self._definition(READ, "Read a text file of a skill.", with_files, more))
        known = sorted(_state(each.folder / script) for each in skills.values() for script in scripts(each))
        if known != self._scripts:
            self._scripts, self._functions[RUN] = known, self._new_run()
        if with_scripts:
            more = {
                "script": {"type": "string", "description": "As it is listed in the skill's instructions"},
                "arguments": {"type": "array", "items": {"type": "string"}, "description": "Command-line arguments"},
                "stdin": {"type": "string", "description": "What the script reads from its standard input"},
            }
            text = "Run a script of a skill. The user is asked first. It can write in its working folder only."
            timeout = self._limits.seconds + _MORE_TIME_S
            found.append(self._definition(RUN, text, with_scripts, more, approve=True, timeout=timeout))
        return found

    def _definition(
        self, name: str, description: str, skills: list[str], more: dict[str, Any], **options: Any
    ) -> FunctionDefinition:
        properties = {"name": {"type": "string", "enum": skills, "description": "The skill"}, **more}
        required = [each for each in ("name", "path", "script") if each in properties]
        parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        function = self._functions[name]
        return FunctionDefinition(name, description, parameters, function, source=_source, **options)

    def _new_run(self) -> Callable[..., Any]:
        def run(name: str, script: str, arguments: Sequence[str] = (), stdin: str = "") -> dict[str, Any]:
            return self.run(name, script, arguments, stdin)

        return run

    def _skill(self, name: str) -> SkillManifest:
        if (skill := self._find(name)) is None:
            raise ToolError(f"There is no skill {name!r} any more.")
        return skill

    def activate(self, name: str) -> str:
        """The instructions of a skill, unless the conversation has them."""
        skill, turn = self._skill(name), current.get().call.call_id
        if self._given[0] != turn or turn is None:
            self._given = (turn, set())
        if name in self._given[1] or is_active(skill, current.get().history):
            return f"The instructions of {name!r} are in this conversation already: follow them."
        self._given[1].add(name)
        return wrapped(skill)

    def read(self, name: str, path: str, offset: int = 0) -> str:
        """A part of a text file of a skill."""
        try:
            text = read_text_inside(self._skill(name).folder, path, MAX_RESOURCE)
        except RefusedFileError as error:
            raise ToolError(str(error)) from None
        end = offset + RESOURCE_CHARS
        note = f"\n… ({len(text) - end:,} more characters: go on with offset={end})" if end < len(text) else ""
        return show_control_chars(text[offset:end]) + note

    def run(self, name: str, script: str, arguments: Sequence[str] = (), stdin: str = "") -> dict[str, Any]:
        """Run a script in the working folder, and say what it printed and which files are new."""
        skill, folder = self._skill(name), self.folder
        try:
            path = checked_inside(skill.folder, script)
        except RefusedFileError as error:
            raise ToolError(str(error)) from None
        if len(arguments) > MAX_SCRIPT_ARGUMENTS or any("\0" in each for each in arguments):
            raise ToolError(f"A script takes at most {MAX_SCRIPT_ARGUMENTS} arguments, without zero bytes.")
        command = [*_interpreter(path), str(path), *arguments]
        before = set(files_inside(folder)[0])
        done = run_limited(command, cwd=folder, stdin=stdin.encode(), limits=self._limits)
        printed = {"stdout": done.stdout, "stderr": done.stderr}
        new = sorted(set(files_inside(folder)[0]) - before)
        if done.refused is not None:
            raise ToolError(_refused(script, done))
        result: dict[str, Any] = {"exit_code": done.exit_code, **printed, "folder": str(folder), "new_files": new}
        if not done.confined:
            result["note"] = "This system does not keep scripts from writing elsewhere."
        return result

    @property
    def folder(self) -> Path:
        """The folder that scripts work in: a temporary one if none was given."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="nbagent-scripts-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder


def _state(path: Path) -> tuple[str, int, int]:
    """Changes when the file changes."""
    try:
        found = path.stat()
    except OSError:
        return str(path), 0, -1
    return str(path), found.st_mtime_ns, found.st_size


def _source(name: str, **others: Any) -> str:
    return f"skill:{name}"


def _interpreter(path: Path) -> list[str]:
    """What runs a script. Raises `ToolError` if nothing here does."""
    command = _INTERPRETERS.get(path.suffix)
    if command is None:
        raise ToolError(f"{path.name} can't be run: expected a name that ends in {', '.join(_INTERPRETERS)}.")
    if (found := shutil.which(command[0])) is None:
        raise ToolError(f"{path.name} can't be run: {command[0]} is not installed here.")
    return [found]


def _refused(script: str, done: Finished) -> str:
    printed = [f"{name}: {text[-1_000:]}" for name, text in (("stdout", done.stdout), ("stderr", done.stderr)) if text]
    return "\n".join([f"{script} was stopped: {done.refused}.", *printed])

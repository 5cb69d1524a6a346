"""Progressive disclosure: the model first reads names and descriptions, then instructions and files as needed.

A skill's text is untrusted data. It becomes part of the conversation and has no other effect: scripts need approval,
whatever the text or its `allowed-tools` say.
"""

from __future__ import annotations

import functools
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from nbagent.core.content.marks import without_marks
from nbagent.core.current import current
from nbagent.core.messages import LLMMessage
from nbagent.core.render.control_chars import show_control_chars
from nbagent.errors import ToolError
from nbagent.functions.registry import FunctionDefinition
from nbagent.skills.manifest import EXECUTABLE_FILE, SKILL_FILE, SkillManifest
from nbagent.skills.processes import MORE_TIME_S, ProcessLimits, run_limited
from nbagent.skills.untrusted_files import File, checked_inside, files_inside, read_text_inside
from nbagent.text import shortened

ACTIVATE, READ, RUN = "activate_skill", "read_skill_file", "run_skill_script"
#: The maximum length of all names and descriptions in a system prompt, and the minimum to which one description is cut.
MAX_CATALOGUE, MIN_DESCRIPTION = 20_000, 80
#: Characters of a file that one call returns, and how many file names are listed.
RESOURCE_CHARS, MAX_LISTED = 15_000, 200
#: A script's interpreter, by its file extension.
_INTERPRETERS = {".py": [sys.executable, "-B"], ".sh": ["bash"], ".bash": ["bash"], ".js": ["node"], ".mjs": ["node"]}

_INTRODUCTION = (
    f"Skills are instructions for particular tasks. If a task matches a description, call {ACTIVATE} with the skill's "
    "name before you begin."
)


def offered(skills: Iterable[SkillManifest]) -> tuple[dict[str, str], str]:
    """Return the descriptions of skills for a model, by name, and a note if some were cut or omitted."""
    texts = {skill.name: " ".join(skill.description.split()) for skill in skills}
    size = sum(len(name) + len(text) for name, text in texts.items())
    if size <= MAX_CATALOGUE:
        return texts, ""
    length = max(MIN_DESCRIPTION, (MAX_CATALOGUE - sum(map(len, texts))) // len(texts))
    ends = accumulate(len(name) + min(len(text), length) for name, text in texts.items())
    kept = {
        name: shortened(text, length)
        for (name, text), end in zip(texts.items(), ends, strict=True)
        if end <= MAX_CATALOGUE
    }
    problem = f"the descriptions of {len(texts)} skills have {size:,} characters: they are cut to {length}"
    omitted = f", and {len(texts) - len(kept)} skills are not offered to models" if len(kept) < len(texts) else ""
    return kept, f"{problem}{omitted}. Use fewer folders of skills"


def catalogue(descriptions: Mapping[str, str]) -> str:
    """The part of the system prompt about skills that can be activated; "" if there are none."""
    lines = [f"- {name}: {text}" for name, text in descriptions.items()]
    return "\n".join([_INTRODUCTION, *lines]) if lines else ""


def instructions_of(skill: SkillManifest, messages: Iterable[LLMMessage]) -> str:
    """A skill's instructions in a `<skill_content>` tag, with its folder and file names.

    If the messages already contain them, returns only a note that says so.
    """
    lines = [f'<skill_content name="{skill.name}">', _as_data(skill.body)]
    if names := resources(skill):
        about = f"call {READ} to read a text; all are in the folder {_as_data(str(skill.folder))}"
        lines += ["", f"<skill_files> ({about})", *map(_as_data, names), "</skill_files>"]
    text = "\n".join([*lines, "</skill_content>"])
    if any(message.pinned and text in message.text for message in messages):
        return f"The instructions of {skill.name!r} are in this conversation already: follow them."
    return text


def resources(skill: SkillManifest) -> list[str]:
    """The names of the skill's files that the model may read, except SKILL.md, skill.yaml and compiled files."""
    own = (SKILL_FILE, EXECUTABLE_FILE)
    names = [file.name for file in skill.files if file.name not in own and not file.name.endswith(".pyc")]
    return names if len(names) <= MAX_LISTED else [*names[:MAX_LISTED], "…"]


def _as_data(text: str) -> str:
    """The text without anything that could open or close a skill's tags."""
    return without_marks(show_control_chars(text), "skill_")


class Disclosure:
    """The tools that activate skills, read their files and run their scripts."""

    def __init__(self, find: Callable[[str], SkillManifest | None], limits: ProcessLimits) -> None:
        self._find = find
        self._limits = limits
        #: Where scripts run, created when the first one does.
        self._folder: Path | None = None
        #: The current scripts, and the function that runs them. Changed scripts get a new function, which cancels
        #: approvals for the session.
        self._scripts: list[tuple[Path, File]] = []
        self._run: Callable[..., Any] = self.run

    def definitions(self, skills: Sequence[SkillManifest]) -> list[FunctionDefinition]:
        """The tools that the model needs for these skills."""
        scripts = [(skill.folder, file) for skill in skills for file in skill.files if _is_script(file)]
        if scripts != self._scripts:
            self._scripts, self._run = scripts, functools.partial(self.run)
        timeout = self._limits.seconds + MORE_TIME_S
        with_scripts = [skill for skill in skills if any(map(_is_script, skill.files))]
        tools: list[tuple[str, Callable[..., Any], Sequence[SkillManifest], dict[str, Any]]] = [
            (ACTIVATE, self.activate, skills, {"pinned": True}),
            (READ, self.read, list(filter(resources, skills)), {}),
            (RUN, self._run, with_scripts, {"approve": True, "timeout": timeout}),
        ]
        return [_tool(name, function, usable, options) for name, function, usable, options in tools if usable]

    def _skill(self, name: str) -> SkillManifest:
        if (skill := self._find(name)) is None:
            raise ToolError(f"The skill {name!r} no longer exists.")
        return skill

    def activate(self, name: str) -> str:
        """Read the instructions of a skill. Follow them for the task at hand.

        Args:
            name: The skill
        """
        return instructions_of(self._skill(name), current.get().history)

    def read(self, name: str, path: str, offset: int = 0) -> str:
        """Read a text file of a skill.

        Args:
            name: The skill
            path: As listed in the skill's instructions
            offset: The first character to read
        """
        text = read_text_inside(self._skill(name).folder, path)
        end = offset + RESOURCE_CHARS
        note = f"\n… ({len(text) - end:,} more characters: continue with offset={end})" if end < len(text) else ""
        return show_control_chars(text[offset:end]) + note

    def run(self, name: str, script: str, arguments: list[str] = [], stdin: str = "") -> dict[str, Any]:  # noqa: B006  never changed; None would give the model another schema
        """Run a script of a skill, with the user's permissions. The user is asked first.

        Args:
            name: The skill
            script: As listed in the skill's instructions
            arguments: Command-line arguments
            stdin: The script's standard input
        """
        skill = self._skill(name)
        skill.check_trusted()
        path = checked_inside(skill.folder, script)
        if (words := _INTERPRETERS.get(path.suffix)) is None:
            raise ToolError(f"{path.name} can't be run: expected a name that ends in {', '.join(_INTERPRETERS)}.")
        if (program := shutil.which(words[0])) is None:
            raise ToolError(f"{path.name} can't be run: {words[0]} is not installed here.")
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="nbagent-scripts-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        before = {file.name for file in files_inside(self._folder)}
        command = [program, *words[1:], str(path), *arguments]
        done = run_limited(script, command, cwd=self._folder, stdin=stdin.encode(), limits=self._limits)
        new = sorted({file.name for file in files_inside(self._folder)} - before)
        printed = {"stdout": done.stdout, "stderr": done.stderr}
        return {"exit_code": done.returncode, **printed, "folder": str(self._folder), "new_files": new}


def _is_script(file: File) -> bool:
    return Path(file.name).suffix in _INTERPRETERS


def _tool(
    name: str, function: Callable[..., Any], skills: Sequence[SkillManifest], options: dict[str, Any]
) -> FunctionDefinition:
    """A tool whose argument `name` is one of these skills."""
    from nbagent.functions.schema.function_schema import schema_of

    schema = schema_of(function)
    properties = schema.parameters["properties"]
    named = {"name": properties["name"] | {"enum": [skill.name for skill in skills]}}
    parameters = schema.parameters | {"properties": properties | named}
    return FunctionDefinition(name, schema.description, parameters, function, source=_source, **options)


def _source(name: str, **others: Any) -> str:
    return f"skill:{name}"

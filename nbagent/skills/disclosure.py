"""Progressive disclosure: the model first reads names and descriptions, then instructions and files as needed.

A skill's text is untrusted data. It becomes part of the conversation and changes nothing else: scripts need approval
each time, whatever the text or its `allowed-tools` say.
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
from nbagent.skills.inside import File, checked_inside, files_inside, read_text_inside
from nbagent.skills.manifest import EXECUTABLE_FILE, SKILL_FILE, SkillManifest
from nbagent.skills.processes import MORE_TIME_S, ProcessLimits, run_limited
from nbagent.text import shortened

ACTIVATE, READ, RUN = "activate_skill", "read_skill_file", "run_skill_script"
#: Characters of all names and descriptions in a system prompt, and of a description that was cut for it.
MAX_CATALOGUE, MIN_DESCRIPTION = 20_000, 80
#: Characters of a file in one answer, names of files that are listed.
RESOURCE_CHARS, MAX_LISTED = 15_000, 200
#: A script's interpreter, by its file extension.
_INTERPRETERS = {".py": [sys.executable, "-B"], ".sh": ["bash"], ".bash": ["bash"], ".js": ["node"], ".mjs": ["node"]}

_INTRODUCTION = (
    f"Skills are instructions for particular tasks. If a task matches a description, call {ACTIVATE} with the skill's "
    "name before you begin."
)


def offered(skills: Iterable[SkillManifest]) -> tuple[dict[str, str], str]:
    """The descriptions of skills for a model, by name, and a note on what was cut."""
    texts = {each.name: " ".join(each.description.split()) for each in skills}
    size = sum(len(name) + len(text) for name, text in texts.items())
    if size <= MAX_CATALOGUE:
        return texts, ""
    most = max(MIN_DESCRIPTION, (MAX_CATALOGUE - sum(map(len, texts))) // len(texts))
    ends = accumulate(len(name) + min(len(text), most) for name, text in texts.items())
    kept = {
        name: shortened(text, most)
        for (name, text), end in zip(texts.items(), ends, strict=True)
        if end <= MAX_CATALOGUE
    }
    problem = f"the descriptions of {len(texts)} skills have {size:,} characters: they are cut to {most}"
    left_out = f", and {len(texts) - len(kept)} skills are not offered to models" if len(kept) < len(texts) else ""
    return kept, f"{problem}{left_out}. Use fewer folders of skills"


def catalogue(descriptions: Mapping[str, str]) -> str:
    """The system prompt's text about skills that can be activated; "" if there are none."""
    lines = [f"- {name}: {text}" for name, text in descriptions.items()]
    return "\n".join([_INTRODUCTION, *lines]) if lines else ""


def instructions_of(skill: SkillManifest, messages: Iterable[LLMMessage]) -> str:
    """A skill's instructions, between marks, with its folder and file names; once in a conversation."""
    lines = [f'<skill_content name="{skill.name}">', _as_data(skill.body)]
    if names := resources(skill):
        about = f"call {READ} to read a text; all are in the folder {_as_data(str(skill.folder))}"
        lines += ["", f"<skill_files> ({about})", *map(_as_data, names), "</skill_files>"]
    text = "\n".join([*lines, "</skill_content>"])
    if any(message.pinned and text in message.text for message in messages):
        return f"The instructions of {skill.name!r} are in this conversation already: follow them."
    return text


def resources(skill: SkillManifest) -> list[str]:
    """The names of a skill's files that can be read."""
    ours = (SKILL_FILE, EXECUTABLE_FILE)
    names = [each.name for each in skill.files if each.name not in ours and not each.name.endswith(".pyc")]
    return names if len(names) <= MAX_LISTED else [*names[:MAX_LISTED], "…"]


def _as_data(text: str) -> str:
    """Text that can't end, or begin, what a skill says."""
    return without_marks(show_control_chars(text), "skill_")


class Disclosure:
    """The tools that activate skills, read their files and run their scripts."""

    def __init__(self, find: Callable[[str], SkillManifest | None], limits: ProcessLimits, folder: Path | None) -> None:
        self._find = find
        self._limits = limits
        self._folder = folder
        #: The current scripts, and the function that runs them: a new one when they change, so that approval is asked
        #: again.
        self._scripts: list[tuple[Path, File]] = []
        self._run: Callable[..., Any] = self.run

    def definitions(self, skills: Sequence[SkillManifest]) -> list[FunctionDefinition]:
        """The tools for these skills; none that would have nothing to do."""
        scripts = [(each.folder, file) for each in skills for file in each.files if _is_script(file)]
        if scripts != self._scripts:
            self._scripts, self._run = scripts, functools.partial(self.run)
        timeout = self._limits.seconds + MORE_TIME_S
        with_scripts = [each for each in skills if any(map(_is_script, each.files))]
        found: list[tuple[str, Callable[..., Any], Sequence[SkillManifest], dict[str, Any]]] = [
            (ACTIVATE, self.activate, skills, {"pinned": True}),
            (READ, self.read, list(filter(resources, skills)), {}),
            (RUN, self._run, with_scripts, {"approve": True, "timeout": timeout}),
        ]
        return [_tool(name, function, of, options) for name, function, of, options in found if of]

    def _skill(self, name: str) -> SkillManifest:
        if (skill := self._find(name)) is None:
            raise ToolError(f"There is no skill {name!r} any more.")
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
            path: As it is listed in the skill's instructions
            offset: The first character to read
        """
        text = read_text_inside(self._skill(name).folder, path)
        end = offset + RESOURCE_CHARS
        note = f"\n… ({len(text) - end:,} more characters: go on with offset={end})" if end < len(text) else ""
        return show_control_chars(text[offset:end]) + note

    def run(self, name: str, script: str, arguments: list[str] = [], stdin: str = "") -> dict[str, Any]:  # noqa: B006  never changed; None would give the model another schema
        """Run a script of a skill, with the user's rights. The user is asked first.

        Args:
            name: The skill
            script: As it is listed in the skill's instructions
            arguments: Command-line arguments
            stdin: What the script reads from its standard input
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
        self._folder.mkdir(parents=True, exist_ok=True)
        before = {each.name for each in files_inside(self._folder)}
        command = [program, *words[1:], str(path), *arguments]
        done = run_limited(script, command, cwd=self._folder, stdin=stdin.encode(), limits=self._limits)
        new = sorted({each.name for each in files_inside(self._folder)} - before)
        printed = {"stdout": done.stdout, "stderr": done.stderr}
        return {"exit_code": done.returncode, **printed, "folder": str(self._folder), "new_files": new}


def _is_script(file: File) -> bool:
    return Path(file.name).suffix in _INTERPRETERS


def _tool(
    name: str, function: Callable[..., Any], skills: Sequence[SkillManifest], options: dict[str, Any]
) -> FunctionDefinition:
    """A tool whose argument `name` is one of these skills."""
    from nbagent.functions.schema.function_schema import schema_of

    about = schema_of(function)
    properties = about.parameters["properties"]
    named = {"name": properties["name"] | {"enum": [each.name for each in skills]}}
    parameters = about.parameters | {"properties": properties | named}
    return FunctionDefinition(name, about.description, parameters, function, source=_source, **options)


def _source(name: str, **others: Any) -> str:
    return f"skill:{name}"

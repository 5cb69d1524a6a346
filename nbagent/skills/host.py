"""`SkillHost`: finds skills, offers them to an agent, and calls executable ones.

>>> agent.use(SkillHost("skills"))                                          # doctest: +SKIP
>>> SkillHost("skills").table                                               # doctest: +SKIP
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.checks import checked_path
from nbagent.core.background import blocking
from nbagent.core.browser import IN_BROWSER
from nbagent.core.current import current
from nbagent.core.messages import new_id
from nbagent.core.threads import run_in_thread
from nbagent.errors import ToolError
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry
from nbagent.functions.toolset import Toolset
from nbagent.functions.validation import invalid_arguments, unknown_tool
from nbagent.skills import trust
from nbagent.skills.disclosure import Disclosure, catalogue, offered
from nbagent.skills.discovery import Place, package_places, project_and_user_places, skill_folders
from nbagent.skills.entry import answer
from nbagent.skills.manifest import Problem, SkillManifest, load_manifest
from nbagent.skills.processes import MORE_TIME_S, ProcessLimits, run_entry
from nbagent.skills.untrusted_files import File, files_inside
from nbagent.skills.wire import SkillResult

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class _Loaded:
    """A loaded skill folder. `definition` is the tool of an executable skill."""

    place: Place
    files: tuple[File, ...]
    manifest: SkillManifest | None
    problems: list[Problem]
    definition: FunctionDefinition | None = None
    state: str = "on"


class SkillHost(Toolset):
    """The skills of some folders, for `agent.use`.

    The host looks in the given folders first. With `discover`, it then looks in `.agents/skills` and `.claude/skills`:
    those in the project (the current folder and its parents, up to the repository's root), then those in the user's
    home folder. Then, also with `discover`, come the `nbagent.skills` entry points of installed packages. With
    `builtin`, nbagent's own skills come last. If two skills have the same name, the first is used. A project's skills
    are used only after the user trusts them: call `trust()`, or answer when nbagent asks. When one of their files
    changes, nbagent asks again.

    Skills without a Python entry are instructions: the model reads names and descriptions, and activates the skills
    that it needs. Their scripts run after approval, within `limits`, in a temporary folder. An executable skill is a
    tool. Unless it is one of nbagent's own, it runs in a separate process, within `limits` and its manifest's timeout.
    If it was found in the project's or the user's folders, its calls need approval. Loading a skill runs none of its
    code. A call runs with your permissions: the limits are not a sandbox.

    Loading never fails: the DataFrames `table` and `diagnostics` list the skills and their problems. Changes on disk
    take effect with the next run, or with `reload()`.

    >>> host = SkillHost("skills", builtin=True)                            # doctest: +SKIP
    >>> await host.invoke("calculator", {"numbers": [1, 2, 3]})             # doctest: +SKIP
    SkillResult(success=True, data={'results': {'mean': 2}, 'count': 3}, error=None, …)
    """

    def __init__(
        self,
        *folders: str | os.PathLike[str],
        builtin: bool = False,
        discover: bool = True,
        limits: ProcessLimits | None = None,
    ) -> None:
        given = (checked_path(folder, "Pass folders with skills.").absolute() for folder in folders)
        self._given = [Place(folder, "given") for folder in given]
        self._discover, self._last = discover, list(package_places()) if discover else []
        if builtin:
            self._last.append(Place(Path(__file__).with_name("builtin"), "builtin"))
        self._limits = limits or ProcessLimits()
        self.tools = FunctionRegistry()
        self._disclosure = Disclosure(self.manifest, self._limits)
        self._loaded: dict[Path, _Loaded] = {}
        #: Problems that don't belong to a single skill's files.
        self._problems: list[Problem] = []
        #: The descriptions that the model reads, by name.
        self._offered: dict[str, str] = {}
        self._lock = threading.Lock()
        self.reload()

    def reload(self) -> None:
        """Look for new, changed and removed skills now."""
        with self._lock:
            self._search()
            self._set_states()
            self._offer()

    async def prepare(self) -> None:
        """Reload changed skills; see `Toolset`."""
        await run_in_thread(self.reload)

    def trust(self, answer: bool = True) -> None:
        """Trust the current project's skills until one of their files changes; with False, distrust them."""
        with self._lock:
            self._search()
            for project, skills in self._of_projects().items():
                trust.set_trust(project, skills, answer)
        self.reload()

    def _search(self) -> None:
        self._problems = []
        loaded: dict[Path, _Loaded] = {}
        for place in (*self._given, *(project_and_user_places() if self._discover else ()), *self._last):
            folders, problems = skill_folders(place)
            self._problems += problems
            loaded |= {folder: self._load(folder, place) for folder in folders if folder not in loaded}
        self._loaded = loaded

    def _load(self, folder: Path, place: Place) -> _Loaded:
        """Load the skill in a folder, unless it is loaded and its files are unchanged."""
        known, files = self._loaded.get(folder), files_inside(folder)
        if known is not None and (known.place, known.files) == (place, files):
            return known
        manifest, problems = load_manifest(folder, place.scope, files)
        try:
            definition = self._definition(manifest) if manifest is not None and manifest.is_executable else None
        except ValueError as error:
            return _Loaded(place, files, None, [*problems, Problem("error", folder.name, str(error), str(folder))])
        return _Loaded(place, files, manifest, problems, definition)

    def _definition(self, manifest: SkillManifest) -> FunctionDefinition:
        """Make an executable skill a tool. Raises ValueError if it can't be one."""

        async def call_skill(**arguments: Any) -> dict[str, Any]:
            manifest.check_trusted()
            file, _, function = str(manifest.entry).rpartition(":")
            call: dict[str, Any] = {"file": str(manifest.folder / file), "function": function, "arguments": arguments}
            if manifest.scope == "builtin" or IN_BROWSER:  # a browser has no other processes
                found = await run_in_thread(partial(answer, **call))
            else:
                limits = replace(self._limits, seconds=manifest.timeout)
                found = await run_in_thread(run_entry, manifest.name, call, limits)
            if "invalid" in found:
                raise invalid_arguments(definition, found["invalid"], arguments)
            if "error" in found:
                raise ToolError(found["error"], tool=definition.name)
            return {"success": True, "data": found["value"]}

        definition = FunctionDefinition(
            manifest.tool_name,
            manifest.tool_description,
            manifest.parameters,
            call_skill,
            approve=manifest.scope in ("project", "user"),
            timeout=manifest.timeout + MORE_TIME_S,
            source=f"skill:{manifest.name}",
        )
        return definition

    def _of_projects(self) -> dict[Path, list[SkillManifest]]:
        projects: dict[Path, list[SkillManifest]] = {}
        for loaded in self._loaded.values():
            if loaded.manifest is not None and loaded.place.project is not None:
                projects.setdefault(loaded.place.project, []).append(loaded.manifest)
        return projects

    def _set_states(self) -> None:
        """Decide which skills are on. Asks about projects without an answer."""
        answers = {project: trust.ask(project, skills) for project, skills in self._of_projects().items()}
        names: dict[str, Path] = {}
        for loaded in self._loaded.values():
            manifest, answer = loaded.manifest, answers.get(loaded.place.project) if loaded.place.project else True
            if manifest is None:
                loaded.state = "off: it is broken"
            elif answer is None:
                loaded.state = "off: there is nobody to ask whether its project is trusted"
            elif not answer:
                loaded.state = "off: its project is not trusted"
            elif manifest.name in names:
                loaded.state = "off: another skill has the same name"
                text = f"it is not used, since {names[manifest.name]} has the same name"
                self._problems.append(Problem("warning", manifest.name, text, str(manifest.folder)))
            else:
                names[manifest.name] = manifest.folder
                loaded.state = "on"

    def _offer(self) -> None:
        """Replace the tools. Unchanged ones stay."""
        shown = [skill for skill in self.skills.values() if not skill.for_people_only]
        self._offered, problem = offered(skill for skill in shown if not skill.is_executable)
        if problem:
            self._problems.append(Problem("warning", "", problem, ""))
        tools = self._disclosure.definitions([skill for skill in shown if skill.name in self._offered])
        for loaded in (self._loaded[skill.folder] for skill in shown):
            if loaded.definition is None:
                continue
            if loaded.definition.name in (tool.name for tool in tools):
                loaded.state = "off: another tool has the same name"
            else:
                tools.append(loaded.definition)
        self.tools.set_tools(tools)

    def instructions(self) -> str:
        """The names and descriptions of the skills that the model can activate; see `Toolset`."""
        return catalogue(self._offered)

    @property
    def skills(self) -> dict[str, SkillManifest]:
        """The enabled skills, by name."""
        on = (loaded.manifest for loaded in self._loaded.values() if loaded.state == "on")
        return {manifest.name: manifest for manifest in on if manifest is not None}

    @property
    def table(self) -> pd.DataFrame:
        """All skills found. The column `state` explains why a skill is not used."""
        import pandas as pd

        rows = []
        for folder, loaded in self._loaded.items():
            skill = loaded.manifest or SkillManifest(folder.name, "", folder)
            kind = "" if loaded.manifest is None else "tool" if skill.is_executable else "instructions"
            columns = (skill.tool_description, len(loaded.problems), str(folder))
            rows.append((skill.name, loaded.state, kind, loaded.place.scope, *columns))
        return pd.DataFrame(rows, columns=["skill", "state", "kind", "scope", "description", "problems", "folder"])

    @property
    def diagnostics(self) -> pd.DataFrame:
        """The skills' problems, one per row: level, skill, message, file, and the line of a YAML error."""
        import pandas as pd

        problems = [*self._problems, *(problem for loaded in self._loaded.values() for problem in loaded.problems)]
        return pd.DataFrame(problems, columns=list(Problem._fields)).astype({"line": "Int64"})

    def manifest(self, name: str) -> SkillManifest | None:
        """The enabled skill with this name or tool name."""
        return next((skill for skill in self.skills.values() if name in (skill.name, skill.tool_name, skill.id)), None)

    def __repr__(self) -> str:
        names = list(self.skills)
        count = "1 skill" if len(names) == 1 else f"{len(names)} skills"
        return f"SkillHost({count}{': ' if names else ''}{', '.join(names)})"

    async def invoke(self, name: str, arguments: dict[str, Any] | None = None) -> SkillResult:
        """Call an executable skill. Always returns a `SkillResult`, even for an error."""
        began, trace_id = time.perf_counter(), current.get().call.run_id or new_id("run")
        data, failure = None, None
        try:
            manifest = self.manifest(name)
            definition = None if manifest is None else self._loaded[manifest.folder].definition
            if definition is None:
                raise unknown_tool(name, [skill.name for skill in self.skills.values() if skill.is_executable])
            data = (await definition.func(**(arguments or {})))["data"]
        except ToolError as error:
            failure = str(error)
        return SkillResult(failure is None, data, failure, trace_id, (time.perf_counter() - began) * 1_000)

    invoke_sync = blocking(invoke)

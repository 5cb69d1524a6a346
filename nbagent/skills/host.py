"""`SkillHost`: finds skills, offers them to an agent, and calls those that are executable.

>>> agent.use(SkillHost("skills"))                                          # doctest: +SKIP
>>> SkillHost("skills").table                                               # doctest: +SKIP
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.checks import check_type, checked_path
from nbagent.core.background import run_sync
from nbagent.core.current import current
from nbagent.core.messages import new_id
from nbagent.core.threads import map_in_threads, run_in_thread
from nbagent.errors import ConfigurationError, ToolError
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry
from nbagent.functions.toolset import Toolset
from nbagent.skills import trust
from nbagent.skills.disclosure import Disclosure, catalogue
from nbagent.skills.discovery import Place, of_packages, places, skill_folders
from nbagent.skills.entry import EntryError
from nbagent.skills.inside import RefusedFileError, read_text_inside
from nbagent.skills.manifest import EXECUTABLE_FILE, MAX_FILE, SKILL_FILE, Problem, SkillManifest, load_manifest
from nbagent.skills.processes import ProcessLimits
from nbagent.skills.result import SkillResult
from nbagent.skills.runners import InProcessRunner, Runner, SubprocessRunner, entry_of
from nbagent.text import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

#: Seconds that stopping a skill may take beyond its time limit.
_MORE_TIME_S = 15.0
#: Skills that are asked at the same time to describe themselves.
_DESCRIBED_AT_ONCE = 4

_DISTRUSTED = "off: its project is not trusted"
_NOT_ASKED = "off: nobody can answer here whether its project is trusted"

_Signature = tuple[tuple[str, int, int], ...]


@dataclass
class _Loaded:
    """What is known of a skill's folder. `signature` tells whether its files have changed."""

    place: Place
    manifest: SkillManifest | None
    problems: list[Problem]
    signature: _Signature = ()
    state: str = "on"
    #: The tool of an executable skill.
    definition: FunctionDefinition | None = field(default=None, repr=False)


class SkillHost(Toolset):
    """The skills of some folders, for `agent.use`.

    It looks in the given folders first; with `discover`, then in `.agents/skills` and `.claude/skills` of the project
    (the current folder and those around it, up to that of the repository) and of the user, and in the entry points
    `nbagent.skills` of installed packages; with `builtin`, last in nbagent's own skills. Of two skills with one name
    the first is used. A project's skills are used once the user trusts the project; `trust()` says so.

    Skills without a Python entry are instructions: the model reads names and descriptions, and activates what it
    needs. Their scripts run after approval, within `limits`, in `work_dir`, by default a temporary folder. An
    executable skill is a tool. It runs in a process of its own, within `limits` and its manifest's timeout, or, with
    `in_process`, in this one. If it was found in the project or the user's folders, its calls need approval.

    Loading never fails: `table` and `diagnostics` are DataFrames that say what was found and what is wrong. Changes on
    disk take effect with the next run, or with `reload()`.

    >>> host = SkillHost("skills", builtin=True)                            # doctest: +SKIP
    >>> await host.invoke("calculator", {"numbers": [1, 2, 3]})             # doctest: +SKIP
    SkillResult(success=True, data={'results': {'mean': 2}, 'count': 3}, error=None, …)
    """

    def __init__(
        self,
        *folders: str | os.PathLike[str],
        builtin: bool = False,
        discover: bool = True,
        in_process: bool = False,
        limits: ProcessLimits | None = None,
        work_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        check_type("builtin", builtin, bool)
        check_type("discover", discover, bool)
        check_type("in_process", in_process, bool)
        check_type("limits", limits, ProcessLimits, optional=True, fix="Pass ProcessLimits(...).")
        self.folders = [checked_path(folder, "Pass folders with skills.").absolute() for folder in folders]
        self.builtin, self.discover = builtin, discover
        self.limits = limits or ProcessLimits()
        self.tools = FunctionRegistry()
        self._in_process = InProcessRunner()
        self._runner: Runner = self._in_process if in_process else SubprocessRunner(self.limits)
        folder = None if work_dir is None else checked_path(work_dir, "Pass a folder for scripts.").absolute()
        self._disclosure = Disclosure(self.manifest, self.limits, folder)
        self._packages = list(of_packages()) if discover else []
        self._loaded: dict[Path, _Loaded] = {}
        self._problems: list[Problem] = []
        self._lock = threading.Lock()
        self.reload()

    # -- loading ------------------------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Look for new, changed and removed skills now."""
        with self._lock:
            found, self._problems = places(self.folders, self._packages, discover=self.discover, builtin=self.builtin)
            loaded = {folder: self._load(folder, place) for place in found for folder in skill_folders(place)}
            self._loaded = loaded
            self._set_states(loaded.values())
            self._describe([each for each in loaded.values() if each.state == "on"])
            self._offer()

    async def prepare(self) -> None:
        """See `Toolset`: reloads what has changed."""
        await run_in_thread(self.reload)

    def trust(self, answer: bool = True) -> None:
        """Say whether the skills of the current project are used, now and later."""
        for project in {each.place.project for each in self._loaded.values()} - {None}:
            assert project is not None
            trust.set_trust(project, answer)
        self.reload()

    def _load(self, folder: Path, place: Place) -> _Loaded:
        """The skill in a folder, as it was loaded before if its files are the same."""
        known = self._loaded.get(folder)
        if known is not None and known.place == place and known.signature == _signature(folder, known.manifest):
            return known
        manifest, problems = load_manifest(folder, place.scope)
        return _Loaded(place, manifest, problems, _signature(folder, manifest))

    def _set_states(self, loaded: Iterable[_Loaded]) -> None:
        """Which skills are on. Asks about projects without an answer."""
        projects: dict[Path, list[str]] = {}
        for each in loaded:
            if each.manifest is not None and each.place.project is not None:
                projects.setdefault(each.place.project, []).append(each.manifest.name)
        answers = {project: trust.ask(project, names) for project, names in projects.items()}
        names: dict[str, Path] = {}
        for each in loaded:
            project, manifest = each.place.project, each.manifest
            if manifest is None:
                each.state = "off: it is broken"
            elif project is not None and not answers[project]:
                each.state = _NOT_ASKED if answers[project] is None else _DISTRUSTED
            elif manifest.name in names:
                each.state = "off: another skill has the same name"
                text = f"it is not used, since {names[manifest.name]} has the same name"
                self._problems.append(Problem("warning", manifest.name, text, str(manifest.folder)))
            else:
                names[manifest.name] = manifest.folder
                each.state = "on"

    def _describe(self, loaded: Iterable[_Loaded]) -> None:
        """Make the tools of executable skills that are new or have changed."""
        new = [each for each in loaded if each.definition is None and each.manifest and each.manifest.is_executable]
        if not new:
            return
        for each, made in zip(new, map_in_threads(self._definition, new, _DESCRIBED_AT_ONCE), strict=True):
            assert each.manifest is not None
            if isinstance(made, FunctionDefinition):
                each.definition = made
            else:
                file = str(entry_of(each.manifest)[0])
                each.problems.append(Problem("error", each.manifest.name, made, file))
                each.state = "off: it is broken"

    def _definition(self, loaded: _Loaded) -> FunctionDefinition | str:
        """An executable skill as a tool, or why it can't be one."""
        from nbagent.functions.schema.json_schema import tidy

        manifest = loaded.manifest
        assert manifest is not None
        parameters, description = manifest.parameters, manifest.own_description
        if parameters is None or not description:
            try:
                described = self._runner_of(manifest).describe(manifest)
            except (EntryError, ConfigurationError) as error:
                return str(error)
            parameters = tidy(described["input"]) if parameters is None else parameters
            description = description or described["docstring"] or _document(manifest)
        try:
            return FunctionDefinition(
                manifest.tool_name,
                description,
                parameters,
                self._tool(manifest.name),
                approve=manifest.scope in ("project", "user"),
                timeout=manifest.timeout + _MORE_TIME_S,
                source=manifest.source,
            )
        except ValueError as error:
            return str(error)

    def _tool(self, name: str) -> Any:
        async def call_skill(**arguments: Any) -> dict[str, Any]:
            result = await self.invoke(name, arguments)
            if not result.success:
                raise ToolError(result.error or "It failed.", tool=name)
            return {"success": True, "data": result.data}

        return call_skill

    def _offer(self) -> None:
        """Register the tools that are new or have changed, and remove those that are gone."""
        wanted = {each.name: each for each in self._disclosure.definitions(self._instructions())}
        for each in self._on():
            if each.definition is not None and each.definition.name in wanted:
                each.state = "off: another tool has the same name"
            elif each.definition is not None:
                wanted[each.definition.name] = each.definition
        for name in self.tools.names():
            if name not in wanted:
                self.tools.unregister(name)
        for name, definition in wanted.items():
            if self.tools.get_function(name) != definition:
                self.tools.add(definition)

    def instructions(self) -> str:
        """See `Toolset`: the names and descriptions of the skills that the model can activate."""
        return catalogue(self._instructions().values())

    def _instructions(self) -> dict[str, SkillManifest]:
        """The skills that are not tools."""
        return {name: each for name, each in self.skills.items() if not each.is_executable}

    def _on(self) -> Iterator[_Loaded]:
        return (each for each in self._loaded.values() if each.state == "on")

    def _runner_of(self, manifest: SkillManifest) -> Runner:
        return self._in_process if manifest.scope == "builtin" else self._runner

    # -- what is there ------------------------------------------------------------------------------------------------

    @property
    def skills(self) -> dict[str, SkillManifest]:
        """The skills that are on, by name."""
        return {each.manifest.name: each.manifest for each in self._on() if each.manifest is not None}

    @property
    def table(self) -> pd.DataFrame:
        """All skills that were found, also those that are not used: the column `state` says why."""
        import pandas as pd

        rows = [
            {
                "skill": each.manifest.name if each.manifest else folder.name,
                "state": each.state,
                "kind": "" if each.manifest is None else "tool" if each.manifest.is_executable else "instructions",
                "scope": each.place.scope,
                "description": "" if each.manifest is None else _shown_description(each),
                "problems": len(each.problems),
                "folder": str(folder),
            }
            for folder, each in self._loaded.items()
        ]
        columns = ["skill", "state", "kind", "scope", "description", "problems", "folder"]
        return pd.DataFrame(rows, columns=columns)

    @property
    def diagnostics(self) -> pd.DataFrame:
        """What is wrong with the skills, a row each: level, skill, message, file and line (NA if there is none)."""
        import pandas as pd

        problems = [*self._problems, *(problem for each in self._loaded.values() for problem in each.problems)]
        return pd.DataFrame(problems, columns=list(Problem._fields)).astype({"line": "Int64"})

    def manifest(self, name: str) -> SkillManifest | None:
        """The skill of this name, or whose tool has it, if it is on."""
        return next((each for each in self.skills.values() if name in (each.name, each.tool_name, each.id)), None)

    def __repr__(self) -> str:
        names = list(self.skills)
        count = "1 skill" if len(names) == 1 else f"{len(names)} skills"
        return f"SkillHost({count}{': ' if names else ''}{', '.join(names)})"

    # -- calls --------------------------------------------------------------------------------------------------------

    async def invoke(self, name: str, arguments: dict[str, Any] | None = None) -> SkillResult:
        """Call an executable skill. Whatever happens, the answer is a `SkillResult`."""
        began, trace_id = time.perf_counter(), current.get().call.run_id or new_id("run")
        manifest = self.manifest(name)
        executable = [each.name for each in self.skills.values() if each.is_executable]
        result = SkillResult(False, trace_id=trace_id)
        if manifest is None or not manifest.is_executable:
            known = did_you_mean(name, executable) or f". Executable are: {', '.join(executable) or 'none'}."
            result = replace(result, error=f"There is no executable skill {name!r}{known}")
        else:
            try:
                data = await self._runner_of(manifest).call(manifest, arguments or {})
                result = replace(result, success=True, data=data)
            except EntryError as error:
                result = replace(result, error=str(error))
        return replace(result, duration_ms=(time.perf_counter() - began) * 1_000)

    def invoke_sync(self, name: str, arguments: dict[str, Any] | None = None) -> SkillResult:
        """Blocking twin of `invoke`."""
        return run_sync(self.invoke(name, arguments))


def _shown_description(loaded: _Loaded) -> str:
    assert loaded.manifest is not None
    return loaded.definition.description if loaded.definition is not None else loaded.manifest.description


def _signature(folder: Path, manifest: SkillManifest | None) -> _Signature:
    """Changes when a file changes that was read."""
    names = [SKILL_FILE, EXECUTABLE_FILE]
    if manifest is not None:
        names += [manifest.entry.rpartition(":")[0]] if manifest.entry else []
        names += [manifest.document] if manifest.document else []
    found = []
    for name in names:
        try:
            status = os.stat(folder / name, follow_symlinks=False)
            found.append((name, status.st_mtime_ns, status.st_size))
        except OSError:
            found.append((name, 0, -1))
    return tuple(found)


def _document(manifest: SkillManifest) -> str:
    """The first paragraph of the document that describes an executable skill, else its `SKILL.md`'s description."""
    if manifest.document is not None:
        try:
            text = read_text_inside(manifest.folder, manifest.document, MAX_FILE)
        except RefusedFileError:
            return manifest.description
        paragraphs = [each.strip() for each in text.split("\n\n") if not each.lstrip().startswith(("#", "---"))]
        return next(filter(None, paragraphs), manifest.description)
    return manifest.description

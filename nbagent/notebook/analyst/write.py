"""Lets an analyst write or fix a notebook file until it runs from top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nbagent.agent.agent import Agent
from nbagent.agent.plan import plan_in
from nbagent.checks import check_number, check_type, invalid
from nbagent.core.background import blocking
from nbagent.core.events import CellChanged, Event, ToolResult
from nbagent.core.results import AgentResult
from nbagent.errors import ConfigurationError
from nbagent.notebook.analyst.analyst import analyst_agent
from nbagent.notebook.analyst.verify import Problem, Verification, failures, verify_notebook
from nbagent.notebook.document.cell import NotebookCell
from nbagent.notebook.document.changes import CellDiff
from nbagent.notebook.document.document import CELL_SECONDS
from nbagent.notebook.document.file import FileNotebook
from nbagent.notebook.document.modes import runs_shell
from nbagent.notebook.document.reading import read_cell
from nbagent.text import shortened

#: How often the analyst may try to fix failing cells.
TRIES = 3
#: Model requests for one task. A run's default of ten is only enough for about six cells.
_REQUESTS = 200
_LINE_CHARS = 100

_WRITE = """{task}

Work in the notebook {name}. {state} Nobody is watching: do not ask, but choose, and say in the text what you chose."""
_RESUMED = """It has {number} cells from earlier, which have just been run. List them and read those that matter. Keep \
them, do not repeat their work, and continue where they end."""
_FIX = """The notebook {name} was run from top to bottom in a fresh kernel. {problems}

These are the cells as they are now:

{cells}

Fix the notebook: change as little as you can, and keep the purpose of each cell. Add no summary, and no cell that the \
fix does not need. Run the cells that you changed, and those that use their results. Nobody is watching: do not ask."""
_DIFFERS = """ If a cell's output differs each time, give it a seed or an order. If that is not possible, add the line \
`# NBVAL_IGNORE_OUTPUT` to it."""


class Progress(NamedTuple):
    """The current step, its latest line of text, and its progress. `total` is 0 if unknown."""

    doing: str
    line: str = ""
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class NotebookResult:
    """The outcome of writing or fixing a notebook file. `ok` is true if the analyst has finished, and the notebook runs
    and reproduces its saved outputs.

    - `answer`: the analyst's last answer; "" if the analyst was not needed
    - `changes`: a diff for each cell whose source changed
    - `verification`: the final check in a fresh kernel
    - `runs`: the results of the agent's runs. `cost` is their total cost in US dollars, or None if a price is unknown
    """

    path: Path
    changes: tuple[CellDiff, ...]
    verification: Verification
    runs: tuple[AgentResult, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the analyst finished, and the final check found no problem."""
        return self.verification.ok and not self.unfinished

    @property
    def unfinished(self) -> str:
        """The reason why the analyst did not finish; "" if it finished or was not needed."""
        if not self.runs or (self.runs[-1].status == "ok" and (self.changes or self.verification.cells)):
            return ""
        last = self.runs[-1]
        ended = "The analyst wrote no cell." if last.status == "ok" else f"The analyst's work ended as {last.status!r}."
        return last.status_reason or ended

    @property
    def answer(self) -> str:
        """The analyst's last answer; "" if the analyst was not needed."""
        return str(self.runs[-1]) if self.runs else ""

    @property
    def cost(self) -> float | None:
        """The total cost of the runs in US dollars; None if a price is unknown."""
        costs = [run.cost for run in self.runs]
        return None if None in costs else sum(cost or 0.0 for cost in costs)

    @property
    def diff(self) -> str:
        """The changes to the cells' sources, as text."""
        return "\n".join(map(str, self.changes))


async def write_notebook(
    path: str | Path,
    task: str,
    agent: Agent | None = None,
    *,
    kernel: str | None = None,
    seconds: float = CELL_SECONDS,
    tell: Callable[[Progress], None] | None = None,
) -> NotebookResult:
    """Let an analyst do a task in a notebook file, and fix the notebook until it runs in a fresh kernel.

    The file is created with the first cell and saved after each change. Existing cells are run first and kept, so you
    can repeat an interrupted call to continue its work. The code runs with your permissions, in the file's folder,
    without approval. The agent's `approve` decides about deletions and about cells that start programs (such as
    `!pip`). The agent's `budget` applies to the whole task.

    - `agent`: the agent whose model, tools and limits are used; by default `Agent()`
    - `kernel`: the name of an installed kernel; by default the notebook's own, or `python3` for a new notebook
    - `seconds`: the time limit for each cell
    - `tell`: a function that is called with each `Progress`

    Raises ConfigurationError if the file is not a notebook, and `ProviderError` if the provider fails. After an error,
    the file contains the work so far.

    >>> result = await write_notebook("report.ipynb", "What drives churn in data/churn.csv?")   # doctest: +SKIP
    >>> print(result.answer, result.verification, result.cost)                                  # doctest: +SKIP
    """
    check_type("task", task, str)
    if not task.strip():
        raise invalid("task", task, "a task in words")
    async with FileNotebook(path, kernel) as document:
        work = _Work(document, agent, seconds, tell, await document.cells())
        state = "It is empty."
        await document.kernel.start()  # if it can't, nothing is spent
        if work.before:
            await work.run_all("running the existing cells")
            state = _RESUMED.format(number=len(work.before))
        await work.ask(_WRITE.format(task=task, name=document.path.name, state=state), "writing")
        return await work.fixed()


async def fix_notebook(
    path: str | Path,
    agent: Agent | None = None,
    *,
    kernel: str | None = None,
    seconds: float = CELL_SECONDS,
    tell: Callable[[Progress], None] | None = None,
) -> NotebookResult:
    """Run a notebook file from top to bottom, and let an analyst fix failing cells until all cells run.

    The outputs of the last run are saved in the file. No model is called if all cells run. `write_notebook` describes
    the arguments.

    >>> print((await fix_notebook("broken.ipynb")).diff)                            # doctest: +SKIP
    """
    async with FileNotebook(path, kernel) as document:
        if document.is_new:
            raise ConfigurationError(f"there is no notebook {str(document.path)!r}.")
        return await _Work(document, agent, seconds, tell, await document.cells()).fixed()


write_notebook_sync = blocking(write_notebook)
fix_notebook_sync = blocking(fix_notebook)


class _Work:
    """One task on one file."""

    def __init__(
        self,
        document: FileNotebook,
        agent: Agent | None,
        seconds: float,
        tell: Callable[[Progress], None] | None,
        before: list[NotebookCell],
    ) -> None:
        check_type("agent", agent, Agent, optional=True)
        check_number("seconds", seconds, above=0)
        self.document, self.seconds, self.before = document, seconds, before
        self._agent, self._analyst = agent, None if agent is None else self._new_analyst(agent)
        self._tell = tell or (lambda progress: None)
        self._now = Progress("")
        self.runs: list[AgentResult] = []

    async def run_all(self, doing: str) -> Verification:
        """Restart the kernel, run all cells, and save their outputs. The result has the failures.

        Nothing runs if an agent's cell that has not run yet starts a program, because nobody approved that.
        """
        unasked = [
            Problem(number, cell.id, "failed", "starts a program, which nobody approved: it was not run")
            for number, cell in enumerate(await self.document.cells(), 1)
            if cell.kind == "code" and cell.run_id is not None and cell.execution_count is None
            if runs_shell(cell.source)
        ]
        if unasked:
            return Verification(len(unasked), tuple(unasked))
        cells = await self.document.run_all(self.seconds, lambda *at: self._tell(Progress(doing, "", *at)))
        return Verification(sum(cell.kind == "code" for cell in cells), tuple(failures(cells)))

    async def ask(self, message: str, doing: str) -> None:
        """Let the analyst work."""
        self._now = Progress(doing)
        self._tell(self._now)
        if self._analyst is None:
            self._analyst = self._new_analyst(Agent())
        self.runs.append(await self._analyst.chat(message, max_iterations=_REQUESTS))

    async def fixed(self) -> NotebookResult:
        """Run and fix the notebook until a fresh kernel finds no problem, or the tries or the budget run out."""
        for left in range(TRIES, -1, -1):
            verification = await self.run_all("running all cells")
            if verification.ok:
                verification = await verify_notebook(
                    self.document,
                    seconds=self.seconds,
                    on_cell=lambda *at: self._tell(Progress("verifying in a fresh kernel", "", *at)),
                )
            has_ended = bool(self.runs) and self.runs[-1].status in ("limit", "blocked", "denied", "interrupted")
            if verification.ok or left == 0 or has_ended:
                break
            for problem in verification.problems:
                self._tell(Progress("fixing", f"problem  {problem}"))
            await self.ask(self._fix_message(verification), "fixing")
        cells = await self.document.cells()
        changes = tuple(_changes(self.before, cells))
        return NotebookResult(self.document.path, changes, verification, tuple(self.runs))

    def _fix_message(self, verification: Verification) -> str:
        cells = self.document.seen
        read = [read_cell(cells[problem.number - 1], problem.number) for problem in verification.problems]
        texts = [text if isinstance(text, str) else text[0]["text"] for text in read]
        message = _FIX.format(name=self.document.path.name, problems=verification, cells="\n\n".join(texts))
        differs = any(problem.kind == "differs" for problem in verification.problems)
        return message + _DIFFERS * differs

    def _new_analyst(self, agent: Agent) -> Agent:
        analyst = analyst_agent(agent, self.document, mode="auto", seconds=self.seconds)
        analyst.observers.append(self._observe)
        return analyst

    def _observe(self, event: Event) -> None:
        """Report the progress by the plan's steps. This happens after each event, since each may change the cost."""
        if isinstance(event, ToolResult) and (steps := plan_in(event)):
            doing = next((step.step for step in steps if step.status == "doing"), self._now.doing)
            done = sum(step.status in ("done", "dropped") for step in steps)
            self._now = Progress(doing, "", done, len(steps))
        self._tell(self._now._replace(line=self._line(event)) if isinstance(event, CellChanged) else self._now)

    def _line(self, event: CellChanged) -> str:
        """A cell's change or outcome as a line, with its error below."""
        source = event.after if event.after is not None else event.before or ""
        first = next((line for line in source.splitlines() if line.strip()), "")
        verb = {"add": "added", "edit": "edited", "move": "moved", "delete": "deleted", "run": "ran"}[event.kind]
        cell = next((cell for cell in self.document.seen if cell.id == event.cell), None)
        error = cell.error if event.kind == "run" and cell is not None else None
        line = f"{'failed' if error else verb:<8} {shortened(first, _LINE_CHARS)}"
        return f"{line}\n         {shortened(error['ename'] + ': ' + error['evalue'], _LINE_CHARS)}" if error else line


def _changes(before: Sequence[NotebookCell], after: Sequence[NotebookCell]) -> list[CellDiff]:
    """The changed cells in order, with deleted cells last."""
    was = {cell.id: cell.source for cell in before}
    now = {cell.id for cell in after}
    changes = [CellDiff(number, cell.id, was.get(cell.id), cell.source) for number, cell in enumerate(after, 1)]
    gone = [CellDiff(number, cell.id, cell.source, None) for number, cell in enumerate(before, 1) if cell.id not in now]
    return [change for change in [*changes, *gone] if change.before != change.after]

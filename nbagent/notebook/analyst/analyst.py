"""The analyst: instructions, and tools for a notebook, its kernel and a plan."""

from __future__ import annotations

from pathlib import Path

from nbagent.agent.agent import Agent
from nbagent.agent.plan import UPDATE_PLAN, Plans
from nbagent.core.limits import Limits
from nbagent.functions.registry import FunctionRegistry
from nbagent.functions.toolset import Toolset
from nbagent.notebook.document.document import CELL_SECONDS, NotebookDocument
from nbagent.notebook.document.modes import Mode
from nbagent.notebook.document.tools import notebook_tools
from nbagent.notebook.kernel_tools.kernel_tools import kernel_tools

#: The prompt, for people to read, copy and change.
PROMPT_FILE = Path(__file__).with_suffix(".md")

#: The kernel tools that only read. The analyst has no `run_code`, which would define variables outside of cells.
_READING = ("list_variables", "describe_variable", "peek_dataframe")

#: The default limit of model requests for one prompt. Eight cells take about twenty.
_MAX_ITERATIONS = 60


class Analyst(Toolset):
    """Tools for a notebook, and instructions that explain how to use them.

    - `document`: the notebook to work in. None means the notebook that the prompt came from. In that case, the analyst
      can also read the notebook's variables
    - `mode` and `seconds`: see `notebook_tools`

    >>> Analyst(FileNotebook("report.ipynb")).join(agent)                   # doctest: +SKIP
    """

    def __init__(
        self, document: NotebookDocument | None = None, mode: Mode = "ask", seconds: float = CELL_SECONDS
    ) -> None:
        reading = [tool for tool in kernel_tools() if tool.name in _READING] if document is None else []
        self._definitions = [*notebook_tools(document, mode, seconds), *reading]
        self.tools = FunctionRegistry()
        self._prompt = ""
        self._brought_plan = False
        #: The agent's limits before the analyst was switched on, and since.
        self._limits = Limits(), Limits()

    @property
    def is_on(self) -> bool:
        """Whether the analyst's tools and instructions are switched on."""
        return bool(self.tools.names())

    def instructions(self) -> str:
        """See `Toolset`."""
        return self._prompt if self.is_on else ""

    def join(self, agent: Agent, prompt: str | None = None) -> None:
        """Switch the analyst on for an agent, which can then also write plans. `prompt` replaces the instructions in
        `PROMPT_FILE`.
        """
        if self not in agent.toolsets:
            self._brought_plan = not any(isinstance(each, Plans) for each in agent.toolsets)
            agent.use(self, *([Plans()] if self._brought_plan else ()))
        if not self.is_on or self._limits[1] is not agent.limits:
            self._limits = agent.limits, agent.limits.or_else(Limits(max_iterations=_MAX_ITERATIONS))
            agent.limits = self._limits[1]
        self._prompt = PROMPT_FILE.read_text("utf-8") if prompt is None else prompt
        self.tools.set_tools(self._definitions)
        agent.tools_off.discard(UPDATE_PLAN)

    def leave(self, agent: Agent) -> None:
        """Switch the analyst off for the agent and for all forks that share it."""
        self.tools.set_tools([])
        agent.tools_off |= {UPDATE_PLAN} if self._brought_plan else set()
        if agent.limits is self._limits[1]:
            agent.limits = self._limits[0]


def analyst_agent(
    agent: Agent,
    document: NotebookDocument | None = None,
    mode: Mode = "ask",
    prompt: str | None = None,
    seconds: float = CELL_SECONDS,
) -> Agent:
    """Fork an agent and add the analyst: the fork plans its work, and writes, runs and fixes cells of a notebook.

    The fork continues the conversation and keeps the agent's tools. `prompt` replaces the instructions in
    `PROMPT_FILE`. `Analyst` describes the other arguments.

    >>> analyst = analyst_agent(agent, FileNotebook("report.ipynb"), mode="auto")   # doctest: +SKIP
    >>> await analyst.chat("What drives churn in data/churn.csv?")                  # doctest: +SKIP
    """
    fork = agent.fork()
    Analyst(document, mode, seconds).join(fork, prompt)
    return fork


def analyst_of(agent: Agent) -> Analyst | None:
    """The agent's analyst, even if it is switched off; None if the agent has none."""
    return next((each for each in agent.toolsets if isinstance(each, Analyst)), None)

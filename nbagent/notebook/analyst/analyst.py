"""The analyst: a prompt, the tools of the notebook and of its kernel, and a plan. Nothing more."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Literal

from nbagent.agent.agent import Agent
from nbagent.agent.plan import Plans
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry
from nbagent.functions.toolset import Toolset
from nbagent.notebook.document.document import CELL_SECONDS, NotebookDocument
from nbagent.notebook.kernel_tools.kernel_tools import kernel_tools

#: The prompt, for people to read, copy and change.
PROMPT_FILE = Path(__file__).with_suffix(".md")

#: The kernel tools that look. The analyst has no `run_code`: its variables would come from no cell of the notebook.
_LOOKING = ("list_variables", "describe_variable", "peek_dataframe")


class Analyst(Toolset):
    """The tools of a notebook, and a prompt that says how to work with them.

    - `document`: the notebook to work in. None is the one that asks; its variables can be looked at.
    - `mode`: what asks for approval: "ask", "auto-edit" or "auto"
    - `prompt`: a text in place of the one in `PROMPT_FILE`
    - `seconds`: what a cell may run

    >>> agent.use(Analyst(FileNotebook("report.ipynb")))                        # doctest: +SKIP
    """

    def __init__(
        self,
        document: NotebookDocument | None = None,
        mode: Literal["ask", "auto-edit", "auto"] = "ask",
        prompt: str | None = None,
        seconds: float = CELL_SECONDS,
    ) -> None:
        self.prompt = PROMPT_FILE.read_text("utf-8") if prompt is None else prompt
        self.tools = FunctionRegistry()
        self.tools.set_tools(
            [*_notebook_tools(document, mode, seconds), *(_looking_tools() if document is None else ())]
        )

    def instructions(self) -> str:
        """See `Toolset`."""
        return self.prompt


def analyst_agent(
    agent: Agent,
    document: NotebookDocument | None = None,
    mode: Literal["ask", "auto-edit", "auto"] = "ask",
    prompt: str | None = None,
    seconds: float = CELL_SECONDS,
) -> Agent:
    """A fork of an agent that writes, runs and mends cells of a notebook, and plans. Its arguments are `Analyst`'s.

    It goes on with the agent's conversation, and keeps its tools.

    >>> analyst = analyst_agent(agent, FileNotebook("report.ipynb"), mode="auto")   # doctest: +SKIP
    >>> await analyst.chat("What drives churn in data/churn.csv?")                  # doctest: +SKIP
    """
    return with_plan(agent.fork().use(Analyst(document, mode, prompt, seconds)))


def with_plan(agent: Agent) -> Agent:
    """The agent, which from now on can write a plan if it could not."""
    return agent if any(isinstance(each, Plans) for each in agent.toolsets) else agent.use(Plans())


def _notebook_tools(document: NotebookDocument | None, mode: str, seconds: float) -> list[FunctionDefinition]:
    made = import_module("nbagent.notebook.document.tools").notebook_tools(document, mode, seconds)
    tools: list[FunctionDefinition] = made
    return tools


def _looking_tools() -> list[FunctionDefinition]:
    return [tool for tool in kernel_tools() if tool.name in _LOOKING]

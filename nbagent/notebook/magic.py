"""`%%agent` and `%agent`: ask the agent from a cell.

A typed `%%agent` cell is rewritten to an async cell (`await …run_cell_magic('agent_async', …)`), so that the kernel
stays free while the model works. Under `%%time`, `%%capture`, or when called from code, the same run is driven on the
background loop instead.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from nbagent.agent import Agent
from nbagent.core import events
from nbagent.core.background import run_sync
from nbagent.core.limits import Limits
from nbagent.core.messages import AgentResult, LLMMessage
from nbagent.core.visible import visible
from nbagent.errors import NbagentError
from nbagent.functions.approval import ask_by_default
from nbagent.functions.live import live
from nbagent.notebook.approval import Approval
from nbagent.notebook.commands import COMMANDS
from nbagent.notebook.figures import plots, shown
from nbagent.notebook.host import is_watched, request_of
from nbagent.notebook.interpolate import interpolate
from nbagent.notebook.runner import run_in_cell
from nbagent.notebook.view import CellView, TerminalView, Transcript

E = TypeVar("E", bound=BaseException)

#: How many `run_cell` calls are under way: inside another magic an async cell can't be awaited.
_depth: ContextVar[int] = ContextVar("nbagent_cell_depth", default=0)
_TYPED_CELL = re.compile(r"^get_ipython\(\)\.run_cell_magic\('agent'")

NO_KEY_NOTE = "embedded model, no key needed"


@magics_class
class AgentMagics(Magics):
    """The magics of one shell."""

    shell: Any

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._noted = False
        #: The cell that each agent answered last, its question, and the history's last message then.
        self._last: WeakKeyDictionary[Agent, tuple[str, LLMMessage, LLMMessage]] = WeakKeyDictionary()

    @magic_arguments("%agent")
    @argument("name", nargs="?", default="agent", help="the variable that holds the agent; made if there is none")
    @argument("-m", "--model", metavar="VENDOR:MODEL", help="switch this agent to another model; history stays")
    @argument("-t", "--tools", metavar="NAME,NAME", help="offer only these tools")
    @argument("--no-tools", action="store_true", help="offer no tools")
    @argument("-s", "--system", metavar="TEXT", help="set the agent's system prompt")
    @argument("-o", "--output", metavar="VAR", help="put the answer's text into this variable")
    @argument("--max-iterations", type=int, metavar="N", help="at most N model requests")
    @argument("--temperature", type=float, metavar="T", help="sampling temperature of this run")
    @argument("--new", action="store_true", help="forget the conversation first")
    @argument("--keep", action="store_true", help="when this cell runs again, append instead of replacing its turn")
    @argument("--raw", action="store_true", help="take {braces} as they are")
    @cell_magic("agent")
    def agent(self, line: str, cell: str) -> None:
        """Ask an agent; the answer streams into the cell.

        The text of the cell is the question. `{expression}` in it is evaluated in the notebook; `{{` is a brace. The
        agent is the variable `agent`, or the one named: `%%agent analyst`. Functions decorated with `@nbagent.tool`
        are its tools. Afterwards `_agent` is the result, and `agent.trace` has everything as DataFrames.
        """
        try:
            run_sync(self._answer(*self._prepare(line, cell)))
        except KeyboardInterrupt as stop:
            raise _readable(stop) from None

    @cell_magic("agent_async")
    def agent_async(self, line: str, cell: str) -> Any:
        """`%%agent`, awaited by an async cell. Type `%%agent`: it becomes this by itself."""
        answer = self._answer(*self._prepare(line, cell))  # what is wrong with the cell is said here, not in the task

        async def run() -> None:
            try:
                await run_in_cell(answer)
            except KeyboardInterrupt as stop:
                raise _readable(stop) from None

        return run()

    @line_magic("agent")
    def agent_line(self, line: str) -> Any:
        """Look at the agent in the variable `agent`, or change it: `%agent help` lists the commands."""
        name, *words = line.split() or ["status"]
        if name not in COMMANDS:
            raise UsageError(f"%agent {name}: not a command; there are {', '.join(COMMANDS)}")
        try:
            return COMMANDS[name].run(self.shell, self._find("agent"), words)
        except NbagentError as error:
            raise _readable(error) from None

    def _prepare(self, line: str, cell: str) -> tuple[Any, Agent, Any]:
        """Everything that can be wrong with a cell is found here, before any request and before anything changes."""
        try:
            options: Any = parse_argstring(AgentMagics.agent, line)
            message = self._question(options, cell)
            agent = self._find(options.name)
            if options.tools:
                options.tools = [name.strip() for name in options.tools.split(",") if name.strip()]
                agent.function_registry.only(options.tools)
            Limits(max_iterations=options.max_iterations)
            if options.model:
                agent.provider = options.model
            agent.provider.model_name  # noqa: B018  the provider is made now, or its error is said
        except NbagentError as error:
            raise _readable(error) from None
        self._set_up(options, agent)
        return options, agent, message

    def _question(self, options: Any, cell: str) -> Any:
        for name in (options.name, options.output):
            if name is not None and not name.isidentifier():
                raise UsageError(f"{name!r} is not a variable name: %%agent [NAME] [options], the question below")
        if not cell.strip():
            raise UsageError("the cell has no question: write it below the %%agent line")
        return cell.strip() if options.raw else interpolate(cell.strip(), self.shell.user_ns)

    def _set_up(self, options: Any, agent: Agent) -> None:
        """What the cell changes in the agent; the notebook's ways to ask and to show plots, where it has none."""
        if options.system is not None:
            agent.system_prompt = options.system.strip("\"'")
        if options.new:
            agent.clear_history()
        elif not options.keep and (question := self._answered_before(agent)):
            agent.context.undo(to=question)
        executor = agent.tool_executor
        if executor.around is None:
            executor.around, executor.alone = shown, plots

    def _find(self, name: str) -> Agent:
        """The agent in the user's variable `name`; a new one with the live tools where there is none."""
        found = self.shell.user_ns.get(name)
        if found is None:
            found = self.shell.user_ns[name] = Agent(tools=live)
        if not isinstance(found, Agent):
            raise UsageError(f"{name} is a {type(found).__name__}, not an Agent: del {name}, or use another name")
        return found

    async def _answer(self, options: Any, agent: Agent, message: Any) -> None:
        transcript = Transcript(timings=self._live)
        if agent.is_default_local and not self._noted:
            self._noted, transcript.note = True, NO_KEY_NOTE
        view = self._view(transcript)
        stream = agent.chat_stream(
            message,
            use_tools=not options.no_tools,
            tools=options.tools,
            max_iterations=options.max_iterations,
            temperature=options.temperature,
            origin={"source": "magic", "agent": options.name, **self._cell()},
        )
        question: LLMMessage | None = None
        self.shell.user_ns["_agent"] = None
        try:
            async with stream:
                async for event in stream:
                    view.feed(event)
                    if isinstance(event, events.RunStarted) and event.messages:
                        question = event.messages[-1]
            self._keep(options, stream.result())
        except Exception as error:  # noqa: BLE001  it is raised again, readable
            self.shell.user_ns["_agent"] = getattr(error, "partial", None)
            raise _readable(error) from error.__cause__
        except BaseException:
            transcript.interrupted()
            raise
        finally:
            view.close()
            history, cell_id = agent.conversation_history, self._cell()["cell_id"]
            if cell_id and question is not None and history:
                self._last[agent] = (cell_id, question, history[-1])

    def _keep(self, options: Any, result: AgentResult) -> None:
        self.shell.user_ns["_agent"] = result
        if options.output:
            self.shell.user_ns[options.output] = result.content

    def _view(self, transcript: Transcript) -> Any:
        if getattr(self.shell, "kernel", None) is None:
            return TerminalView(transcript)
        handles: list[Any] = []

        def show(bundle: dict[str, str]) -> None:
            if handles:
                handles[0].update(bundle, raw=True)
            else:
                handles.append(display(bundle, raw=True, display_id=True))

        return CellView(transcript, show, live=self._live)

    def _answered_before(self, agent: Agent) -> LLMMessage | None:
        """The question this very cell asked last, if its turn is still the conversation's last."""
        cell_id, question, last = self._last.get(agent, (None, None, None))
        history = agent.conversation_history
        same = cell_id is not None and cell_id == self._cell()["cell_id"] and history and history[-1] is last
        return question if same else None

    @property
    def _live(self) -> bool:
        return is_watched(self.shell)

    def _cell(self) -> dict[str, Any]:
        cell_id = request_of(self.shell).get("metadata", {}).get("cellId")
        return {"cell_id": cell_id, "execution_count": self.shell.execution_count}


def _readable(error: E) -> E:
    """The same error, which the cell shows as one readable block instead of a traceback through our code."""
    text = f": {visible(str(error))}" if str(error) else ""
    lines = [f"\x1b[31m{type(error).__name__}\x1b[0m{text}"]
    error.__dict__["_render_traceback_"] = lambda: lines
    return error


def _to_async_cell(shell: Any) -> Any:
    """An input transformer: a typed `%%agent` cell becomes an async one, where the shell can await."""

    def transform(lines: list[str]) -> list[str]:
        typed = bool(lines) and _TYPED_CELL.match(lines[0]) and not lines[0].rstrip().endswith(", '')")  # no question
        if typed and _depth.get() == 0 and shell.autoawait and getattr(shell, "kernel", None) is not None:
            lines = ["await " + lines[0].replace("'agent'", "'agent_async'", 1), *lines[1:]]
        return lines

    transform.__dict__["nbagent"] = True  # how `unload` finds it again
    return transform


def _cell_begins(info: Any) -> None:
    _depth.set(_depth.get() + 1)


def _cell_ends(result: Any) -> None:
    _depth.set(max(0, _depth.get() - 1))
    live.names()  # the live set takes notice of what this cell defined and deleted


def load(shell: Any) -> None:
    """Register everything with a shell; loading twice changes nothing."""
    unload(shell)
    magics = AgentMagics(shell)
    shell.register_magics(magics)
    shell.input_transformers_post.append(_to_async_cell(shell))
    shell.events.register("pre_run_cell", _cell_begins)
    shell.events.register("post_run_cell", _cell_ends)
    shell.user_ns.setdefault("agent", Agent(tools=live))
    ask_by_default(Approval(lambda: is_watched(shell)))


def unload(shell: Any) -> None:
    """Take back what `load` registered; agents and tools stay."""
    ask_by_default(None)
    transformers = shell.input_transformers_post
    transformers[:] = [transform for transform in transformers if not hasattr(transform, "nbagent")]
    for name, callback in (("pre_run_cell", _cell_begins), ("post_run_cell", _cell_ends)):
        if callback in shell.events.callbacks[name]:
            shell.events.unregister(name, callback)
    for kind, name in (("cell", "agent"), ("cell", "agent_async"), ("line", "agent")):
        shell.magics_manager.magics[kind].pop(name, None)

"""`%%agent` and `%agent`: ask the agent from a cell.

A typed `%%agent` cell is rewritten to an async cell (`await …run_cell_magic('agent_async', …)`), so that the kernel
stays free while the model works. Under `%%time`, `%%capture`, or when called from code, the same run is driven on the
background loop instead.
"""

from __future__ import annotations

import re
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from IPython.core.error import UsageError
from IPython.core.getipython import get_ipython
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments
from IPython.display import display

from nbagent.agent import Agent
from nbagent.agent_summary import NO_KEY_NOTE
from nbagent.core import events
from nbagent.core.background import run_sync
from nbagent.core.messages import LLMMessage
from nbagent.core.render import markdown as render
from nbagent.core.render.control_chars import show_control_chars
from nbagent.core.stream import AgentStream
from nbagent.errors import ConfigurationError, NbagentError
from nbagent.functions.approval import set_default_approver
from nbagent.functions.live import live
from nbagent.notebook.display.approval import Approval, asking
from nbagent.notebook.display.figures import plots, shown
from nbagent.notebook.display.transcript import Transcript
from nbagent.notebook.display.view import CellView, TerminalView
from nbagent.notebook.host import cell_id_of, is_watched, note_cell
from nbagent.notebook.kernel_tools.cell_outputs import CellOutputs
from nbagent.notebook.magics import completion, dry_run, options
from nbagent.notebook.magics.answer_formats import FORMS, converted
from nbagent.notebook.magics.async_cell import run_in_cell
from nbagent.notebook.magics.commands import COMMANDS
from nbagent.notebook.magics.interpolate import interpolate
from nbagent.notebook.magics.last_error import last_error
from nbagent.providers.catalog import first_with_key
from nbagent.trace.trace import Trace

E = TypeVar("E", bound=BaseException)

#: How many `run_cell` calls are under way: inside another magic an async cell can't be awaited.
_depth: ContextVar[int] = ContextVar("nbagent_cell_depth", default=0)
_TYPED_CELL = re.compile(r"^get_ipython\(\)\.run_cell_magic\('agent'")


@magics_class
class AgentMagics(Magics):
    """The magics of one shell."""

    shell: Any

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._noted = False
        #: What cells displayed, for the tool that reads it.
        self.outputs = CellOutputs(shell)
        #: The cell that each agent answered last, its question, and the history's last message then.
        self._last: WeakKeyDictionary[Agent, tuple[str, LLMMessage, LLMMessage]] = WeakKeyDictionary()

    @magic_arguments("%agent")
    @argument(
        "name",
        nargs="?",
        metavar="NAME",
        default="agent",
        type=options.variable,
        help="the variable that holds the agent; made if there is none",
    )
    @argument("-m", "--model", metavar="VENDOR:MODEL", help="switch this agent to another model; history stays")
    @argument("-t", "--tools", metavar="NAME,NAME", type=options.names, help="offer only these tools")
    @argument("--no-tools", action="store_true", help="offer no tools")
    @argument("-s", "--system", metavar="TEXT", type=options.unquoted, help="set the agent's system prompt")
    @argument(
        "-o", "--output", metavar="VAR", type=options.variable, help="put the answer into this variable, in its form"
    )
    @argument(
        "--as",
        dest="form",
        default="markdown",
        metavar="|".join(FORMS),
        type=options.OneOf(*FORMS),
        help="the answer's form: markdown; text, as typed; json or df, data that the cell returns; code, a cell below",
    )
    @argument(
        "--thinking",
        metavar="LEVEL",
        type=options.OneOf(*options.THINKING),
        help=f"how deep the model thinks about this cell: {', '.join(options.THINKING)}",
    )
    @argument("--max-iterations", metavar="N", type=options.count, help="at most N model requests")
    @argument("--temperature", metavar="T", type=options.temperature, help="sampling temperature of this run")
    @argument("--new", action="store_true", help="forget the conversation first")
    @argument("--keep", action="store_true", help="when this cell runs again, append instead of replacing its turn")
    @argument("--raw", action="store_true", help="take {braces} as they are")
    @argument("--approve", action="store_true", help="ask before each tool call of this cell")
    @argument("--dry-run", action="store_true", help="show what would be sent: nothing is sent, nothing changes")
    @cell_magic("agent")
    def agent(self, line: str, cell: str) -> Any:
        """Ask an agent; the answer streams into the cell.

        The text of the cell is the question. `{expression}` in it is evaluated in the notebook, `{x:.2f}` and `{x!r}`
        as in an f-string; `{{` is a brace. The agent is the variable `agent`, or the one named: `%%agent analyst`.
        Functions decorated with `@nbagent.tool` are its tools. Afterwards `_agent` is the result, and `agent.trace` has
        everything as DataFrames.
        """
        try:
            return run_sync(self._answer(*self._prepare(line, cell)))
        except KeyboardInterrupt as stop:
            raise _readable(stop) from None

    @cell_magic("agent_async")
    def agent_async(self, line: str, cell: str) -> Any:
        """`%%agent`, awaited by an async cell. Type `%%agent`: it becomes this by itself."""
        answer = self._answer(*self._prepare(line, cell))  # what is wrong with the cell is said here, not in the task

        async def run() -> Any:
            try:
                return await run_in_cell(answer)
            except KeyboardInterrupt as stop:
                raise _readable(stop) from None

        return run()

    @line_magic("agent")
    def agent_line(self, line: str) -> Any:
        """Look at the agent in the variable `agent`, or change it: `%agent help` lists the commands."""
        name, *words = line.split() or ["status"]
        if name not in COMMANDS:
            is_question = len(words) > 1
            instead = "; write a question below a line %%agent" if is_question else options.instead(name, COMMANDS)
            raise UsageError(f"%agent {name}: not a command{instead}")
        if words and not COMMANDS[name].usage:  # `%agent new analyst` must not be taken for another agent's
            raise UsageError(f"%agent {name} takes nothing more, and is about the agent in the variable agent")
        agent = self.shell.user_ns["agent"] = self._find("agent")
        try:
            return COMMANDS[name].run(self.shell, agent, words)
        except NbagentError as error:
            raise _readable(error) from None

    def _prepare(self, line: str, cell: str) -> tuple[Any, Agent, Any]:
        """Everything that can be wrong with a cell is found here, before any request and before anything changes."""
        given = options.parse(AgentMagics.agent, line)
        message = self._question(given, cell)
        agent = self._find(given.name)
        question = None if given.keep else self._answered_before(agent)
        rehearsal = agent.fork()
        try:
            rehearsal.provider = given.model or agent.provider
            self._set_up(given, rehearsal, question)
            self._stream(given, rehearsal, message).preview()
        except NbagentError as error:
            raise _readable(error) from None
        if given.dry_run:
            return given, rehearsal, message
        self.shell.user_ns[given.name] = agent
        if given.model:
            agent.provider = rehearsal.provider
        self._set_up(given, agent, question)
        executor = agent.tool_executor
        if executor.call_context is None:  # the notebook's way to show plots, where the agent has none
            executor.call_context, executor.runs_exclusively = shown, plots
        return given, agent, message

    def _question(self, given: Any, cell: str) -> Any:
        if not cell.strip():
            raise UsageError("the cell has no question: write it below the %%agent line")
        return cell.strip() if given.raw else interpolate(cell.strip(), self.shell.user_ns)

    @staticmethod
    def _set_up(given: Any, agent: Agent, question: LLMMessage | None) -> None:
        """What the cell changes in the agent: its system prompt, and what the turn follows."""
        if given.system is not None:
            agent.system_prompt = given.system
        if given.new:
            agent.clear_history()
        elif question is not None:
            agent.context.undo(to=question)

    def _find(self, name: str) -> Agent:
        """The agent in the user's variable `name`; where there is none a new one, which has the live tools."""
        found = self.shell.user_ns.get(name)
        if found is None:
            found = Agent(tools=live)
        if not isinstance(found, Agent):
            raise UsageError(f"{name} is no Agent but of type {type(found).__name__}: del {name}, or use another name")
        return found

    def _stream(self, given: Any, agent: Agent, message: Any) -> AgentStream:
        """The run that the cell asks for, not begun."""
        thinking = {} if given.thinking is None else {"thinking": given.thinking}
        return agent.chat_stream(
            message,
            use_tools=not given.no_tools,
            tools=given.tools,
            approve_all=given.approve,
            instructions=FORMS[given.form].asks,
            max_iterations=given.max_iterations,
            temperature=given.temperature,
            origin={"source": "magic", "agent": given.name, **self._cell()},
            **thinking,
        )

    async def _answer(self, given: Any, agent: Agent, message: Any) -> Any:
        """Ask, show what happens, and return the answer where its form is data."""
        stream = self._stream(given, agent, message)
        if given.dry_run:
            display(dry_run.bundle(stream.preview()), raw=True)
            return None
        transcript = self._transcript(given, agent)
        view = self._view(transcript)
        question: LLMMessage | None = None
        self.shell.user_ns["_agent"] = None
        try:
            async with stream:
                async for event in stream:
                    view.feed(event)
                    if isinstance(event, events.RunStarted) and event.messages:
                        question = event.messages[-1]
            self.shell.user_ns["_agent"] = stream.result()
            value = converted(given.form, stream.result())
            if FORMS[given.form].is_data:
                transcript.fold()
        except Exception as error:  # noqa: BLE001  nothing is lost: raised at once, readable
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
        return self._hand_over(given, value)

    def _hand_over(self, given: Any, value: Any) -> Any:
        """Put the answer where the cell wants it: into a variable, into a cell below, or out."""
        if given.output:
            self.shell.user_ns[given.output] = value
        if given.form == "code":
            self.shell.set_next_input(value, replace=False)
        return value if FORMS[given.form].is_data else None

    def _transcript(self, given: Any, agent: Agent) -> Transcript:
        as_html = render.verbatim_html if given.form == "text" else render.markdown_to_html
        transcript = Transcript(timings=self._live, as_html=as_html)
        if agent.is_default_local and not self._noted:
            self._noted, transcript.note = True, NO_KEY_NOTE
        return transcript

    def _view(self, transcript: Transcript) -> Any:
        if getattr(self.shell, "kernel", None) is None:
            return TerminalView(transcript)
        handles: list[Any] = []

        def show(index: int, bundle: dict[str, str]) -> None:
            if index < len(handles):
                handles[index].update(bundle, raw=True)
            else:
                handles.append(display(bundle, raw=True, display_id=True))

        view = CellView(transcript, show, live=self._live)
        asking.set(view.asking)
        return view

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
        return {"cell_id": cell_id_of(self.shell), "execution_count": self.shell.execution_count}


def _readable(error: E) -> E:
    """The same error, which the cell shows as one readable block instead of a traceback through our code."""
    text = f": {show_control_chars(str(error))}" if str(error) else ""
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
    note_cell(get_ipython(), info.raw_cell)


def _cell_ends(result: Any) -> None:
    _depth.set(max(0, _depth.get() - 1))
    live.names()  # the live set takes notice of what this cell defined and deleted
    last_error.note(result)


def _explore(trace: Trace) -> Any:
    from nbagent.notebook.explorer import TraceExplorer  # loads ipywidgets, which few cells need

    return TraceExplorer(trace)


def load(shell: Any) -> None:
    """Register everything with a shell; loading twice changes nothing."""
    unload(shell)
    magics = AgentMagics(shell)
    shell.register_magics(magics)
    shell.input_transformers_post.append(_to_async_cell(shell))
    shell.events.register("pre_run_cell", _cell_begins)
    shell.events.register("post_run_cell", _cell_ends)
    shell.Completer.custom_matchers.append(completion.matcher(shell, AgentMagics.agent.parser))
    shell.user_ns.setdefault("agent", Agent(tools=live))
    with suppress(ConfigurationError):  # a broken .env is told when a key is needed
        first_with_key()  # Colab answers on the main thread only: the panel gets to know what it said
    set_default_approver(Approval(lambda: is_watched(shell)))
    Trace.explorer = _explore
    note_cell(shell)
    magics.outputs.watch()


def unload(shell: Any) -> None:
    """Take back what `load` registered; agents and tools stay."""
    set_default_approver(None)
    Trace.explorer = None
    if (magics := shell.magics_manager.registry.get(AgentMagics.__name__)) is not None:
        magics.outputs.unwatch()
    for hooks in (shell.input_transformers_post, shell.Completer.custom_matchers):
        hooks[:] = [hook for hook in hooks if not hasattr(hook, "nbagent")]
    for name, callback in (("pre_run_cell", _cell_begins), ("post_run_cell", _cell_ends)):
        if callback in shell.events.callbacks[name]:
            shell.events.unregister(name, callback)
    for kind, name in (("cell", "agent"), ("cell", "agent_async"), ("line", "agent")):
        shell.magics_manager.magics[kind].pop(name, None)

"""`%%agent` and `%agent`: send prompts to the agent from a cell.

The extension rewrites a typed `%%agent` cell as an async cell (`await …run_cell_magic('agent_async', …)`), so the
kernel can handle clicks while the model works. Under `%%time` or `%%capture`, or if code calls the magic, the same run
takes place on the background loop.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import ExitStack
from functools import partial
from itertools import takewhile
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments
from IPython.display import display

from nbagent.agent.agent import Agent
from nbagent.chat.transcript import Transcript
from nbagent.core import events
from nbagent.core.background import background_loop, run_sync
from nbagent.core.cells import cell_id_of, is_watched, request_of
from nbagent.core.current import current, set_current
from nbagent.core.messages import LLMMessage
from nbagent.core.render import markdown as render
from nbagent.core.stream import AgentStream
from nbagent.errors import ExtractionError, NbagentError
from nbagent.functions.live import live
from nbagent.notebook.display.approval import NotebookApprover
from nbagent.notebook.display.code_diff import code_diff
from nbagent.notebook.display.figures import show_figures_of
from nbagent.notebook.display.view import CellView, TerminalView
from nbagent.notebook.kernel_tools.cell_outputs import CellOutputs
from nbagent.notebook.magics import options
from nbagent.notebook.magics.analyst_commands import writing
from nbagent.notebook.magics.answer_formats import FORMS, convert_answer, last_block, shaped_answer
from nbagent.notebook.magics.async_cell import run_in_cell
from nbagent.notebook.magics.cell_errors import Failure, last_error, readable
from nbagent.notebook.magics.code_below import CodeBelow
from nbagent.notebook.magics.commands import COMMANDS
from nbagent.notebook.magics.dry_run import added_by_toolsets, dry_run_bundle
from nbagent.notebook.magics.interpolate import interpolate
from nbagent.notebook.magics.map_cell import check_map_options, map_cell
from nbagent.notebook.magics.mcp_commands import prompt_text
from nbagent.notebook.panel.skill_mentions import activated, as_question

#: The prompt about a failed cell.
_FIX = "Explain this error briefly. Then show the whole corrected cell, in one code block at the end."


@magics_class
class AgentMagics(Magics):
    """The magics of one shell."""

    shell: Any

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._key_note_shown = False
        #: The outputs of cells, for the tool that reads them.
        self.outputs = CellOutputs(shell)
        self._code_below = CodeBelow(shell)

    @magic_arguments("%agent")
    @argument(
        "name",
        nargs="?",
        metavar="NAME",
        default="agent",
        help="the variable that holds the agent; created if it does not exist",
    )
    @argument("-m", "--model", metavar="PROVIDER:MODEL", help="switch this agent to another model; the history is kept")
    @argument("-t", "--tools", metavar="NAME,NAME", type=options.names, help="offer only these tools")
    @argument("--no-tools", action="store_true", help="offer no tools")
    @argument("-s", "--system", metavar="TEXT", type=options.unquoted, help="set the agent's system prompt")
    @argument(
        "-o",
        "--output",
        metavar="VAR",
        type=options.variable,
        help="store the answer in this variable, in the form chosen with --as",
    )
    @argument(
        "--as",
        dest="form",
        default="markdown",
        metavar="|".join(FORMS),
        type=options.OneOf(*FORMS),
        help="the answer's form: markdown; text, shown verbatim; json or df, data that the cell returns; code, a new "
        "cell below",
    )
    @argument(
        "--thinking",
        metavar="LEVEL",
        type=options.OneOf(*options.THINKING),
        help=f"how much the model thinks before it answers: {', '.join(options.THINKING)}",
    )
    @argument("--max-iterations", metavar="N", type=options.whole_number, help="at most N model requests")
    @argument("--temperature", metavar="T", type=options.temperature, help="the sampling temperature of this run")
    @argument("--new", action="store_true", help="start another conversation first")
    @argument("--keep", action="store_true", help="append a turn, or a cell with code, instead of replacing it")
    @argument("--raw", action="store_true", help="keep {braces} as they are")
    @argument("--approve", action="store_true", help="ask for approval before each tool call of this cell")
    @argument("--write", action="store_true", help="let the agent write, run and fix cells below this one")
    @argument(
        "--map",
        metavar="EXPR",
        type=options.expression,
        help="ask about each row of this DataFrame or Series, such as orders.head(60); {braces} name its columns, and "
        "the cell returns a DataFrame of answers",
    )
    @argument(
        "--shape",
        metavar="MODEL",
        type=options.expression,
        help="the type of the answer or of each row's answer, such as a pydantic model; the cell returns the value",
    )
    @argument("--dry-run", action="store_true", help="show what would be sent; send and change nothing")
    @no_var_expand  # a value's words must not become options
    @cell_magic("agent")
    def agent(self, line: str, cell: str) -> Any:
        """Send a prompt to an agent. The answer streams into the cell.

        The cell's text is the prompt. Each `{expression}` in the text is replaced by its value in the notebook.
        `{x:.2f}` and `{x!r}` work as in an f-string, and `{{` is a brace. `%%agent` sends the prompt to the agent in
        the variable `agent`, and `%%agent analyst` to the agent in `analyst`. A new agent's tools are the functions
        decorated with `@nbagent.tool`. Afterwards, `_agent` is the result, and `agent.trace` has all details as
        DataFrames.

        If you run a cell again, its new turn replaces the old one, unless you give `--keep`. The model reads only the
        turns before it. Later turns stay unchanged until you run their cells again. If the prompt has changed, the cell
        reports how many later turns there are. If the run fails, the old turn stays.
        """
        try:
            return run_sync(self._asking(line, cell))
        except KeyboardInterrupt as interrupt:
            raise readable(interrupt) from None

    @no_var_expand
    @cell_magic("agent_async")
    def agent_async(self, line: str, cell: str) -> Any:
        """Return the run of `%%agent`, which an async cell awaits. Only the extension uses this magic; users type
        `%%agent`.
        """
        return run_in_cell(self._asking(line, cell))

    @no_var_expand
    @line_magic("agent_async")
    def line_async(self, line: str) -> Any:
        """Return the run of `%agent fix` or `%agent mcp prompt`, which an async cell awaits. Only the extension uses
        this.
        """
        match line.split():
            case ["mcp", "prompt", *words]:
                try:
                    asking = self.asking(prompt_text(self._find("agent"), words))
                except NbagentError as error:
                    raise readable(error) from None
            case _:
                asking = self.fixing()
        return run_in_cell(asking)

    @line_magic("agent")
    def agent_line(self, line: str) -> Any:
        """Show or change the agent in the variable `agent`. `%agent help` lists the commands."""
        name, *words = line.split() or ["status"]
        if name not in COMMANDS:
            hint = "; write a prompt below a %%agent line" if len(words) > 1 else options.suggestion(name, COMMANDS)
            raise UsageError(f"%agent {name}: not a command{hint}")
        if words and not COMMANDS[name].usage:  # `%agent new analyst` must not change another agent
            raise UsageError(f"%agent {name} takes no arguments: it works on the agent in the variable agent")
        agent = self.shell.user_ns["agent"] = self._find("agent")
        try:
            return COMMANDS[name].run(self.shell, agent, words)
        except NbagentError as error:
            raise readable(error) from None

    def fixing(self) -> Coroutine[Any, Any, Any]:
        """Return the run of `%agent fix`, not yet started. Raises UsageError if no cell has failed.

        A click on the hint below a failed cell sends that cell's id, and adds no line to IPython's history.
        """
        clicked = not request_of(self.shell).get("content", {}).get("store_history", True)
        if (failure := last_error.failure(cell_id_of(self.shell) if clicked else None)) is None:
            raise UsageError("%agent fix: no cell has failed yet")
        agent = self.shell.user_ns["agent"] = self._find("agent")
        # a model that has its tools described in the prompt would call one instead of explaining
        line = "--raw" if agent.provider.supports_function_calling() else "--raw --no-tools"
        return self._asking(line, f"{failure.text}\n\n{_FIX}", failure)

    def asking(self, question: str) -> Coroutine[Any, Any, Any]:
        """Return a run, not yet started, for a prompt that does not come from a cell."""
        self.shell.user_ns["agent"] = self._find("agent")
        return self._asking("--raw", question)

    def _asking(self, line: str, cell: str, failure: Failure | None = None) -> Coroutine[Any, Any, Any]:
        """The cell's run, not started yet. Raises for wrong options."""
        given = options.parse(AgentMagics.agent, line, self.shell.user_ns)
        given.failure = failure
        check_map_options(given, AgentMagics.agent.parser)
        given.is_data = FORMS[given.form].is_data or given.shape is not None
        if not cell.strip():
            raise UsageError("the cell has no prompt: write one below the %%agent line")
        if given.map is not None:
            return map_cell(self.shell, given, cell.strip(), self._find(given.name))
        given.until_the_end = ExitStack()
        try:
            return self._answer(*self._prepare(given, cell))
        except BaseException:
            given.until_the_end.close()
            raise

    def _prepare(self, given: Any, cell: str) -> tuple[Any, Agent, AgentStream]:
        """The options, the agent, and the cell's run, not started yet.

        Any error in the cell is raised before a request is sent or anything changes.
        """
        asked = cell.strip() if given.raw else interpolate(cell.strip(), self.shell.user_ns)
        agent = self._find(given.name)
        if given.write:
            given.until_the_end.enter_context(writing(agent))
        given.replaced = None if given.keep else _question_of(cell_id_of(self.shell), agent)
        draft = agent.fork()
        try:
            draft.provider = given.model or agent.provider
            self._change(given, draft)
            skills = activated(agent, cell, given.replaced)
            message = as_question(asked, skills, cell_id_of(self.shell))
            stream = self._stream(given, draft, message)
            preview = stream.preview()  # raises for options, tools and limits that the request can't have
        except NbagentError as error:
            raise readable(error) from None
        if given.dry_run:
            display(dry_run_bundle(preview, added_by_toolsets(draft, preview)), raw=True)
            return given, draft, stream
        self.shell.user_ns[given.name] = agent
        try:
            self._change(given, agent)
        except NbagentError as error:  # the agent is busy in a panel
            raise readable(error) from None
        if given.model:
            given.previous = agent.provider_or_spec
            agent.provider = draft.provider
        show_figures_of(agent)
        return given, agent, self._stream(given, agent, message)

    @staticmethod
    def _change(given: Any, agent: Agent) -> None:
        """Set the system prompt, or start a new conversation."""
        if given.system is not None:
            agent.system_prompt = given.system
        if given.new:
            agent.context.new_conversation()

    def _find(self, name: str) -> Agent:
        """The agent in the user's variable `name`, or a new agent with the live tools."""
        found = self.shell.user_ns.get(name)
        if found is None:
            found = Agent(tools=live)
        if not isinstance(found, Agent):
            kind = type(found).__name__
            raise UsageError(f"{name}: expected an Agent, got {kind}; del {name}, or use another name")
        return found

    def _stream(self, given: Any, agent: Agent, message: LLMMessage) -> AgentStream:
        return agent.chat_stream(
            message,
            replaces=given.replaced,
            use_tools=not given.no_tools,
            tools=given.tools,
            approve_all=given.approve,
            instructions=FORMS[given.form].instructions,
            output=None if given.shape is None else options.value_of(self.shell, "--shape", given.shape),
            max_iterations=given.max_iterations,
            origin={"source": "magic", "agent": given.name},
            **options.of_requests(given),
        )

    async def _answer(self, given: Any, agent: Agent, stream: AgentStream) -> Any:
        """Run, show the events, and return the answer if it is data."""
        with given.until_the_end:
            return None if given.dry_run else await self._answer_shown(given, agent, stream)

    async def _answer_shown(self, given: Any, agent: Agent, stream: AgentStream) -> Any:
        view = self._view(given, agent, stream)
        feed_unread = partial(_feed_unread, view)
        agent.observers.append(feed_unread)
        self.shell.user_ns["_agent"] = None
        try:
            async with stream:
                async for event in stream:
                    if isinstance(event, events.Done) and (count := _outdated(given.replaced, agent)):
                        later = "1 later turn follows" if count == 1 else f"{count} later turns follow"
                        view.transcript.note = f"{later} the old question: run their cells again"
                    view.feed(event)
            result = self.shell.user_ns["_agent"] = stream.result()
            value = convert_answer(given.form, result) if given.shape is None else shaped_answer(given.shape, result)
            if given.is_data:
                view.transcript.fold_answer()
            if given.failure is not None:
                _show_correction(view, given.failure, result.content)
        except Exception as error:
            self.shell.user_ns["_agent"] = getattr(error, "partial", None)
            if given.model and not isinstance(error, ExtractionError):  # the model did not answer
                agent.provider = given.previous
            readable(error)
            raise
        except BaseException:
            view.transcript.mark_interrupted()
            raise
        finally:
            agent.observers.remove(feed_unread)
            view.close()
        if isinstance(view, CellView) and view.live:
            background_loop().call_soon_threadsafe(_offer_buttons, agent, result.run_id)
        if given.output:
            self.shell.user_ns[given.output] = value
        if given.form == "code":
            self._code_below.put(value, again=given.keep)
        return value if given.is_data else None

    def _view(self, given: Any, agent: Agent, stream: AgentStream) -> CellView | TerminalView:
        as_html = render.verbatim_html if given.form == "text" else render.markdown_to_html
        transcript = Transcript(timings=is_watched(self.shell), outputs=False, as_html=as_html)
        if not self._key_note_shown and (note := agent.default_note):
            self._key_note_shown, transcript.note = True, note
        if getattr(self.shell, "kernel", None) is None:
            return TerminalView(transcript)
        handles: list[Any] = []

        def show(index: int, bundle: dict[str, str]) -> None:
            if index < len(handles):
                handles[index].update(bundle, raw=True)
            else:
                handles.append(display(bundle, raw=True, display_id=True))

        view = CellView(transcript, show, live=is_watched(self.shell))
        if stream.waits:
            view.wait_for("an earlier prompt to this agent")
        if current.get().run is None:
            set_current(approver=NotebookApprover(partial(is_watched, self.shell), view.waiting_for_approval))
        return view


def _show_correction(view: CellView | TerminalView, failure: Failure, answer: str) -> None:
    """Show the corrected cell in an answer as a diff. In a terminal, the diff follows the code, which is printed."""
    block, code = last_block(answer) or ("", "")
    if code and failure.code.strip() not in ("", code):
        diff = code_diff(failure.code, code, failure.cell_id)
        if isinstance(view, TerminalView):
            view.feed(events.Text(content=f"\n\n{diff['text/plain']}"))
        else:
            view.transcript.show_instead(block, diff["text/html"], diff["text/plain"])


def _question_of(cell_id: str | None, agent: Agent) -> LLMMessage | None:
    """A cell's last prompt in the agent's conversation."""
    asked = (each for each in reversed(agent.conversation_history) if each.cell_id == cell_id and each.opens_turn)
    return next(asked, None) if cell_id else None


def _outdated(replaced: LLMMessage | None, agent: Agent) -> int:
    """How many turns follow a turn whose prompt has changed; 0 if it is the same."""
    question = None if replaced is None else _question_of(replaced.cell_id, agent)
    if replaced is None or question is None or question.content == replaced.content:
        return 0
    following = takewhile(lambda each: each is not question, reversed(agent.conversation_history))
    return sum(each.opens_turn for each in following)


def _feed_unread(view: CellView | TerminalView, event: events.Event) -> None:
    """Show events that are not in the cell's stream: subagents' runs, printed output, and interrupted calls."""
    if isinstance(event, events.ChildEvent | events.ToolPrinted):
        view.feed(event)
    elif isinstance(event, events.ToolResult) and event.outcome is not None and event.outcome.interrupted:
        view.transcript.feed(event)


def _offer_buttons(agent: Agent, run_id: str) -> None:
    """Add buttons to the answer. Loading widgets does not delay it, because it is already shown."""
    from nbagent.notebook.display.answer_buttons import answer_buttons

    answer_buttons().offer(agent, run_id)

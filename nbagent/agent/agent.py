"""`Agent`: a provider, functions, a history and a trace, wired together: the one entry point.

This file only wires and delegates: the loop is in `core/loop.py`, its events are in `core/events.py`. It is long
because the class has every public method with its documentation; each is a few lines.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cached_property, partial
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, Never, Self, TypedDict, TypeVar, Unpack, overload

from nbagent.agent.plan import Plans, plans_of_agent
from nbagent.agent.run_setup import limits_of_agent, limits_of_run, options_of_requests, provider_and_tools
from nbagent.agent.summary import keyless_note
from nbagent.agent.worker_factory import worker_factory
from nbagent.checks import check_type
from nbagent.config import AgentConfig
from nbagent.core.background import background_loop, blocking, run_sync
from nbagent.core.budget import Budget
from nbagent.core.cells import watch_cells
from nbagent.core.checking import UserCheck, as_answer_check, checked_functions
from nbagent.core.current import changed, labels_here
from nbagent.core.events import Event
from nbagent.core.history import saved, summary
from nbagent.core.history.history import ContextManager
from nbagent.core.inputs import MessageInput
from nbagent.core.labels import Labels
from nbagent.core.limits import Limits
from nbagent.core.messages import FunctionCall, LLMMessage
from nbagent.core.output import Output, output_of
from nbagent.core.queue import QueueEntry, RunQueue
from nbagent.core.render.control_chars import readable_record
from nbagent.core.request_options import RequestOptions, RunOptions
from nbagent.core.results import AgentResult
from nbagent.core.run import Run
from nbagent.core.stream import AgentStream, StreamingHandler
from nbagent.core.threads import run_in_thread
from nbagent.core.tool_run import run_tool
from nbagent.errors import ConfigurationError, NbagentError
from nbagent.functions.agent_tool import agent_tool
from nbagent.functions.asking import agrees
from nbagent.functions.executor import ToolExecutor
from nbagent.functions.live import ToolsInput, as_registry
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry, ToolOptions
from nbagent.functions.toolset import Toolset, Toolsets
from nbagent.other_names import OTHER_ATTRIBUTES, unknown_argument
from nbagent.pricing import price_at
from nbagent.providers import ProviderInput, preload, resolve
from nbagent.providers.replay.active import current_recording
from nbagent.providers.routing.routes import Route, provider_for
from nbagent.trace.trace import Trace

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from nbagent.agent.extract import Records
    from nbagent.batch.map import Map, Unfinished
    from nbagent.batch.options import MapOptions
    from nbagent.batch.preview import MapPreview
    from nbagent.providers.base import LLMProvider

T = TypeVar("T")
Approve = Callable[[FunctionCall, FunctionDefinition], Any]
#: The arguments `use_tools`, `tools` and `approve_all` of `Agent.chat_stream`.
Offer = tuple[bool, Iterable[str] | None, bool]


class AgentOptions(TypedDict, total=False):
    """`Agent`'s keywords besides the provider, for `Agent.load`."""

    function_registry: FunctionRegistry | None
    system_prompt: str | None
    tools: ToolsInput | None
    context: ContextManager | None
    limits: Limits | None
    budget: Budget | None
    trace: Trace | Literal[False] | None
    approve: Approve | None
    tool_tracebacks: bool
    validators: Sequence[UserCheck]
    guards: Sequence[UserCheck]
    plan: bool | Literal["first"]
    approve_plan: bool


log = logging.getLogger("nbagent")
log.addHandler(logging.NullHandler())
log.addFilter(readable_record)


def offer_accessor() -> None:
    """Add `df.agent` to pandas where that is loaded; nothing loads it for this."""
    if "pandas" in sys.modules:
        import nbagent.batch.accessor  # noqa: F401  imported for its effect


class Agent:
    """A conversation with a model that can call your functions.

    Args:
        provider: an `LLMProvider`, such as `Candidates`; a name such as `"claude:claude-sonnet-5"` or `"local"`; an
            `AgentConfig`; or a list of these: if one is down or refuses, the next one takes over. None means
            NBAGENT_MODEL, then the first provider with a key, then a server on this machine whose model can call tools
            (Ollama, LM Studio, llama.cpp), then the embedded model. It is made and connected at the first message; its
            imports begin now.
        function_registry: the functions that the model may call; or pass `tools`: functions, or `nbagent.live`.
        system_prompt: instructions for the whole conversation.
        context: a `ContextManager` that trims long conversations.
        limits: a `Limits`; a run that reaches one ends and keeps its results so far.
        budget: a `Budget` shared by all runs of this agent, its forks and everything else that has it.
        trace: the `Trace` to record into; a new one by default. False records nothing.
        approve: called with `(call, definition)` for tools marked `approve=True`; returns True, False, a dict of edited
            arguments, or an `Allow`, which also holds for later calls. Without an approver such calls are denied.
        validators: check each answer: functions of its text (with `output`, of the value), or of both it and a
            `RunContext`; sync or async. If one returns False, or raises a ValueError or an AssertionError, the answer
            goes back to the model with the reason. After two corrections an `AnswerRejectedError` is raised.
        guards: the same for prompts: a refused prompt is not sent, and the result's status is "blocked".
        plan: the model gets a tool that writes and updates a list of steps: see `agent.plan`. With "first", other tools
            wait for a plan; with `approve_plan`, a plan with new steps also waits for approval.
        tool_tracebacks: if a tool raises, the model reads the exception's type and text; with True, it also reads the
            lines of your code that led to it, with file names. The trace always has the whole traceback.

    >>> agent = Agent("openai:gpt-5.6-luna", tools=[get_weather])           # doctest: +SKIP
    >>> result = await agent.chat("How warm is it in Berlin?")              # doctest: +SKIP
    >>> agent.trace.tool_calls                                              # doctest: +SKIP
    """

    def __init__(
        self,
        provider: ProviderInput = None,
        function_registry: FunctionRegistry | None = None,
        system_prompt: str | None = None,
        *,
        tools: ToolsInput | None = None,
        context: ContextManager | None = None,
        limits: Limits | None = None,
        budget: Budget | None = None,
        trace: Trace | Literal[False] | None = None,
        approve: Approve | None = None,
        tool_tracebacks: bool = False,
        validators: Sequence[UserCheck] = (),
        guards: Sequence[UserCheck] = (),
        plan: bool | Literal["first"] = False,
        approve_plan: bool = False,
        **unknown: Never,
    ) -> None:
        if unknown:
            raise unknown_argument(next(iter(unknown)), signature(Agent).parameters, signature(Limits).parameters)
        if function_registry is not None and tools is not None:
            raise ConfigurationError("Pass function_registry or tools, not both: register the tools in the registry.")
        fix = "Pass functions as tools=[...]."
        check_type("function_registry", function_registry, FunctionRegistry, optional=True, fix=fix)
        check_type("context", context, ContextManager, optional=True, fix="Pass ContextManager(...).")
        check_type("limits", limits, Limits, optional=True, fix="Pass Limits(...).")
        check_type("budget", budget, Budget, optional=True, fix="Pass Budget(max_cost=...).")
        trace = Trace(is_recording=False) if trace is False else trace
        check_type("trace", trace, Trace, optional=True, fix="Pass Trace(...), or False to record nothing.")
        check_type("tool_tracebacks", tool_tracebacks, bool)
        config = provider if isinstance(provider, AgentConfig) else None
        self._spec: Any = provider
        self._provider: LLMProvider | None = None
        self._looking: Future[LLMProvider] | None = None
        #: Toolsets added with `use`, and the plan tools.
        self.toolsets = Toolsets()
        own = as_registry(tools) if function_registry is None else function_registry
        self.function_registry = self.toolsets.add(plans_of_agent(plan, approve_plan), own)
        self.tool_executor = ToolExecutor(self.function_registry, approver=approve, tracebacks=tool_tracebacks)
        self.context = context or ContextManager()
        self.limits, self.budget = limits_of_agent(limits, config), budget
        self.temperature = config.temperature if config else None
        self.trace = trace or Trace()
        #: Called with each event of each run, on the run's thread, before the event is yielded. They must not raise.
        self.observers: list[Callable[[Event], None]] = []
        #: Routes added with `route`, in the order in which they are tried.
        self.routes: list[Route] = []
        self._last_map: Map | None = None
        #: Called with each state of the progress bar of a map in a notebook, as HTML, and with "" at its end.
        self.bar_watchers: list[Callable[[str], None]] = []
        #: Names of tools that are offered only if a call of `chat` names them.
        self.tools_off: set[str] = set()
        self.validators, self.guards = checked_functions("validators", validators), checked_functions("guards", guards)
        #: The default `RunContext.deps` for prompts without their own, such as prompts in cells and panels.
        self.deps: Any = None
        #: The labels of open `tagged` blocks, for prompts from elsewhere, such as a panel.
        self.open_labels: list[Labels] = []
        self._queue = RunQueue()
        watch_cells()
        offer_accessor()
        if provider is None or isinstance(provider, (str, AgentConfig)):
            preload(provider)
        prompt = system_prompt or (config.system_prompt if config else None)
        if prompt:
            self.context.set_system_message(prompt)

    if not TYPE_CHECKING:  # type checkers also report them

        def __getattr__(self, name):
            if name in OTHER_ATTRIBUTES:
                raise AttributeError(f"An Agent has no {name!r}: use {OTHER_ATTRIBUTES[name]}.", name=name, obj=self)
            return object.__getattribute__(self, name)  # raises what a missing attribute raises

    @property
    def provider(self) -> LLMProvider:
        """The provider, made at first use. Assign a provider or a name to switch; the conversation stays."""
        if self._provider is None:
            self._provider = resolve(self._spec)
            if self._spec is None and (note := keyless_note(self._provider)):
                log.info("using %s: %s", self._provider.model_name, note)
        return self._provider

    @provider.setter
    def provider(self, spec: ProviderInput) -> None:
        made = None if spec is None else resolve(spec)
        if made is not None:
            tape = current_recording()
            if tape is None or not tape.replay_only:
                made.check()  # a wrong name or a missing key raises here, before anything changes
        self._spec, self._provider = spec, made

    @property
    def provider_or_spec(self) -> ProviderInput:
        """The provider, or before its first use its description. Assign it to `provider` to restore it."""
        return self._provider or self._spec

    @property
    def default_note(self) -> str:
        """A note, shown once, about a model that was chosen because none was named and no key was found; else ""."""
        tape = current_recording()
        another = tape is not None and tape.replay_only and "local" not in tape.providers
        return "" if self._spec is not None or another else keyless_note(self.provider)

    @property
    def system_prompt(self) -> str | None:
        """The system message's text, or None."""
        return self.context.system_message

    @system_prompt.setter
    def system_prompt(self, text: str | None) -> None:
        self.context.set_system_message(text)

    @property
    def conversation_history(self) -> list[LLMMessage]:
        """The live list of messages, system message first."""
        return self.context.messages

    async def chat(
        self,
        message: MessageInput,
        max_iterations: int | None = None,
        handler: StreamingHandler | None = None,
        **options: Unpack[RunOptions],
    ) -> AgentResult:
        """Ask, let the model use the tools, and return the answer.

        `message` is a text; a figure, an image, a PDF or a text file (its bytes or `pathlib.Path`); a list of these and
        content parts; or a list of messages, which replaces the history except for the system message. With `output`,
        such as a pydantic model, the result's `data` is the answer as such a value. `chat_stream` lists the `options`.
        Raises a `ProviderError` if the provider fails; `error.partial` is the unfinished result.

        >>> result = await agent.chat("Which city is the oldest?", output=City)     # doctest: +SKIP
        >>> result.data.name, result.cost                                           # doctest: +SKIP
        """
        return await self.chat_stream(message, max_iterations=max_iterations, **options).collect(handler)

    chat_sync = blocking(chat)

    def chat_stream(
        self,
        message: MessageInput,
        use_tools: bool = True,
        *,
        max_iterations: int | None = None,
        tools: str | Iterable[str] | None = None,
        approve_all: bool = False,
        instructions: str = "",
        limits: Limits | None = None,
        output: Any = None,
        deps: Any = None,
        replaces: LLMMessage | None = None,
        branch_at: LLMMessage | None = None,
        origin: Mapping[str, Any] | None = None,
        raise_errors: bool = True,
        tags: Iterable[str] | None = None,
        user: str | None = None,
        session: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        **options: Unpack[RequestOptions],
    ) -> AgentStream:
        """The same run as a stream of events, for `async for` and plain `for`; `.preview()` shows the request unsent.

        `tools` names the tools to offer; with `approve_all`, their calls wait for approval. `instructions` follow the
        system prompt in this run only. `limits` override the agent's. `trace.runs` keeps `origin`: source, agent,
        cell_id, execution_count. For `tags`, `user`, `session` and `metadata` see `tagged`, for `options` see
        `RequestOptions`. For `deps` see `RunContext`; the default is `agent.deps`, then the `deps` of the run whose
        tool starts this one.

        `output` is the type of the result's `data`: a pydantic model, `list[Model]` or another that pydantic supports.
        The model may use tools, then answers in JSON. After two corrections an `ExtractionError` is raised. The history
        keeps answers and corrections in the prompt's turn, but not the JSON Schema.

        `replaces` is a prompt of `conversation_history`: if still there, its turn is replaced, and later turns stay.
        `branch_at` is also one: a branch begins before it; `context.switch` goes back. If the run fails, the old turn
        or branch stays. The last event is an `error`, and the iteration raises its `exception`, with the unfinished
        result as `partial`, unless `raise_errors=False`.

        >>> for event in agent.chat_stream("How warm is it in Berlin?"):            # doctest: +SKIP
        ...     print(event.type, event.content)
        """
        check_type("raise_errors", raise_errors, bool)
        for name, question in (("replaces", replaces), ("branch_at", branch_at)):
            check_type(name, question, LLMMessage, optional=True, fix="Pass a message of agent.conversation_history.")
        toolsets = self.toolsets if use_tools else Toolsets()
        new_run = partial(
            self._new_run,
            message=message,
            offer=(use_tools, tools, approve_all),
            toolsets=toolsets,
            instructions=instructions,
            limits=limits_of_run(limits, max_iterations, self.limits),
            output=None if output is None else output_of(output),
            options=options_of_requests(options, self.temperature),
            labels=labels_here(tags, user, session, metadata),
            deps=deps,
            origin=origin or {},
            replaces=replaces,
            branch_at=branch_at,
        )
        is_ready = self._provider or self._spec is not None
        prepare = None if is_ready and not toolsets else partial(self._prepare, toolsets, message)
        return AgentStream(new_run, message, self._queue, raise_errors, prepare)

    async def _prepare(self, toolsets: Toolsets, message: MessageInput) -> None:
        """The slow steps before a run."""
        if self._provider is None and self._spec is None and provider_for(self.routes, message) is None:
            await self._look_for_provider()
        await toolsets.prepare()

    async def _look_for_provider(self) -> None:
        """Make the provider outside the event loop, because it may query servers on this machine. Concurrent prompts
        share it.
        """
        if self._looking is None or self._looking.done():
            look = run_in_thread(lambda: self.provider)
            self._looking = asyncio.run_coroutine_threadsafe(look, background_loop())
        await asyncio.shield(asyncio.wrap_future(self._looking))

    def _new_run(
        self,
        entry: QueueEntry,
        is_preview: bool,
        *,
        offer: Offer,
        toolsets: Toolsets,
        instructions: str,
        limits: Limits,
        output: Output | None,
        message: MessageInput,
        **of_question: Any,
    ) -> Run:
        """A run for a prompt, with the agent's current settings."""
        executor = self._executor(*offer, limits.tool_seconds)
        model = provider_for(self.routes, message) or self.provider
        provider, tools = provider_and_tools(model, executor, output, limits, self.budget)
        return Run(
            entry=entry,
            provider=provider,
            tools=tools,
            history=self.context.copy() if is_preview else self.context,
            limits=limits,
            output=output,
            instructions="\n\n".join(filter(None, (toolsets.instructions(executor.registry), instructions))),
            reminder=partial(toolsets.reminder, executor.registry) if toolsets else None,
            price=price_at,
            summarise=self._summarise,
            record_http=self.trace.record_http,
            checks=[as_answer_check(function) for function in self.validators],
            guards=list(self.guards),
            **self._of_any_run(),
            **of_question,
        )

    def run_call(self, call: FunctionCall, tools: ToolExecutor, origin: Mapping[str, Any]) -> AsyncGenerator[Event]:
        """The events of a run that is one call, which no model made: see `core.tool_run`."""
        return run_tool(call, tools, limits=self.limits, origin=origin, **self._of_any_run())

    def _of_any_run(self) -> dict[str, Any]:
        observers = (self.trace.record, *(partial(see, self.trace) for see in self.trace.observers), self._tell)
        return {"observers": observers, "budget": self.budget, "agent": self}

    @contextmanager
    def tagged(
        self,
        *tags: str,
        user: str | None = None,
        session: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Iterator[None]:
        """Label the runs of this block in `trace.runs`. Blocks nest: tags add up; other inner values override outer
        ones.

        It labels every run that the block starts, including other agents' runs, and runs that this agent's panels start
        during the block. `session` is a name from your application, such as the id of a visit. `session_id` in the
        trace identifies the process.
        Labels are never sent to the model.

        >>> with agent.tagged("exam", user="u1"):                           # doctest: +SKIP
        ...     await agent.chat("What is a monad?", tags=["hard"])
        >>> agent.trace.runs["tags"].iloc[-1]                               # doctest: +SKIP
        '["exam","hard"]'
        """
        labels = labels_here(tags, user, session, metadata)
        self.open_labels.append(labels)
        try:
            with changed(labels=labels):
                yield
        finally:
            self.open_labels.remove(labels)

    def _tell(self, event: Event) -> None:
        for observe in tuple(self.observers):
            observe(event)

    def _executor(
        self, use_tools: bool, names: Iterable[str] | None, approve_all: bool, timeout: float | None
    ) -> ToolExecutor:
        if not use_tools:
            names = ()
        elif isinstance(names, str):
            names = [names]
        elif names is None and self.tools_off:
            names = self.offered_tools()
        return self.tool_executor.with_options(only=names, approve_all=approve_all, timeout=timeout)

    def route(self, when: str | re.Pattern[str] | Callable[[str], Any], function: Callable[[Any], Any]) -> Self:
        """Let a function answer prompts of this conversation in place of a model. The first matching route wins.

        `when` is a regular expression to search for in the prompt, or a function of the prompt that returns True.
        `function`, sync or async, gets the `re.Match`, or else the prompt, and returns the answer. The run is shown and
        traced like any other, costs nothing, and needs no key. Forks inherit the routes; `map`, `extract` and summaries
        ignore them. `agent.routes` is the list.

        >>> agent.route(r"(?i)^what time is it", lambda match: f"It is {datetime.now():%H:%M}.")    # doctest: +SKIP
        """
        self.routes.append(Route(when, function))
        return self

    @property
    def plan(self) -> DataFrame:
        """The plan of the conversation, with the columns step, status ("pending", "doing", "done", "dropped") and note.

        It is a copy: assign it to change the plan, even while the agent works. The model sees the change in its next
        request. You can also assign a list of texts, or None to clear the plan. Needs `Agent(plan=True)`.

        >>> plan = agent.plan                                               # doctest: +SKIP
        >>> plan.loc[3, ["status", "note"]] = "dropped", "not needed"       # doctest: +SKIP
        >>> agent.plan = plan                                               # doctest: +SKIP
        """
        import pandas as pd

        plans = self._plans
        rows = [(each.step, each.status, each.note) for each in plans.of(self.context)] if plans else []
        frame = pd.DataFrame(rows, columns=["step", "status", "note"], dtype="str")
        frame.index += 1
        return frame

    @plan.setter
    def plan(self, plan: Any) -> None:
        if (plans := self._plans) is None:
            raise ConfigurationError("This agent makes no plans. Make it with Agent(..., plan=True).")
        plans.edit(self.context, plan)

    @property
    def _plans(self) -> Plans | None:
        return next((each for each in self.toolsets if isinstance(each, Plans)), None)

    def register_function(
        self, name: str, description: str, func: Callable[..., Any], parameters: dict[str, Any] | None = None
    ) -> None:
        """Offer a function to the model. Without `parameters`, the schema is read from the signature."""
        self.function_registry.register(name, description, func, parameters)

    def register_tool(
        self, name: str, description: str, parameters: dict[str, Any], function: Callable[..., Any]
    ) -> None:
        """Offer a function with the given schema; the parameters are the keys of a tool definition."""
        self.function_registry.register(name, description, function, parameters)

    def use(self, *toolsets: Toolset) -> Self:
        """Offer the tools of skills, MCP servers and other toolsets, in addition to the agent's own. Forks use them.

        >>> agent = Agent("local").use(SkillHost("skills"))                 # doctest: +SKIP
        """
        self.function_registry = self.toolsets.add(toolsets, self.function_registry)
        self.tool_executor = self.tool_executor.with_options()  # another one: forks have the same
        self.tool_executor.registry = self.function_registry
        return self

    def as_tool(
        self,
        name: str,
        description: str,
        *,
        limits: Limits | None = None,
        keep_conversation: bool = False,
        **options: Unpack[ToolOptions],
    ) -> FunctionDefinition:
        """This agent as a tool for other agents: their models send a prompt and read its answer.

        Each call is a new conversation, so several may run at once. With `keep_conversation` all calls, and all clients
        of a server, continue this agent's conversation, one after the other. `limits` override the agent's for each
        call; its spending also counts for the caller. It has no timeout unless `options` (see `tool`) set one. Its own
        `approve` decides on calls that need approval; without one, the caller's does.

        >>> researcher = Agent("claude", tools=[search])                    # doctest: +SKIP
        >>> tools = [researcher.as_tool("research", "Finds facts.", limits=Limits(max_cost=0.10))]  # doctest: +SKIP
        >>> await Agent("openai", tools=tools).chat("Which penguin is the heaviest, and why?")      # doctest: +SKIP
        """
        return agent_tool(self, name, description, limits, keep_conversation, options)

    def offered_tools(self) -> list[str]:
        """The names of the tools on offer: the registry's, without switched-off ones."""
        return [name for name in self.function_registry.names() if name not in self.tools_off]

    def tool_stats(self) -> DataFrame:
        """Each tool's calls, failures, invalid arguments, denials and seconds so far, from the trace.

        Tools that were never called have zeros.
        """
        from nbagent.trace.views.tool_stats import tool_stats

        return tool_stats(self.trace.tool_calls, self.function_registry.names())

    def stop(self) -> int:
        """Stop the current run and all queued runs; the text so far stays. Callable from any thread.

        Returns the number of runs. Awaiting one raises `asyncio.CancelledError`.
        """
        streams = [reference() for reference in self._queue.streams.valuerefs()]
        return sum(stream.stop() for stream in streams if stream is not None)

    def clear_history(self) -> None:
        """Forget the conversation, but not the system prompt. `context.new_conversation()` keeps it for later."""
        self.context.clear()

    def undo(self) -> list[LLMMessage]:
        """Remove the last turn (from the last user message on) and return it."""
        return self.context.undo()

    def fork(self) -> Agent:
        """Another agent that continues this conversation: same provider and tools, its own history and trace.

        `agent.trace.with_children()` has the runs of both.
        """
        mine = self.trace
        trace = Trace(
            mine.record_http, mine.recorder.keep_results, mine.recorder.max_bytes, is_recording=mine.is_recording
        )
        trace.observers += self.trace.observers
        mine.recorder.forks.add(trace.recorder)
        other = self._like_this(trace)
        # set last, since an AgentConfig brings its own system prompt
        other.context = self.context.copy()
        other.limits, other.budget, other.temperature = self.limits, self.budget, self.temperature
        other.deps, other.validators, other.guards = self.deps, list(self.validators), list(self.guards)
        other.toolsets = Toolsets(self.toolsets)
        other.tool_executor, other.tools_off = self.tool_executor, set(self.tools_off)
        other.routes += self.routes
        if (plans := self._plans) is not None:
            plans.copy(self.context, other.context)
        return other

    def __reduce__(self) -> Never:
        raise ConfigurationError(
            "An Agent can't be copied or pickled. Use agent.fork(), or agent.save(path) for a file."
        )

    def _like_this(self, trace: Trace) -> Agent:
        """A new agent of the same kind."""
        return Agent(self.provider_or_spec, self.function_registry, trace=trace)

    def side_agent(self, system_prompt: str, tools: bool = False) -> Agent:
        """An agent for a question outside the conversation: same provider, limits and trace; no history.

        It has tools only with `tools=True`.
        """
        other = self.fork()
        other.context = ContextManager()
        other.system_prompt, other.trace, other.validators, other.routes = system_prompt, self.trace, [], []
        if not tools:
            other.tool_executor = self.tool_executor.with_options(only=[])
            other.function_registry, other.toolsets = other.tool_executor.registry, Toolsets()
        return other

    async def agrees(self, asker: str, text: str) -> bool:
        """Whether the approver agrees to a question; False if there is none."""
        return await agrees(asker, text, self.tool_executor.approver)

    def row_agent(self, tools: bool) -> Agent:
        """An agent for rows of a batch: this one's system prompt and trace; its tools only on request."""
        return self.side_agent(self.system_prompt or "", tools)

    def row_settings(self, tools: bool) -> dict[str, Any]:
        """The settings that decide the answers of its `row_agent`, as JSON data."""
        offered = [each for each in self.function_registry.list_functions() if each["name"] in self.offered_tools()]
        return {"system": self.system_prompt, "temperature": self.temperature, "tools": offered if tools else []}

    def worker_factory(self) -> Callable[[], Agent]:
        """A recipe for an agent like this one in another process, for `cloudpickle`. It contains no key.

        Conversation, trace, budget, approver and deps stay here. Raises `ConfigurationError` for tools that can't be
        sent.
        """
        return worker_factory(self)

    # -- outside the conversation ----------------------------------------------------------------------------------

    @overload
    async def extract(
        self,
        message: MessageInput,
        shape: type[list[T]],
        *,
        max_iterations: int | None = None,
        **options: Unpack[RunOptions],
    ) -> Records[T]: ...
    @overload
    async def extract(
        self, message: MessageInput, shape: type[T], *, max_iterations: int | None = None, **options: Unpack[RunOptions]
    ) -> T: ...
    @overload  # a union, a Literal, an Annotated: type checkers can't express their values yet
    async def extract(
        self, message: MessageInput, shape: object, *, max_iterations: int | None = None, **options: Unpack[RunOptions]
    ) -> Any: ...
    async def extract(
        self, message: MessageInput, shape: object, *, max_iterations: int | None = None, **options: Unpack[RunOptions]
    ) -> Any:
        """Data from a message, as a `shape`: a pydantic model, `list[Model]`, or another type that pydantic supports.

        `message` is a text, an image or a list of both; `message` and `options` are as for `chat`. The conversation
        does not change, and the system prompt is another. The agent's tools are offered if `tools` or `use_tools` says
        so. It is one run, with the limits and the budget of one, corrections included: see `output` of `chat_stream`.
        Raises `ExtractionError` if the answer stays wrong or is not whole.

        A list has `.to_frame()`, `.run_id` and `.cost`. For these of a single value, and for the conversation and the
        system prompt to count, use `chat(message, output=shape)`.

        >>> people = await agent.extract(page, list[Person])                # doctest: +SKIP
        >>> people.to_frame()                                               # doctest: +SKIP
        """
        from nbagent.agent.extract import EXTRACT, extract

        if "output" in options:
            raise ConfigurationError("extract() takes no output: its second argument is the type.")
        has_tools = options.get("use_tools", options.get("tools") is not None)
        ask = partial(self.side_agent(EXTRACT, has_tools).chat, max_iterations=max_iterations, **options)
        return await extract(ask, message, shape)

    @overload
    async def map(
        self,
        data: Series[Any] | DataFrame,
        prompt: str | None = None,
        output: Any = None,
        *,
        preview: Literal[False] = False,
        **options: Unpack[MapOptions],
    ) -> DataFrame: ...
    @overload
    async def map(
        self,
        data: Series[Any] | DataFrame,
        prompt: str | None = None,
        output: Any = None,
        *,
        preview: Literal[True],
        **options: Unpack[MapOptions],
    ) -> MapPreview: ...
    async def map(
        self,
        data: Series[Any] | DataFrame,
        prompt: str | None = None,
        output: Any = None,
        *,
        concurrency: int = 16,
        limits: Limits | None = None,
        budget: Budget | float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        engine: Any = None,
        on_error: Literal["keep", "raise"] = "keep",
        tools: bool = False,
        explode: str | None = None,
        rpm: float | None = None,
        tpm: float | None = None,
        allow_partial: bool = False,
        preview: bool = False,
        progress: bool = True,
        tags: Iterable[str] | None = None,
        user: str | None = None,
        session: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        **options: Unpack[RequestOptions],
    ) -> DataFrame | MapPreview:
        """Send a prompt for each row of a Series or DataFrame, and get a DataFrame of answers with the same index.

        - `prompt`: a text with columns in braces; without one, the values are the prompts: texts, images (PIL images,
          figures, bytes, paths), paths to PDFs, lists of messages. A row without a value is skipped.
        - `output`: a pydantic model, whose fields become typed columns (`address.city`), or another type. `explode`
          names a list in it: each item becomes a row.
        - `concurrency`: rows that are sent at the same time; `rpm` and `tpm`: requests and tokens a minute, at most
        - `limits` apply to each row, `budget` (US dollars, or a `Budget`) for all. When it is spent, rows are left. If
          the estimate is higher than either, the map asks the person before it begins, in a notebook or a terminal.
          Without approval it raises `ConfigurationError` and sends nothing; `allow_partial=True` begins without asking.
        - `checkpoint`: a file that keeps the answers, so that the same call continues after any end. Without one, the
          agent keeps them in memory until all rows have their answer.
        - `engine`: None sends rows now; "batch" uses the provider's batch endpoint; a `distributed.Client` uses a
          cluster
        - `on_error`: "keep" puts a row's error into its row, "raise" ends the map
        - `tools`: whether the model may use the agent's tools
        - `preview`: show what would be sent and cost, and send nothing
        - `tags`, `user`, `session`, `metadata`: see `tagged`; `options`: see `RequestOptions`

        The answer comes first, then `status`, `error`, `input_tokens`, `output_tokens`, `cost`, `seconds`, `run_id`.
        For a Dask DataFrame it is a Dask DataFrame, in the same partitions, sent when it is awaited.

        Equal rows are sent once: the first has the tokens and the cost, the others have 0. Errors that every row would
        have, such as a wrong key, are raised. The conversation does not change. After any end, `last_map` has
        the answers so far.

        >>> await agent.map(reviews, "Is this review positive? {text}")             # doctest: +SKIP
        """
        from nbagent.batch.map import Map, gathered

        data, in_parts = await gathered(data, engine)
        given: dict[str, Any] = {"concurrency": concurrency, "limits": limits, "budget": budget, "engine": engine}
        given |= {"checkpoint": checkpoint, "on_error": on_error, "tools": tools, "explode": explode}
        given |= {"allow_partial": allow_partial}
        labels = {"tags": tags, "user": user, "session": session, "metadata": metadata}
        given["options"] = {**options, **{name: value for name, value in labels.items() if value is not None}}
        task = Map(self, data, prompt, output, rpm=rpm, tpm=tpm, progress=progress, **given)
        if preview:
            return task.preview()
        self._last_map = task
        answers = await task.run()
        answers = answers if in_parts is None else in_parts(task)
        task.forget()
        return answers

    map_sync = blocking(map)  # noqa: A003  `map` is the method above, not the builtin

    @property
    def last_map(self) -> DataFrame | None:
        """The frame of the latest `map` as far as it has come, also while it runs and after it was stopped.

        Rows that were not asked have the status "left". None before the first map.
        """
        return None if self._last_map is None else self._last_map.frame()

    @cached_property
    def unfinished(self) -> Unfinished:
        """The answers of interrupted maps without a checkpoint, from which the same call continues."""
        from nbagent.batch.map import Unfinished

        return Unfinished()

    async def parse_message(self, sender: str, timestamp: Any, content: str) -> list[dict[str, Any]]:
        """The records in an unstructured message, as a list of dicts. Describe a record in the `system_prompt`.

        The conversation does not change. Raises `ExtractionError` if the model returns no JSON array of objects.
        """
        from nbagent.agent.extract import RECORDS, parse_message

        prompt = "\n\n".join(filter(None, (self.system_prompt, RECORDS)))
        return await parse_message(self.side_agent(prompt).chat, sender, timestamp, content)

    async def _summarise(self, messages: Sequence[LLMMessage]) -> str:
        summariser = self.side_agent(summary.PROMPT)
        summariser.guards = []  # the provider has read all of it
        result = await summariser.chat(summary.transcript(messages), origin={"source": "summary"})
        if result.status not in ("ok", "truncated") or not result.content:  # a part of a summary is better than none
            raise NbagentError(f"the run ended with status {result.status!r} and {len(result.content)} characters")
        return result.content

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the conversation, without keys and tools, to a JSON file for `Agent.load`.

        Raises `ConfigurationError` if the file can't be written; then its old content is still there.
        """
        provider = self.provider
        saved.save(path, self.context.messages, f"{provider.provider_name}:{provider.model_name}")

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        provider: ProviderInput = None,
        **options: Unpack[AgentOptions],
    ) -> Self:
        """An agent that continues a saved conversation, with any provider; `options` as for `Agent`.

        The saved system prompt stays unless `options` has another.

        >>> agent = Agent.load("analysis.json", "claude:claude-sonnet-5", tools=[mean_by])      # doctest: +SKIP
        """
        messages = saved.load(path).messages
        agent = cls(provider, **options)
        given = agent.system_prompt
        # without their ids, because a trace may already have their rows
        agent.context.replace_history(message.replace(message_id=None) for message in messages)
        if given:
            agent.system_prompt = given
        return agent

    async def aclose(self) -> None:
        """Close toolsets, and the provider's connections on the running event loop. The next message opens new ones."""
        await self.toolsets.aclose()
        if self._provider is not None:
            await self._provider.aclose()

    def close(self) -> None:
        """Close the connections that blocking calls (`chat_sync`, a plain `for`) opened."""
        run_sync(self.aclose())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """The agent's display in a notebook."""
        from nbagent.agent.summary import agent_summary
        from nbagent.core.render.key_values import key_values_html, key_values_text

        lines = agent_summary(self, self.provider_or_spec)
        return {"text/html": key_values_html(lines), "text/plain": key_values_text(lines)}

    def __repr__(self) -> str:
        provider: Any = self.provider_or_spec
        if hasattr(provider, "model_name"):
            model = f"{provider.provider_name}:{provider.model_name}"
        else:
            model = getattr(provider, "model", provider) or "model chosen at the first message"
        counts = [(len(self.offered_tools()), "tool"), (len(self.context.messages), "message")]
        listed = ", ".join(f"{number} {thing}{'' if number == 1 else 's'}" for number, thing in counts)
        return f"<Agent {model}, {listed}>"

"""`Agent`: a provider, functions, a history and a trace, wired together.

The loop is in `core/loop.py`, and its events are in `core/events.py`.
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
from typing import TYPE_CHECKING, Any, Literal, Never, Self, TypeVar, Unpack, overload

from nbagent.agent import run_setup
from nbagent.agent.options import AgentOptions, Approve
from nbagent.agent.plan import Plans, plan_frame, plans_of_agent
from nbagent.agent.summary import agent_repr, agent_summary, keyless_note
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
from nbagent.core.render.key_values import key_values_html, key_values_text
from nbagent.core.request_options import LabelledOptions, RequestOptions, RunOptions
from nbagent.core.results import AgentResult
from nbagent.core.run import Run
from nbagent.core.stream import AgentStream, StreamingHandler
from nbagent.core.threads import run_in_thread
from nbagent.core.tool_run import run_tool
from nbagent.errors import ConfigurationError, NbagentError
from nbagent.functions.agent_tool import agent_tool
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
log = logging.getLogger("nbagent")
log.addHandler(logging.NullHandler())
log.addFilter(readable_record)


def offer_accessor() -> None:
    """Add `df.agent` to pandas if pandas is already loaded."""
    if "pandas" in sys.modules:
        import nbagent.batch.accessor  # noqa: F401  imported for its effect


class Agent:
    """A conversation with a model that can call your functions.

    Args:
        provider: an `LLMProvider`, such as `Candidates`; a name, such as `"claude:claude-sonnet-5"` or `"local"`; an
            `AgentConfig`; or a list of these: if one is down or refuses a request, the next one takes over. None means
            the first available of these: the model in NBAGENT_MODEL, a provider with a key, a local server whose model
            can call tools (Ollama, LM Studio, llama.cpp), or the embedded model. The provider is created at first use.
        function_registry: the functions that the model may call, as an alternative to `tools`.
        system_prompt: instructions for the whole conversation.
        tools: the functions that the model may call: a list, or `nbagent.live`.
        context: a `ContextManager` that trims long conversations.
        limits: a `Limits`. A run that reaches a limit ends and keeps its results so far.
        budget: a `Budget` shared by all runs of this agent, of its forks, and of anything else that you pass it to.
        trace: the `Trace` to record into; by default a new trace. False records nothing.
        approve: called with `(call, definition)` for tools marked `approve=True`. It returns True, False, a dict of
            edited arguments, or an `Allow`, which also covers later calls. Without an approver, such calls are denied.
        tool_tracebacks: whether the model also sees which lines of your code led to a tool's exception, with file
            names. The model always sees the exception's type and text. The trace always has the whole traceback.
        validators: sync or async functions that check each answer. Each receives the answer's text (or, with `output`,
            its value), and a `RunContext` if it accepts a second argument. If one returns False, or raises a ValueError
            or an AssertionError, the answer goes back to the model with the reason. After two failed corrections, an
            `AnswerRejectedError` is raised.
        guards: functions that check each prompt in the same way. A refused prompt is not sent, and the result's status
            is "blocked".
        plan: whether the model has a tool to write and update a list of steps (see `agent.plan`). With "first", calls
            to other tools are refused unless a step of the plan is open.
        approve_plan: whether a plan with new steps waits for approval. True implies `plan="first"`.

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
            raise ConfigurationError("Pass function_registry or tools, not both. Add the tools to function_registry.")
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
        self._provider_search: Future[LLMProvider] | None = None
        #: Toolsets added with `use`, and the plan tools.
        self.toolsets = Toolsets()
        registry = as_registry(tools) if function_registry is None else function_registry
        self.function_registry = self.toolsets.add(plans_of_agent(plan, approve_plan), registry)
        self.tool_executor = ToolExecutor(self.function_registry, approver=approve, tracebacks=tool_tracebacks)
        self.context = context or ContextManager()
        self.limits, self.budget = run_setup.limits_of_agent(limits, config), budget
        self.temperature = config.temperature if config else None
        self.trace = trace or Trace()
        #: Called with each event of each run, on the run's thread, before the event is yielded. They must not raise.
        self.observers: list[Callable[[Event], None]] = []
        #: Routes added with `route`, in the order in which they are tried.
        self.routes: list[Route] = []
        self._last_map: Map | None = None
        #: Called with each update of a map's progress bar in a notebook, as HTML, and with "" at the end.
        self.bar_watchers: list[Callable[[str], None]] = []
        #: Names of tools that are offered only if a call of `chat` names them.
        self.tools_off: set[str] = set()
        self.validators, self.guards = checked_functions("validators", validators), checked_functions("guards", guards)
        #: The default `RunContext.deps`, for example for prompts in cells and panels.
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

    if not TYPE_CHECKING:  # otherwise type checkers would accept any attribute

        def __getattr__(self, name):
            if name in OTHER_ATTRIBUTES:
                raise AttributeError(f"An Agent has no {name!r}. Use {OTHER_ATTRIBUTES[name]}.", name=name, obj=self)
            return object.__getattribute__(self, name)  # raises the usual AttributeError

    @property
    def provider(self) -> LLMProvider:
        """The provider, created at first use. To change it, assign a provider or a name; the conversation is kept."""
        if self._provider is None:
            self._provider = resolve(self._spec)
            if self._spec is None and (note := keyless_note(self._provider)):
                log.info("using %s: %s", self._provider.model_name, note)
        return self._provider

    @provider.setter
    def provider(self, spec: ProviderInput) -> None:
        provider = None if spec is None else resolve(spec)
        if provider is not None:
            tape = current_recording()
            if tape is None or not tape.replay_only:
                provider.check()  # raises for a wrong name or a missing key, before anything changes
        self._spec, self._provider = spec, provider

    @property
    def provider_or_spec(self) -> ProviderInput:
        """The provider or, before its first use, its description. Assign this value to `provider` to restore it."""
        return self._provider or self._spec

    @property
    def default_note(self) -> str:
        """If no model was named and no key was found, a note about the model used instead, shown once. Else ""."""
        tape = current_recording()
        is_replayed = tape is not None and tape.replay_only and "local" not in tape.providers
        return "" if self._spec is not None or is_replayed else keyless_note(self.provider)

    @property
    def system_prompt(self) -> str | None:
        """The system message's text, or None."""
        return self.context.system_message

    @system_prompt.setter
    def system_prompt(self, text: str | None) -> None:
        self.context.set_system_message(text)

    @property
    def conversation_history(self) -> list[LLMMessage]:
        """The live list of messages. The system message is the first one."""
        return self.context.messages

    async def chat(
        self,
        message: MessageInput,
        max_iterations: int | None = None,
        handler: StreamingHandler | None = None,
        **options: Unpack[RunOptions],
    ) -> AgentResult:
        """Send a prompt, let the model call tools, and return the result.

        - `message`: text; a figure, an image, a PDF or a text file (its bytes or `pathlib.Path`); a list of these and
          of content parts; or a list of messages, which replaces the history except for the system message
        - `max_iterations`: overrides the limit on model requests
        - `handler`: a `StreamingHandler` for the events
        - `options`: see `chat_stream`. With `output`, such as a pydantic model, the result's `data` is of that type.

        Raises a `ProviderError` if the provider fails. The error's `partial` is the unfinished result.

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
        """Send a prompt as `chat` does, and stream the events, for `async for` and plain `for`.

        The stream's `.preview()` shows the request without sending it.

        - `use_tools`: whether to offer tools; `tools`: the names of the tools to offer
        - `approve_all`: whether all tool calls wait for approval
        - `instructions`: text after the system prompt, for this run only
        - `limits`: the run's limits, which override the agent's
        - `output`: the type of the result's `data`: a pydantic model, `list[Model]` or another type that pydantic
          supports. The model may call tools before it answers in JSON. After two failed corrections, an
          `ExtractionError` is raised. The history keeps the answers and corrections, but not the JSON Schema.
        - `deps`: see `RunContext`. The default is `agent.deps` or, if that is None, the `deps` of the run whose tool
          starts this run.
        - `replaces`: a prompt in `conversation_history` whose turn is replaced; later turns are kept
        - `branch_at`: a prompt before which a new branch starts; `context.switch` returns to the old branch
        - `origin`: values for the columns source, agent, cell_id and execution_count of `trace.runs`
        - `raise_errors`: whether the iteration raises the `exception` of a final `error` event, with the unfinished
          result as `partial`
        - `tags`, `user`, `session`, `metadata`: see `tagged`; `options`: see `RequestOptions`

        If the run fails, the old turn or branch is restored.

        >>> for event in agent.chat_stream("How warm is it in Berlin?"):            # doctest: +SKIP
        ...     print(event.type, event.content)
        """
        check_type("raise_errors", raise_errors, bool)
        for name, prompt in (("replaces", replaces), ("branch_at", branch_at)):
            check_type(name, prompt, LLMMessage, optional=True, fix="Pass a message of agent.conversation_history.")
        toolsets = self.toolsets if use_tools else Toolsets()
        new_run = partial(
            self._new_run,
            message=message,
            offer=(use_tools, tools, approve_all),
            toolsets=toolsets,
            instructions=instructions,
            limits=run_setup.limits_of_run(limits, max_iterations, self.limits),
            output=None if output is None else output_of(output),
            options=run_setup.options_of_requests(options, self.temperature),
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
        """Do the slow steps before a run."""
        if self._provider is None and self._spec is None and provider_for(self.routes, message) is None:
            await self._find_provider()
        await toolsets.prepare()

    async def _find_provider(self) -> None:
        """Create the provider in a thread, because this may query local servers. Concurrent prompts share it."""
        if self._provider_search is None or self._provider_search.done():
            search = run_in_thread(lambda: self.provider)
            self._provider_search = asyncio.run_coroutine_threadsafe(search, background_loop())
        await asyncio.shield(asyncio.wrap_future(self._provider_search))

    def _new_run(
        self,
        entry: QueueEntry,
        is_preview: bool,
        *,
        offer: run_setup.Offer,
        toolsets: Toolsets,
        instructions: str,
        limits: Limits,
        output: Output | None,
        message: MessageInput,
        **of_prompt: Any,
    ) -> Run:
        """Return a run for a prompt, with the agent's current settings."""
        executor = run_setup.executor_of_run(self, offer, limits.tool_seconds)
        model = provider_for(self.routes, message) or self.provider
        provider, tools = run_setup.provider_and_tools(model, executor, output, limits, self.budget)
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
            **of_prompt,
        )

    def run_call(self, call: FunctionCall, tools: ToolExecutor, origin: Mapping[str, Any]) -> AsyncGenerator[Event]:
        """Run one tool call that did not come from a model, and yield the run's events. See `core.tool_run`."""
        return run_tool(call, tools, limits=self.limits, origin=origin, **self._of_any_run())

    def _of_any_run(self) -> dict[str, Any]:
        observers = (
            self.trace.record,
            *(partial(observe, self.trace) for observe in self.trace.observers),
            self._notify,
        )
        return {"observers": observers, "budget": self.budget, "agent": self}

    @contextmanager
    def tagged(
        self, *tags: str, user: str | None = None, session: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> Iterator[None]:
        """Label all runs that start in this block. The labels are columns of `trace.runs`.

        They also apply to the runs of other agents and of this agent's panels during the block. In nested blocks, tags
        accumulate, and all other inner values override the outer values. `session` is a name from your application,
        such as a visit's id, while `session_id` in the trace identifies the process. Labels never reach the model.

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

    def _notify(self, event: Event) -> None:
        for observe in tuple(self.observers):
            observe(event)

    def route(self, when: str | re.Pattern[str] | Callable[[str], Any], function: Callable[[Any], Any]) -> Self:
        """Answer some prompts of this conversation with a function instead of a model. The first matching route wins.

        - `when`: a regular expression to search for in the prompt, or a function of the prompt that returns True
        - `function`: a sync or async function that returns the answer. It receives the `re.Match`, or the prompt if
          `when` is a function.

        The run is shown and traced like any other. It costs nothing and needs no key. Forks inherit the routes. `map`,
        `extract` and summaries ignore them. `agent.routes` is the list of routes.

        >>> agent.route(r"(?i)^what time is it", lambda match: f"It is {datetime.now():%H:%M}.")    # doctest: +SKIP
        """
        self.routes.append(Route(when, function))
        return self

    @property
    def plan(self) -> DataFrame:
        """The conversation's plan, with the columns step, status ("pending", "doing", "done", "dropped") and note.

        This is a copy. Assign it back to change the plan, even while the agent works. The model sees the change in its
        next request. You can also assign a list of strings, or None to clear the plan. Requires `Agent(plan=True)`.

        >>> plan = agent.plan                                               # doctest: +SKIP
        >>> plan.loc[3, ["status", "note"]] = "dropped", "not needed"       # doctest: +SKIP
        >>> agent.plan = plan                                               # doctest: +SKIP
        """
        return plan_frame(self._plans.plan_of(self.context) if self._plans else [])

    @plan.setter
    def plan(self, plan: Any) -> None:
        if (plans := self._plans) is None:
            raise ConfigurationError("This agent has no plan. Create it with Agent(..., plan=True).")
        plans.edit(self.context, plan)

    @property
    def _plans(self) -> Plans | None:
        return next((toolset for toolset in self.toolsets if isinstance(toolset, Plans)), None)

    def register_function(
        self, name: str, description: str, func: Callable[..., Any], parameters: dict[str, Any] | None = None
    ) -> None:
        """Offer a function to the model. Without `parameters`, the schema comes from the signature."""
        self.function_registry.register(name, description, func, parameters)

    def register_tool(
        self, name: str, description: str, parameters: dict[str, Any], function: Callable[..., Any]
    ) -> None:
        """Offer a function with the given JSON Schema. The parameters are named after the keys of a tool definition."""
        self.function_registry.register(name, description, function, parameters)

    def use(self, *toolsets: Toolset) -> Self:
        """Offer the tools of skills, MCP servers and other toolsets, as well as the agent's own. Forks inherit them.

        >>> agent = Agent("local").use(SkillHost("skills"))                 # doctest: +SKIP
        """
        self.function_registry = self.toolsets.add(toolsets, self.function_registry)
        self.tool_executor = self.tool_executor.with_options()  # a copy, because forks share the executor
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
        """Return this agent as a tool for other agents. Their models send it a prompt and read its answer.

        - `limits`: limits of each call, which override the agent's. Spending also counts towards the caller's limits.
        - `keep_conversation`: all calls, and all clients of a server, continue this agent's conversation, one at a
          time. Otherwise each call is a new conversation, and several may run at once.
        - `options`: see `tool`. There is no timeout unless `options` sets one.

        Calls that need approval go to this agent's `approve` or, if it has none, to the caller's.

        >>> researcher = Agent("claude", tools=[search])                    # doctest: +SKIP
        >>> tools = [researcher.as_tool("research", "Finds facts.", limits=Limits(max_cost=0.10))]  # doctest: +SKIP
        >>> await Agent("openai", tools=tools).chat("Which penguin is the heaviest, and why?")      # doctest: +SKIP
        """
        return agent_tool(self, name, description, limits, keep_conversation, options)

    def offered_tools(self) -> list[str]:
        """Return the names of the tools on offer: all in the registry, except those that are switched off."""
        return [name for name in self.function_registry.names() if name not in self.tools_off]

    def tool_stats(self) -> DataFrame:
        """Return each tool's calls, failures, invalid arguments, denials and seconds so far, unused tools included."""
        from nbagent.trace.views.tool_stats import tool_stats

        return tool_stats(self.trace.tool_calls, self.function_registry.names())

    def stop(self) -> int:
        """Stop the current run and all queued runs, and return their number. Any thread may call this.

        The text received so far is kept. Awaiting a stopped run raises `asyncio.CancelledError`.
        """
        streams = [reference() for reference in self._queue.streams.valuerefs()]
        return sum(stream.stop() for stream in streams if stream is not None)

    def clear_history(self) -> None:
        """Delete the conversation except the system prompt. To keep it, use `context.new_conversation()` instead."""
        self.context.clear()

    def undo(self) -> list[LLMMessage]:
        """Remove the last turn (from the last user message on) and return it."""
        return self.context.undo()

    def fork(self) -> Agent:
        """Return another agent that continues this conversation, with its own history and trace.

        It has the same provider and tools. `agent.trace.with_children()` has the runs of both agents.
        """
        other = self._like_this(self.trace.fork())
        # set here, because an AgentConfig sets its own system prompt
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
        raise ConfigurationError("An Agent can't be copied or pickled. Use agent.fork(), or agent.save(path).")

    def _like_this(self, trace: Trace) -> Agent:
        """Return a new agent with the same provider and tools. Subclasses return an instance of their own."""
        return Agent(self.provider_or_spec, self.function_registry, trace=trace)

    def side_agent(self, system_prompt: str, tools: bool = False) -> Agent:
        """Return an agent for prompts outside the conversation, with the same provider, limits and trace.

        It has no history, and no tools unless `tools=True`.
        """
        other = self.fork()
        other.context = ContextManager()
        other.system_prompt, other.trace, other.validators, other.routes = system_prompt, self.trace, [], []
        if not tools:
            other.tool_executor = self.tool_executor.with_options(only=[])
            other.function_registry, other.toolsets = other.tool_executor.registry, Toolsets()
        return other

    def row_agent(self, tools: bool) -> Agent:
        """Return an agent that answers a map's rows, with the same system prompt, trace and, optionally, tools."""
        return self.side_agent(self.system_prompt or "", tools)

    def row_settings(self, tools: bool) -> dict[str, Any]:
        """Return the settings that determine the answers of `row_agent`, as JSON data."""
        offered = [tool for tool in self.function_registry.list_functions() if tool["name"] in self.offered_tools()]
        return {"system": self.system_prompt, "temperature": self.temperature, "tools": offered if tools else []}

    def worker_factory(self) -> Callable[[], Agent]:
        """Return a function that creates a similar agent in another process. `cloudpickle` can serialize the function.

        Keys, the conversation, trace, budget, approver, deps, validators and routes are not sent. Raises
        `ConfigurationError` if a tool can't be sent.
        """
        return worker_factory(self)

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
    @overload  # unions, Literal, Annotated: type checkers can't express their values yet
    async def extract(
        self, message: MessageInput, shape: object, *, max_iterations: int | None = None, **options: Unpack[RunOptions]
    ) -> Any: ...
    async def extract(
        self, message: MessageInput, shape: object, *, max_iterations: int | None = None, **options: Unpack[RunOptions]
    ) -> Any:
        """Extract data from a message as a `shape`: a pydantic model, `list[Model]` or another pydantic type.

        `message` and `options` are as for `chat`. The conversation does not change, and the system prompt is not used.
        Tools are offered only if `tools` or `use_tools` is given. Corrections are part of the same run: see `output` of
        `chat_stream`. Raises `ExtractionError` if the answer is still wrong or incomplete after all corrections.

        A returned list has `.to_frame()`, `.run_id` and `.cost`. To get the run and cost of a single value, or to use
        the conversation and the system prompt, call `chat(message, output=shape)`.

        >>> people = await agent.extract(page, list[Person])                # doctest: +SKIP
        >>> people.to_frame()                                               # doctest: +SKIP
        """
        from nbagent.agent.extract import EXTRACT, extract

        if "output" in options:
            raise ConfigurationError("extract() has no argument 'output'. Pass the type as the second argument.")
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
        **options: Unpack[LabelledOptions],
    ) -> DataFrame | MapPreview:
        """Send a prompt for each row of a Series or DataFrame, and return the answers with the same index.

        - `prompt`: text with column names in braces. Without it, the values are the prompts: texts, images (PIL images,
          figures, bytes, paths), paths to PDFs, or lists of messages. Rows without a value are skipped.
        - `output`: a pydantic model, whose fields become typed columns (`address.city`), or another type.
          `explode` is the name of a list field; each of its items becomes a row.
        - `concurrency`: how many rows are sent at the same time
        - `rpm`, `tpm`: maximum requests and tokens per minute
        - `limits`: the limits of each row
        - `budget`: the total budget for all rows, in US dollars or as a `Budget`. Rows beyond the budget have the
          status "left". If the estimated cost exceeds the budget or the rows' limits, the map asks for approval in a
          notebook or a terminal before it starts. Without approval it raises `ConfigurationError` and sends nothing.
        - `allow_partial`: whether to start without asking, even if the budget may not cover all rows
        - `checkpoint`: a file that keeps the answers. Repeat the call to continue after an interruption. Without a
          checkpoint, the agent keeps the answers in memory until all rows are answered.
        - `engine`: None to send rows now, "batch" for the provider's batch endpoint, or a `distributed.Client` for Dask
        - `on_error`: "keep" records an error in its row; "raise" stops the map
        - `tools`: whether the model may call the agent's tools
        - `preview`: whether to return the requests and an estimate without sending anything
        - `progress`: whether to show a progress bar
        - `options`: see `RequestOptions`; for `tags`, `user`, `session` and `metadata` see `tagged`

        The columns after the answer are `status`, `error`, `input_tokens`, `output_tokens`, `cost`, `seconds` and
        `run_id`. For a Dask DataFrame, the result is a Dask DataFrame with the same partitions.

        Equal rows are sent once: the first row shows the tokens and the cost, and the others show 0. Errors that would
        affect every row, such as a wrong key, are raised. The conversation does not change. `last_map` contains the
        answers so far, even after an interruption.

        >>> await agent.map(reviews, "Is this review positive? {text}")             # doctest: +SKIP
        """
        from nbagent.batch.map import Map, gathered

        data, in_parts = await gathered(data, engine)
        task = Map(
            self,
            data,
            prompt,
            output,
            concurrency=concurrency,
            limits=limits,
            budget=budget,
            checkpoint=checkpoint,
            engine=engine,
            on_error=on_error,
            tools=tools,
            explode=explode,
            rpm=rpm,
            tpm=tpm,
            allow_partial=allow_partial,
            progress=progress,
            options=options,
        )
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
        """The latest `map`'s answers so far, whether it is running, stopped or finished; None before the first map.

        Rows that were not sent have the status "left".
        """
        return None if self._last_map is None else self._last_map.frame()

    @cached_property
    def unfinished(self) -> Unfinished:
        """The answers from interrupted maps that had no checkpoint. Repeating a map continues from its answers."""
        from nbagent.batch.map import Unfinished

        return Unfinished()

    async def parse_message(self, sender: str, timestamp: Any, content: str) -> list[dict[str, Any]]:
        """Return the records in an unstructured message as dicts. Describe a record in the `system_prompt`.

        The conversation does not change. Raises `ExtractionError` if the model returns no JSON array of objects.
        """
        from nbagent.agent.extract import RECORDS, parse_message

        prompt = "\n\n".join(filter(None, (self.system_prompt, RECORDS)))
        return await parse_message(self.side_agent(prompt).chat, sender, timestamp, content)

    async def _summarise(self, messages: Sequence[LLMMessage]) -> str:
        summariser = self.side_agent(summary.PROMPT)
        summariser.guards = []  # the provider has read all of this already
        result = await summariser.chat(summary.transcript(messages), origin={"source": "summary"})
        if result.status not in ("ok", "truncated") or not result.content:  # part of a summary is better than none
            raise NbagentError(f"the run ended with status {result.status!r} after {len(result.content)} characters")
        return result.content

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the conversation, without keys or tools, to a JSON file for `Agent.load`.

        Raises `ConfigurationError` if the file can't be written. In that case, an existing file keeps its old content.
        """
        provider = self.provider
        saved.save(path, self.context.messages, f"{provider.provider_name}:{provider.model_name}")

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], provider: ProviderInput = None, **options: Unpack[AgentOptions]
    ) -> Self:
        """Return an agent that continues a saved conversation, with any provider. `options` are as for `Agent`.

        The saved system prompt is kept unless `options` contains another.

        >>> agent = Agent.load("analysis.json", "claude:claude-sonnet-5", tools=[mean_by])      # doctest: +SKIP
        """
        messages = saved.load(path).messages
        agent = cls(provider, **options)
        system_prompt = agent.system_prompt
        # without their ids, because a trace may already have their rows
        agent.context.replace_history(message.replace(message_id=None) for message in messages)
        if system_prompt:
            agent.system_prompt = system_prompt
        return agent

    async def aclose(self) -> None:
        """Close the toolsets, and the provider's connections on this event loop. The next message reopens them."""
        await self.toolsets.aclose()
        if self._provider is not None:
            await self._provider.aclose()

    def close(self) -> None:
        """Close the toolsets, and the connections that blocking calls (`chat_sync`, a plain `for`) opened."""
        run_sync(self.aclose())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """The agent's display in a notebook."""
        lines = agent_summary(self, self.provider_or_spec)
        return {"text/html": key_values_html(lines), "text/plain": key_values_text(lines)}

    def __repr__(self) -> str:
        return agent_repr(self)

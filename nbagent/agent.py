"""`Agent`: a provider, functions, a history and a trace, wired together. The one entry point.

This file only wires and delegates: the loop is in `core/loop.py`, its events are in `core/events.py`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from nbagent.checks import check_type
from nbagent.config import AgentConfig
from nbagent.core.background import run_sync
from nbagent.core.events import Event
from nbagent.core.history import saved, summary
from nbagent.core.history.context import ContextManager
from nbagent.core.limits import Limits
from nbagent.core.messages import LLMMessage
from nbagent.core.queue import QueueEntry, RunQueue
from nbagent.core.results import AgentResult
from nbagent.core.run import Provider, Run, Tools
from nbagent.core.stream import AgentStream, StreamingHandler
from nbagent.errors import ConfigurationError, NbagentError
from nbagent.functions.executor import ToolExecutor
from nbagent.functions.live import as_registry
from nbagent.functions.registry import FunctionRegistry
from nbagent.pricing import price
from nbagent.providers import resolve
from nbagent.providers.replay.active import current_recording
from nbagent.trace.trace import Trace

if TYPE_CHECKING:
    from pandas import DataFrame

    from nbagent.providers.base import LLMProvider

log = logging.getLogger("nbagent")
log.addHandler(logging.NullHandler())


class Agent:
    """A conversation with a model that can call your functions.

    Args:
        provider: an `LLMProvider`, a name such as `"claude:claude-sonnet-5"` or `"local"`, or an `AgentConfig`. None
            means NBAGENT_MODEL, then the first vendor with a key, then the embedded model. Nothing is loaded or
            connected before the first message.
        function_registry: the functions that the model may call; or pass `tools`: functions, or `nbagent.live`.
        system_prompt: instructions for the whole conversation.
        context: a `ContextManager` that trims long conversations.
        limits: a `Limits`; a run ends, and keeps what it has, when it reaches one.
        trace: the `Trace` to record into; a new one by default.
        approve: called with `(call, definition)` for tools marked `approve=True`; returns True, False, or a dict of
            edited arguments. Without an approver such calls are denied.

    >>> agent = Agent("openai:gpt-5.6-luna", tools=[get_weather])           # doctest: +SKIP
    >>> result = await agent.chat("How warm is it in Berlin?")              # doctest: +SKIP
    >>> agent.trace.tool_calls                                              # doctest: +SKIP
    """

    def __init__(
        self,
        provider: LLMProvider | AgentConfig | str | None = None,
        function_registry: FunctionRegistry | None = None,
        system_prompt: str | None = None,
        *,
        tools: Any = None,
        context: ContextManager | None = None,
        limits: Limits | None = None,
        trace: Trace | None = None,
        approve: Callable[..., Any] | None = None,
    ) -> None:
        if function_registry is not None and tools is not None:
            raise ConfigurationError("Pass function_registry or tools, not both: register the tools in the registry.")
        fix = "Pass functions as tools=[...]."
        check_type("function_registry", function_registry, FunctionRegistry, optional=True, fix=fix)
        check_type("context", context, ContextManager, optional=True, fix="Pass ContextManager(...).")
        check_type("limits", limits, Limits, optional=True, fix="Pass Limits(...).")
        check_type("trace", trace, Trace, optional=True, fix="Pass Trace(...).")
        config = provider if isinstance(provider, AgentConfig) else None
        self._spec: Any = provider
        self._provider: LLMProvider | None = None
        self.function_registry = as_registry(tools) if function_registry is None else function_registry
        self.tool_executor = ToolExecutor(self.function_registry, approver=approve)
        self.context = context or ContextManager()
        self.limits = _limits(limits, config)
        self.temperature = config.temperature if config else None
        self.trace = trace or Trace()
        #: Called with each event of each run, on the run's thread, before the event is yielded. They must not raise.
        self.observers: list[Callable[[Event], None]] = []
        #: Names of tools that are not offered, unless a call of `chat` names them.
        self.tools_off: set[str] = set()
        self._queue = RunQueue()
        prompt = system_prompt or (config.system_prompt if config else None)
        if prompt:
            self.context.set_system_message(prompt)

    @property
    def provider(self) -> LLMProvider:
        """The provider, made at first use. Assign a provider or a name to switch; the conversation stays."""
        if self._provider is None:
            self._provider = resolve(self._spec)
            if self._spec is None and self._provider.vendor == "local":
                log.info("no key found: using the embedded model %s", self._provider.model_name)
        return self._provider

    @provider.setter
    def provider(self, spec: LLMProvider | AgentConfig | str | None) -> None:
        made = None if spec is None else resolve(spec)
        if made is not None:
            tape = current_recording()
            if tape is None or not tape.replay_only:
                made.check()  # a wrong name or a missing key raises here, before anything changes
        self._spec, self._provider = spec, made

    @property
    def is_default_local(self) -> bool:
        """Whether the embedded model was chosen because no model was named and no key was found."""
        tape = current_recording()
        another = tape is not None and tape.replay_only and "local" not in tape.vendors
        return self._spec is None and self.provider.vendor == "local" and not another

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
        message: Any,
        max_iterations: int | None = None,
        handler: StreamingHandler | None = None,
        **options: Any,
    ) -> AgentResult:
        """Ask, let the model use the tools, and return the answer.

        `message` is a text; an image (a matplotlib figure, a PIL image, a `pathlib.Path`, bytes); a list of texts,
        images and content parts; or a list of messages, which replaces the history except for the system message.
        `options` are those of `chat_stream`. Raises a `ProviderError` if the vendor fails; `error.partial` is the
        unfinished result.
        """
        return await self.chat_stream(message, max_iterations=max_iterations, **options).collect(handler)

    def chat_sync(
        self,
        message: Any,
        max_iterations: int | None = None,
        handler: StreamingHandler | None = None,
        **options: Any,
    ) -> AgentResult:
        """Blocking twin of `chat`, for scripts and for cells without `await`."""
        return run_sync(self.chat(message, max_iterations, handler, **options))

    def chat_stream(
        self,
        message: Any,
        use_tools: bool = True,
        *,
        max_iterations: int | None = None,
        temperature: float | None = None,
        tools: Iterable[str] | None = None,
        approve_all: bool = False,
        instructions: str = "",
        origin: Mapping[str, Any] | None = None,
        **request_options: Any,
    ) -> AgentStream:
        """The same run as a stream of events, for `async for` and plain `for`; `.preview()` shows the request unsent.

        `tools` names the tools to offer; with `approve_all`, each of their calls waits for approval. `instructions`
        follow the system prompt in the requests of this run only. The trace's `runs` keep `origin` (source, cell_id,
        execution_count). Other keywords go into the vendor's request (`max_tokens=500`).
        """
        if "handler" in request_options:
            raise ConfigurationError("chat_stream() takes no handler: iterate its events, or use chat(handler=...).")

        def new_run(entry: QueueEntry, is_preview: bool) -> Run:
            provider, executor = self._recorded(
                self._provider_with_tools(), self._executor(use_tools, tools, approve_all)
            )
            sampling = self.temperature if temperature is None else temperature
            return Run(
                entry=entry,
                provider=provider,
                tools=executor,
                context=self.context.copy() if is_preview else self.context,
                limits=self.limits if max_iterations is None else replace(self.limits, max_iterations=max_iterations),
                price=price,
                summarise=self._summarise,
                observers=(self.trace.record, *(partial(see, self.trace) for see in self.trace.observers), self._tell),
                options=request_options if sampling is None else {**request_options, "temperature": sampling},
                origin=origin or {"source": "python"},
                instructions=instructions,
                record_http=self.trace.record_http,
            )

        return AgentStream(new_run, message, self._queue)

    def _tell(self, event: Event) -> None:
        for observe in tuple(self.observers):
            observe(event)

    async def extract(self, text: str, shape: Any, **options: Any) -> Any:
        """What a text says, as an object of type `shape`: a pydantic model, `list[Model]`, or a type pydantic supports.

        The conversation does not change. The answer is validated; the model may correct it twice, then
        `ExtractionError` is raised. A list has `.to_frame()`. `options` are those of `chat`.

        >>> people = await agent.extract(page, list[Person])                # doctest: +SKIP
        >>> people.to_frame()                                               # doctest: +SKIP
        """
        from nbagent.extract import extract

        return await extract(self.side_agent, self.provider, text, shape, **options)

    async def parse_message(self, sender: str, timestamp: Any, content: str) -> list[dict[str, Any]]:
        """The records in an unstructured message, as a list of dicts. Describe a record in the `system_prompt`.

        The conversation does not change. Raises `ExtractionError` if the model returns no JSON array of objects.
        """
        from nbagent.extract import parse_message

        return await parse_message(self.side_agent, self.system_prompt, sender, timestamp, content)

    def _executor(self, use_tools: bool, names: Iterable[str] | None, approve_all: bool) -> ToolExecutor:
        executor = self.tool_executor.requiring_approval() if approve_all else self.tool_executor
        if isinstance(names, str):
            names = [names]
        if names is None and self.tools_off:
            names = self.offered_tools()
        if names is not None or not use_tools:
            executor = executor.only((names or ()) if use_tools else ())
        return executor.with_timeout(self.limits.tool_seconds)

    def _provider_with_tools(self) -> Provider:
        """The provider; if its model cannot call tools, they are described in the prompt."""
        provider = self.provider
        if not provider.supports_function_calling():
            from nbagent.providers.prompting.provider import PromptedProvider

            provider = PromptedProvider(provider)
        return provider

    def _recorded(self, provider: Provider, tools: Tools) -> tuple[Provider, Tools]:
        """The same; while a recording is made or played, wrapped by it."""
        tape = current_recording()
        return (provider, tools) if tape is None else tape.wrap(provider, tools)

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

    def offered_tools(self) -> list[str]:
        """The names of the tools offered now: those of the registry that are not switched off."""
        return [name for name in self.function_registry.names() if name not in self.tools_off]

    def tool_stats(self) -> DataFrame:
        """Each tool's calls, failures, invalid arguments, denials and seconds so far, by the trace.

        Tools that were never called have zeros.
        """
        from nbagent.trace.views.tool_stats import tool_stats

        return tool_stats(self.trace.tool_calls, self.function_registry.names())

    def stop(self) -> int:
        """Stop the current run and those in the queue; the text so far stays. Callable from any thread.

        Returns the number of runs. Whoever awaits them gets `asyncio.CancelledError`.
        """
        streams = [reference() for reference in self._queue.streams.valuerefs()]
        return sum(stream.stop() for stream in streams if stream is not None)

    def clear_history(self) -> None:
        """Forget the conversation, but not the system prompt."""
        self.context.clear()

    def undo(self) -> list[LLMMessage]:
        """Remove the last turn (from the last user message on) and return it."""
        return self.context.undo()

    def fork(self) -> Agent:
        """Another agent that continues this conversation: same provider and tools, its own history and trace."""
        trace = Trace(self.trace.record_http, self.trace.keep_results, self.trace.max_bytes)
        trace.observers += self.trace.observers
        other = Agent(self._provider or self._spec, self.function_registry, trace=trace)
        # set last, since an AgentConfig brings its own system prompt
        other.context = self.context.copy()
        other.limits, other.temperature = self.limits, self.temperature
        other.tool_executor, other.tools_off = self.tool_executor, set(self.tools_off)
        return other

    def side_agent(self, system_prompt: str) -> Agent:
        """An agent for a question beside the conversation: same provider, limits and trace; no history, no tools."""
        other = self.fork()
        other.context = ContextManager()
        other.system_prompt, other.trace = system_prompt, self.trace
        other.tool_executor = self.tool_executor.only([])
        other.function_registry = other.tool_executor.registry
        return other

    async def _summarise(self, messages: Sequence[LLMMessage]) -> str:
        result = await self.side_agent(summary.PROMPT).chat(summary.transcript(messages), origin={"source": "summary"})
        if result.status != "ok" or not result.content:
            raise NbagentError(f"the run ended with status {result.status!r} and {len(result.content)} characters")
        return result.content

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the conversation, without keys and tools, to a JSON file for `Agent.load`.

        Raises `ConfigurationError` if the file can't be written; then its old content is still there.
        """
        provider = self.provider
        saved.save(path, self.context.messages, f"{provider.vendor}:{provider.model_name}")

    @classmethod
    def load(cls, path: str | os.PathLike[str], provider: Any = None, **options: Any) -> Agent:
        """An agent that continues a saved conversation, with any provider; `options` are those of `Agent`.

        The saved system prompt stays unless `options` has another.

        >>> agent = Agent.load("analysis.json", "claude:claude-sonnet-5", tools=[mean_by])      # doctest: +SKIP
        """
        messages, _ = saved.load(path)
        agent = cls(provider, **options)
        given = agent.system_prompt
        agent.context.replace_history(messages)
        if given:
            agent.system_prompt = given
        return agent

    async def aclose(self) -> None:
        """Close the provider's connections on the running event loop. The next message opens new ones."""
        if self._provider is not None:
            await self._provider.aclose()

    def close(self) -> None:
        """Close the connections that blocking calls (`chat_sync`, a plain `for`) opened."""
        run_sync(self.aclose())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What a notebook shows for the agent itself."""
        from nbagent.agent_summary import agent_summary
        from nbagent.core.render.key_values import key_values_html, key_values_text

        lines = agent_summary(self, self._provider or self._spec)
        return {"text/html": key_values_html(lines), "text/plain": key_values_text(lines)}

    def __repr__(self) -> str:
        provider: Any = self._provider or self._spec
        if hasattr(provider, "model_name"):
            model = f"{provider.vendor}:{provider.model_name}"
        else:
            model = getattr(provider, "model", provider) or "model chosen at the first message"
        counts = [(len(self.offered_tools()), "tool"), (len(self.context.messages), "message")]
        listed = ", ".join(f"{number} {thing}{'' if number == 1 else 's'}" for number, thing in counts)
        return f"<Agent {model}, {listed}>"


def _limits(given: Limits | None, config: AgentConfig | None) -> Limits:
    """The limits of a run: arguments win over environment variables, and these over the configuration."""
    limits = (given or Limits()).or_else(Limits.from_environment())
    if config is None:
        return limits
    names = {each.name: each.name for each in fields(Limits)} | {"max_iterations": "max_tool_iterations"}
    return limits.or_else(Limits(**{name: getattr(config, configured) for name, configured in names.items()}))

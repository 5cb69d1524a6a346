"""`Agent`: a provider, functions, a history and a trace, wired together. The one entry point.

This file only wires and delegates. The loop is in `core/loop.py`, its events in `core/events.py`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from nbagent.config import AgentConfig
from nbagent.core.background import RunQueue, run_sync
from nbagent.core.events import Event
from nbagent.core.history import saved, summary
from nbagent.core.history.context import ContextManager
from nbagent.core.history.preview import Preview, preview
from nbagent.core.limits import Limits
from nbagent.core.loop import run_loop
from nbagent.core.messages import AgentResult, LLMMessage
from nbagent.core.run import Provider, Run, Ticket, Tools
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
        provider: an `LLMProvider`, `"claude:claude-sonnet-5"`, `"local"`, an `AgentConfig`, or None: what the
            environment variable NBAGENT_MODEL names, else the vendor of the first key found, else the embedded model.
            Nothing is loaded or connected before the first message.
        function_registry: the functions it may call, or `tools`: functions, or `nbagent.live`.
        system_prompt: who the agent is.
        context: a `ContextManager`, to trim long conversations.
        limits: a `Limits`; each run ends politely when one is reached.
        trace: a `Trace` to record into; its own if not given.
        approve: called with `(call, definition)` for tools marked `approve=True`; returns True, False, or a dict of
            edited arguments. Without it such calls are denied.

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
            raise ConfigurationError("give function_registry or tools, not both: register the tools in the registry")
        if function_registry is not None and not isinstance(function_registry, FunctionRegistry):
            raise ConfigurationError(f"{function_registry!r} is no FunctionRegistry: pass functions as tools=[...]")
        for given, kind in ((context, ContextManager), (limits, Limits), (trace, Trace)):
            if given is not None and not isinstance(given, kind):
                raise ConfigurationError(
                    f"{given!r} is no {kind.__name__}: make one, {kind.__name__}(...), or pass None"
                )
        config = provider if isinstance(provider, AgentConfig) else None
        self._spec: Any = provider
        self._provider: LLMProvider | None = None
        self.function_registry = as_registry(tools) if function_registry is None else function_registry
        self.tool_executor = ToolExecutor(self.function_registry, approver=approve)
        self.context = context or ContextManager()
        self.limits = _limits(limits, config)
        self.temperature = config.temperature if config else None
        self.trace = trace or Trace()
        #: Called with each event of each run, on the run's own thread, before its reader has it. They must not raise.
        self.observers: list[Callable[[Event], None]] = []
        #: Names of tools that are not offered, unless a run asks for them by name.
        self.tools_off: set[str] = set()
        self._queue = RunQueue()
        prompt = system_prompt or (config.system_prompt if config else None)
        if prompt:
            self.context.set_system_message(prompt)

    @property
    def provider(self) -> LLMProvider:
        """The provider; made at first use. Assign a provider or a name to switch, the conversation stays."""
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
                made.check()  # a wrong name or a missing key is an error now, and changes nothing
        self._spec, self._provider = spec, made

    @property
    def is_default_local(self) -> bool:
        """Whether the embedded model was chosen because nothing else was named and no key was found."""
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
        """The live history, system message first."""
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
        images and content parts; or a list of messages, which replaces the history (the system message stays).
        Further options are those of `chat_stream`. Raises a `ProviderError` where the vendor fails, with the
        unfinished result at `error.partial`.
        """
        return await self.chat_stream(message, max_iterations=max_iterations, **options).collect(handler)

    def chat_sync(
        self,
        message: Any,
        max_iterations: int | None = None,
        handler: StreamingHandler | None = None,
        **options: Any,
    ) -> AgentResult:
        """`chat`, blocking: for scripts, and for cells without `await`."""
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
        """The same run as a stream of events, for `async for` and plain `for`; its `preview()` only shows the request.

        `tools` names the only ones to offer; with `approve_all` each of their calls waits for approval. `instructions`
        stand below the system prompt in this run's requests, and in no later one. `origin` is kept in the trace's
        `runs` (source, cell_id, execution_count); other keywords go into the vendor's request (`max_tokens=500`).
        """
        if "handler" in request_options:
            raise ConfigurationError("a stream takes no handler: iterate its events, or chat(..., handler=...)")

        def run(ticket: Ticket, context: ContextManager) -> Run:
            provider, executor = self._taped(self._adapted(), self._executor(use_tools, tools, approve_all))
            return Run(
                ticket=ticket,
                provider=provider,
                tools=executor,
                context=context,
                limits=self.limits if max_iterations is None else replace(self.limits, max_iterations=max_iterations),
                price=price,
                summarise=self._summarise,
                observers=(self.trace.record, *(partial(see, self.trace) for see in self.trace.observers), self._tell),
                temperature=self.temperature if temperature is None else temperature,
                request_options=request_options,
                origin=origin or {"source": "python"},
                instructions=instructions,
                record_http=self.trace.record_http,
            )

        def start(ticket: Ticket) -> AsyncGenerator[Event]:
            return run_loop(run(ticket, self.context), message)

        def foresee(ticket: Ticket) -> Preview:
            return preview(run(ticket, self.context.copy()), message)

        return AgentStream(start, foresee, self._queue)

    def _tell(self, event: Event) -> None:
        for observe in tuple(self.observers):
            observe(event)

    async def extract(self, text: str, shape: Any, **options: Any) -> Any:
        """What a text says, as an object of the type `shape`: a pydantic model, `list[Model]`, or any type it knows.

        The conversation is left alone. The answer is validated; what is wrong with it goes back to the model, twice at
        most, then `ExtractionError` is raised. A list has `.to_frame()`. `options` go into the vendor's request.

        >>> people = await agent.extract(page, list[Person])                # doctest: +SKIP
        >>> people.to_frame()                                               # doctest: +SKIP
        """
        from nbagent.extract import extract

        return await extract(self, text, shape, **options)

    async def parse_message(self, sender: str, timestamp: Any, content: str) -> list[dict[str, Any]]:
        """The records in an unstructured message, as a list of dicts; what they are is for `system_prompt` to say.

        The conversation is left alone. Raises `ExtractionError` where the model gives no JSON array of objects.
        """
        from nbagent.extract import parse_message

        return await parse_message(self, sender, timestamp, content)

    def _executor(self, use_tools: bool, names: Iterable[str] | None, approve_all: bool) -> ToolExecutor:
        executor = self.tool_executor.requiring_approval() if approve_all else self.tool_executor
        if isinstance(names, str):
            names = [names]
        if names is None and self.tools_off:
            names = self.offered_tools()
        if names is not None or not use_tools:
            executor = executor.only((names or ()) if use_tools else ())
        return executor.with_timeout(self.limits.tool_seconds)

    def _adapted(self) -> Provider:
        """The provider, with tools described in the prompt where the model has no tool calling of its own."""
        provider = self.provider
        if not provider.supports_function_calling():
            from nbagent.providers.prompting.provider import PromptedProvider

            provider = PromptedProvider(provider)
        return provider

    def _taped(self, provider: Provider, tools: Tools) -> tuple[Provider, Tools]:
        """The same; while a recording is made or played, that stands before them."""
        tape = current_recording()
        return (provider, tools) if tape is None else tape.wrap(provider, tools)

    def register_function(
        self, name: str, description: str, func: Callable[..., Any], parameters: dict[str, Any] | None = None
    ) -> None:
        """Offer a function to the model; without `parameters` their schema is read from its signature."""
        self.function_registry.register(name, description, func, parameters)

    def register_tool(
        self, name: str, description: str, parameters: dict[str, Any], function: Callable[..., Any]
    ) -> None:
        """As `register_function`, with the schema given; takes the keys of a tool definition as keywords."""
        self.function_registry.register(name, description, function, parameters)

    def offered_tools(self) -> list[str]:
        """The names of the tools that the model is offered now: those of the registry that are not switched off."""
        return [name for name in self.function_registry.names() if name not in self.tools_off]

    def tool_stats(self) -> DataFrame:
        """How each tool did so far, by the trace: calls, failures, invalid arguments, denials, seconds.

        Tools that were never called are there too, with zeros.
        """
        from nbagent.trace.views.tool_stats import tool_stats

        return tool_stats(self.trace.tool_calls, self.function_registry.names())

    def stop(self) -> int:
        """End what this agent is doing and what waits for its turn; the text so far stays. From any thread, at once.

        How many runs that were. Those who wait for them get `asyncio.CancelledError`.
        """
        streams = [reference() for reference in self._queue.members.valuerefs()]
        return sum(stream.stop() for stream in streams if stream is not None)

    def clear_history(self) -> None:
        """Forget the conversation; the system prompt stays."""
        self.context.clear()

    def undo(self) -> list[LLMMessage]:
        """Take back the last turn (from the last user message on) and return it."""
        return self.context.undo()

    def fork(self) -> Agent:
        """Another agent that goes on from this conversation: same provider and tools, its own history and trace."""
        trace = Trace(self.trace.record_http, self.trace.keep_results, self.trace.max_bytes)
        trace.observers += self.trace.observers
        other = Agent(self._provider or self._spec, self.function_registry, trace=trace)
        # not before: a configuration brings its own system prompt, and here it may be another by now
        other.context = self.context.copy()
        other.limits, other.temperature = self.limits, self.temperature
        other.tool_executor, other.tools_off = self.tool_executor, set(self.tools_off)
        return other

    def aside(self, system_prompt: str) -> Agent:
        """An agent for a question beside the conversation: same provider, limits and trace; no history, no tools."""
        other = self.fork()
        other.context = ContextManager()
        other.system_prompt, other.trace = system_prompt, self.trace
        other.tool_executor = self.tool_executor.only([])
        other.function_registry = other.tool_executor.registry
        return other

    async def _summarise(self, messages: Sequence[LLMMessage]) -> str:
        result = await self.aside(summary.PROMPT).chat(summary.transcript(messages), origin={"source": "summary"})
        if result.status != "ok" or not result.content:
            raise NbagentError(f"the run ended with status {result.status!r} and {len(result.content)} characters")
        return result.content

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the conversation to a JSON file, for `Agent.load`. Keys and tools are not part of it.

        Raises ConfigurationError where it can't be written; then what was in the file before is still there.
        """
        provider = self.provider
        saved.save(path, self.context.messages, f"{provider.vendor}:{provider.model_name}")

    @classmethod
    def load(cls, path: str | os.PathLike[str], provider: Any = None, **options: Any) -> Agent:
        """An agent that goes on with a saved conversation, with any provider; `options` are those of `Agent`.

        The saved system prompt stays, unless another is given.

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
        """Close the provider's connections of the running event loop. The next message opens new ones."""
        if self._provider is not None:
            await self._provider.aclose()

    def close(self) -> None:
        """Close the connections that blocking calls (`chat_sync`, a plain `for`) opened."""
        run_sync(self.aclose())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What a notebook shows of the agent itself."""
        from nbagent.agent_summary import about
        from nbagent.core.render.key_values import key_values_html, key_values_text

        lines = about(self, self._provider or self._spec)
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
    """An argument comes before the environment, and that before the configuration."""
    limits = (given or Limits()).or_else(Limits.from_environment())
    if config is None:
        return limits
    names = {each.name: each.name for each in fields(Limits)} | {"max_iterations": "max_tool_iterations"}
    return limits.or_else(Limits(**{name: getattr(config, configured) for name, configured in names.items()}))

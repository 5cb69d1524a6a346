"""`Team`: several agents in one conversation. They take turns, or hand the conversation to each other.

A team is an agent. It has one history, one trace and one budget, and works in cells, in panels and as a tool. Its
members keep their own models, system prompts, tools and budgets. Their own conversations don't change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Unpack

from nbagent.agent.agent import Agent
from nbagent.agent.options import AgentOptions
from nbagent.agent.run_setup import Offer, executor_of_run, provider_and_tools
from nbagent.checks import check_choice, check_number, check_type, invalid
from nbagent.core.limits import Account
from nbagent.core.messages import LLMMessage
from nbagent.core.queue import QueueEntry
from nbagent.core.run import Provider, Run, Tools
from nbagent.errors import ConfigurationError, ToolError
from nbagent.functions.registry import FunctionRegistry, JoinedRegistry
from nbagent.functions.toolset import Toolsets
from nbagent.providers.base import LLMProvider
from nbagent.text import shortened
from nbagent.trace.trace import Trace

#: The tool that hands the conversation to another member.
HAND_OVER = "hand_over"
#: How many characters of a member's system prompt the other members see as its purpose.
PURPOSE_CHARS = 200
#: The key under which a message caches the form that the other members read.
_HEARD = "heard by the team"


class Team(Agent):
    """Several agents in one conversation. Use `chat`, cells, panels and `as_tool` as with any agent.

    Args:
        members: the agents by name. The other members see the beginning of a member's system prompt as its purpose.
        order: with "supervisor", the first member receives each prompt. It answers, or hands the conversation to
            another member with the tool `hand_over`. That member answers, or hands it back. With "round_robin", the
            members speak in turn, and the last answer is the result.
        rounds: how many times each member speaks in a round robin.
        options: as for `Agent`, but without a plan, a model and tools, since models and tools come from the members.
            The system prompt is for all members, and limits apply to all of them together.

    The speaker's name is in `trace.calls["speaker"]` and in the messages of the history.

    >>> team = Team({"desk": desk, "billing": billing})                     # doctest: +SKIP
    >>> (await team.chat("I paid twice.")).content                          # doctest: +SKIP
    >>> Team({"writer": writer, "critic": critic}, "round_robin", rounds=2)             # doctest: +SKIP
    """

    def __init__(
        self,
        members: Mapping[str, Agent],
        order: Literal["supervisor", "round_robin"] = "supervisor",
        *,
        rounds: int = 1,
        **options: Unpack[AgentOptions],
    ) -> None:
        check_choice("order", order, ("supervisor", "round_robin"))
        check_number("rounds", rounds, whole=True, minimum=1)
        if not isinstance(members, Mapping) or len(members) < 2:
            fix = 'Pass them by name, as in Team({"writer": writer, "critic": critic}).'
            raise invalid("members", members, "a dict of at least two agents", fix)
        for name, member in members.items():
            check_type("members: a name", name, str)
            check_type(f"members[{name!r}]", member, Agent, fix="Pass an Agent.")
        for option in ("tools", "function_registry", "plan"):
            if options.get(option):
                raise ConfigurationError(f"Team() has no argument {option!r}. Pass it to the members.")
        self.members, self.order, self.rounds = dict(members), order, rounds
        super().__init__(next(iter(members.values())).provider_or_spec, **options)
        self.toolsets = Toolsets(each for member in members.values() for each in member.toolsets)

    @property
    def provider(self) -> LLMProvider:
        """The first member's provider."""
        return next(iter(self.members.values())).provider

    @provider.setter
    def provider(self, spec: Any) -> None:
        if spec is not self.provider:
            name = next(iter(self.members))
            raise ConfigurationError(f"Each member of a team has its own model. Set team.members[{name!r}].provider.")

    def offered_tools(self) -> list[str]:
        """Return the names of the members' tools."""
        return list(dict.fromkeys(name for member in self.members.values() for name in member.offered_tools()))

    def _new_run(self, entry: QueueEntry, is_preview: bool, *, offer: Offer, **of_prompt: Any) -> Run:
        """Return a run in which the members speak."""
        run = super()._new_run(entry, is_preview, offer=(False, None, False), **{**of_prompt, "toolsets": Toolsets()})
        run.speakers = speakers = TeamSpeakers(run, self.order, self.rounds)
        for name in self.members:
            speakers.members[name] = self._speaker(name, speakers, offer, run)
        speakers.call_on(next(iter(self.members)))
        speakers.speaker = speakers.following
        return run

    def _speaker(self, name: str, speakers: TeamSpeakers, offer: Offer, run: Run) -> Speaker:
        """Return a member's settings for a run."""
        member, (use_tools, names, approve_all) = self.members[name], offer
        if names is not None:  # some may be other members' tools
            names = [
                tool for tool in ([names] if isinstance(names, str) else names) if tool in member.function_registry
            ]
        executor = executor_of_run(member, (use_tools, names, approve_all), run.limits.tool_seconds).with_options()
        executor.approver = executor.approver or self.tool_executor.approver
        if executor.call_context is None:
            executor.call_context = self.tool_executor.call_context
            executor.runs_exclusively = self.tool_executor.runs_exclusively
        toolsets, registry = member.toolsets if use_tools else Toolsets(), executor.registry
        others = [each for each in self.members if each != name]
        if self.order == "supervisor":
            to = others if name == next(iter(self.members)) else [next(iter(self.members))]
            executor.registry = JoinedRegistry(registry, speakers.tool({other: self._purpose(other) for other in to}))
        budgets = [budget for budget in (self.budget, member.budget) if budget]
        provider, tools = provider_and_tools(member.provider, executor, run.output, run.limits, *budgets)
        note = f"You are {name}. {', '.join(others)} may also speak here: their messages start with [name]."
        texts = (self.system_prompt, member.system_prompt, note, toolsets.instructions(registry))
        return Speaker(
            "\n\n".join(filter(None, texts)),
            provider,
            tools,
            partial(toolsets.reminder, registry),
            [budget.account for budget in budgets],
        )

    def _purpose(self, name: str) -> str:
        return shortened(" ".join((self.members[name].system_prompt or "").split()), PURPOSE_CHARS)

    def _like_this(self, trace: Trace) -> Team:
        return Team(self.members, self.order, rounds=self.rounds, trace=trace)

    def side_agent(self, system_prompt: str, tools: bool = False) -> Agent:
        """Return the first member's side agent. See `Agent.side_agent`."""
        other = next(iter(self.members.values())).side_agent(system_prompt, tools)
        other.trace, other.limits, other.budget = self.trace, self.limits, self.budget
        return other


@dataclass(slots=True)
class Speaker:
    """A member's settings for a run."""

    system: str
    provider: Provider
    tools: Tools
    reminder: Callable[[], str]
    #: The team's budget and the member's own.
    budgets: Sequence[Account]


class TeamSpeakers:
    """The current and the next speaker of a run. `members` maps names to settings."""

    def __init__(self, run: Run, order: str, rounds: int) -> None:
        self.members: dict[str, Speaker] = {}
        self.speaker = self.following = ""
        self._run = run
        self._order, self._rounds, self._answers = order, rounds, 0

    def call_on(self, name: str) -> None:
        """Let this member speak next. The run spends from this member's budget until another member speaks."""
        self.following = name
        self._run.spent.count_for(*self.members[name].budgets)

    def end_turn(self) -> None:
        """Charge the following calls to the next speaker's budget."""
        self.call_on(self.following)

    def take(self) -> list[LLMMessage]:
        """Let the next member speak, and return the conversation as that member reads it."""
        self.speaker, run = self.following, self._run
        member = self.members[self.speaker]
        run.provider, run.tools, run.reminder = member.provider, member.tools, member.reminder
        messages = (message for message in run.history.messages if message.role != "system")
        return [LLMMessage("system", member.system), *(_as_heard(message, self.speaker) for message in messages)]

    def passes_on(self) -> bool:
        """If another member speaks after this answer, call on that member and return True."""
        self._answers += 1
        if self._order != "round_robin" or self._answers >= self._rounds * len(self.members):
            return False
        self.call_on([*self.members][self._answers % len(self.members)])
        return True

    def tool(self, to: Mapping[str, str]) -> FunctionRegistry:
        """Return the tool that hands the conversation to one of these members. Its description lists their purposes."""

        async def hand_over(to: str, message: str = "") -> str:
            if self.following != self.speaker:
                raise ToolError(
                    f"{self.following} is already the next speaker. Hand over to only one member.", tool=HAND_OVER
                )
            self.following = to
            return f"{to} speaks now. {message}".rstrip()

        purposes = "\n".join(f"- {name}: {purpose}" if purpose else f"- {name}" for name, purpose in to.items())
        parameters = {
            "type": "object",
            "properties": {
                "to": {"type": "string", "enum": list(to)},
                "message": {"type": "string", "description": "What it should know or do; the user may read it."},
            },
            "required": ["to"],
        }
        registry = FunctionRegistry()
        text = f"Let somebody else answer the user from now on. They can read this conversation:\n{purposes}"
        registry.register(HAND_OVER, text, hand_over, parameters)
        return registry


def _as_heard(message: LLMMessage, speaker: str) -> LLMMessage:
    """Return a message as the speaker reads it: other members' answers become user messages."""
    if message.role != "assistant" or message.name in (None, speaker) or message.tool_calls:
        return message
    if _HEARD not in message.encoded:
        text = f"[{message.name}] {message.text}"
        message.encoded[_HEARD] = LLMMessage(
            "user", text, message_id=message.message_id and f"{message.message_id}_heard"
        )
    heard: LLMMessage = message.encoded[_HEARD]
    return heard

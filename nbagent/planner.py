"""`Planner`: an agent that plans first and then acts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from nbagent.agent import Agent, AgentOptions

if TYPE_CHECKING:
    from nbagent.config import AgentConfig
    from nbagent.providers.base import LLMProvider


class Planner(Agent):
    """An agent that plans first: `Agent(plan="first")`, whose other tools wait until there is a plan with an open step.

    It takes what `Agent` takes. With `approve_plan=True`, you approve the plan before the first step.

    >>> planner = Planner("claude:claude-sonnet-5", tools=[load, fit], approve_plan=True)       # doctest: +SKIP
    >>> await planner.chat("Which of these models fits the data best?")                         # doctest: +SKIP
    >>> planner.plan                                                                            # doctest: +SKIP
    """

    def __init__(
        self,
        provider: LLMProvider | AgentConfig | str | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        options.setdefault("plan", "first")
        super().__init__(provider, **options)

"""A run of the agent as an AG-UI client sees it: a run that waits for a person ends with an interrupt, and the client
begins another one with the person's decision.

Meanwhile the agent's run waits in this process. It goes on by itself if nobody decides in time: the answer is no then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from ag_ui import core as ag_ui

from nbagent.core import events
from nbagent.server.hosted_run import HostedRun
from nbagent.server.problems import problem_of
from nbagent.server.routes.ag_ui.interrupts import interrupt
from nbagent.server.routes.ag_ui.translation import Translation


class Talk:
    """A run of the agent, over one or several requests. While it waits, `held` keeps it: closing that cancels it."""

    def __init__(self, run: HostedRun, translation: Translation) -> None:
        self.run, self.translation = run, translation
        self.held = AsyncExitStack()
        #: The questions that wait for a person, by their id.
        self.asked: dict[str, events.Approval] = {}
        self._running: set[str] = set()

    async def continued(self) -> AsyncIterator[ag_ui.BaseEvent]:
        """What happens until the run ends, or until it can't go on without a person: then `asked` holds something."""
        self._running |= {self._call_of(question) for question in self.asked.values()}
        self.asked = {}
        async for event in self.run:
            self._note(event)
            if isinstance(event, events.Error):
                problem = problem_of(event.exception)
                for told in self.translation.failed(problem.detail, problem.code):
                    yield told
            for told in self.translation.translate(event):
                yield told
            if self.asked and not self._running:
                return

    def interrupts(self) -> list[ag_ui.Interrupt]:
        """The questions that wait, for the client."""
        return [
            interrupt(
                name,
                question.tool_name or "",
                question.tool_arguments or {},
                question.metadata["expires"],
                self._call_of(question),
            )
            for name, question in self.asked.items()
        ]

    def _note(self, event: events.AnyEvent) -> None:
        if isinstance(event, events.ToolStarted):
            self._running.add(self._call_of(event))
        elif isinstance(event, events.ToolResult):
            self._running.discard(self._call_of(event))
        elif isinstance(event, events.Approval) and event.content == "asked":
            self._running.discard(self._call_of(event))
            self.asked[event.metadata["approval_id"]] = event

    @staticmethod
    def _call_of(event: events.Event) -> str:
        return str(event.metadata["tool_call_id"])


class WaitingTalks:
    """The runs of this process that wait for a person, by owner and thread."""

    def __init__(self) -> None:
        self._talks: dict[tuple[str, str], Talk] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def keep(self, owner: str, thread: str, talk: Talk) -> None:
        """Keep a run until its client comes back, or until it ends without."""
        self._talks[owner, thread] = talk
        task = asyncio.create_task(self._let_go(owner, thread, talk))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def count(self, owner: str) -> int:
        """How many runs of an owner wait."""
        return sum(each == owner for each, _ in self._talks)

    def get(self, owner: str, thread: str) -> Talk | None:
        """The run that waits in this thread."""
        return self._talks.get((owner, thread))

    def take(self, owner: str, thread: str) -> Talk:
        """The run, which the taker closes."""
        return self._talks.pop((owner, thread))

    async def _let_go(self, owner: str, thread: str, talk: Talk) -> None:
        await talk.run.ended.wait()
        if self._talks.get((owner, thread)) is talk:
            await self.take(owner, thread).held.aclose()

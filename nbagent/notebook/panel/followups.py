"""Suggested follow-ups: up to three questions, as buttons that put them into the panel's box.

They are off until the user switches them on. After an answer to a question of the panel, a side agent is asked for
them in the background. That takes tokens: its run is in the trace, with the source `followups`, and in the meter.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from weakref import WeakSet

import ipywidgets as widgets

from nbagent.agent.agent import Agent
from nbagent.core.current import NO_CELL
from nbagent.core.history import summary
from nbagent.core.history.context import split_turns
from nbagent.core.messages import LLMMessage
from nbagent.core.render import markdown as render
from nbagent.core.results import AgentResult
from nbagent.errors import NbagentError
from nbagent.notebook.panel.conversation import Conversation
from nbagent.text import shortened

log = logging.getLogger("nbagent")

PROMPT = """\
You are given the end of a conversation between a user and an assistant. Suggest what the user could ask next: up to
three short questions or requests that follow from the conversation, in its language, as the user would write them.
Write each on a line of its own, and nothing else."""
#: Turns that the model reads, suggestions, and characters of one.
TURNS, MOST, MAX_CHARS = 3, 3, 100
_MARKS = re.compile(r"^\W*?(?:[-*•]|\d+[.)])\s+")

_switched_on: WeakSet[Agent] = WeakSet()


def offers_followups(agent: Agent) -> bool:
    """Whether panels of this agent suggest follow-ups."""
    return agent in _switched_on


def switch_followups(agent: Agent, on: bool) -> None:
    """Let panels of this agent suggest follow-ups, or no longer."""
    (_switched_on.add if on else _switched_on.discard)(agent)


def suggested(answer: str) -> list[str]:
    """The suggestions in a model's answer, one a line.

    >>> suggested("1. By island?\\n2. **And** by sex?")
    ['By island?', 'And by sex?']
    """
    lines = (" ".join(_MARKS.sub("", line).replace("**", "").split()).strip("`") for line in answer.split("\n"))
    return [render.printable(shortened(line, MAX_CHARS)) for line in lines if line][:MOST]


class FollowUps:
    """`box` has the buttons of one panel; a click calls `put` with the text. All calls come on the background loop."""

    def __init__(self, conversation: Conversation, put: Callable[[str], None]) -> None:
        self.box = widgets.HBox(layout={"display": "none"}).add_class("nbagent-followups")
        self._conversation = conversation
        self._put = put
        self._task: asyncio.Task[None] | None = None
        #: The answer that they follow.
        self._answer: LLMMessage | None = None

    def after(self, question: asyncio.Task[AgentResult], is_wanted: Callable[[], bool]) -> None:
        """Suggest something once this question is answered, if nothing else goes on then and it `is_wanted`."""

        def answered(_: asyncio.Task[AgentResult]) -> None:
            is_ok = not question.cancelled() and question.exception() is None
            if is_ok and is_wanted() and self._conversation.is_idle and offers_followups(self._conversation.agent):
                self._answer = self._last_message
                self._task = asyncio.get_running_loop().create_task(self._suggest())

        question.add_done_callback(answered)

    def update(self) -> None:
        """Drop suggestions for which it is too late: something else was asked, or the conversation is another one."""
        is_on = offers_followups(self._conversation.agent)
        if not (is_on and self._conversation.is_idle and self._last_message is self._answer):
            self.clear()

    def clear(self) -> None:
        """Drop the suggestions, also those that are being asked for."""
        if self._task is not None:
            self._task.cancel()
        self._answer = self._task = None
        self._show([])

    @property
    def _last_message(self) -> LLMMessage | None:
        return next(reversed(self._conversation.agent.conversation_history), None)

    async def _suggest(self) -> None:
        agent = self._conversation.agent
        turns = split_turns(agent.conversation_history)[-TURNS:]
        text = summary.transcript(message for turn in turns for message in turn)
        origin = {"source": "followups", **NO_CELL._asdict()}
        try:
            result = await agent.side_agent(PROMPT).chat(text, origin=origin)
        except NbagentError:  # they are a help: what is wrong is in the trace
            log.debug("no follow-ups could be suggested", exc_info=True)
            return
        self._conversation.meter.add(result.usage.total_tokens, result.cost)
        self._task = None
        self._show(suggested(result.content))
        self._conversation.show_notice(self._conversation.notice)  # the meter has changed

    def _show(self, texts: list[str]) -> None:
        before = self.box.children
        if texts or before:
            self.box.children = tuple(map(self._button, texts))
            self.box.layout.display = "" if texts else "none"
        for button in before:
            button.close()

    def _button(self, text: str) -> widgets.Button:
        button = widgets.Button(description=text, tooltip="Put it into the box")
        button.on_click(lambda _: self._conversation.run_on_loop(self._put, text))
        return button

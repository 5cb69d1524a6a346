"""What agents did that a tool asked: folded below its call, and unfolded as long as they work.

`Children` holds a transcript for each of their runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from nbagent.core import events
from nbagent.core.events import Event
from nbagent.core.render import markdown as render
from nbagent.text import shortened

#: Runs of one call that are shown; the trace has all of them.
MAX_RUNS = 20
#: Characters of a question.
QUESTION_CHARS = 80


class RunView(Protocol):
    """What is needed of the transcript of a run. `Transcript` has it."""

    over: bool

    def feed(self, event: Event) -> None:
        """See `Transcript.feed`."""
        ...

    def mark_interrupted(self) -> None:
        """See `Transcript.mark_interrupted`."""
        ...

    def show_edited(self, key: str | None, arguments: dict[str, Any]) -> None:
        """See `Transcript.show_edited`."""
        ...

    def parts(self) -> list[str]:
        """See `Transcript.parts`."""
        ...

    def call_lines(self) -> list[str]:
        """See `Transcript.call_lines`."""
        ...

    @property
    def summary(self) -> str:
        """See `Transcript.summary`."""
        ...


def own_event(event: Event) -> Event:
    """What happened, in whichever child."""
    while isinstance(event, events.ChildEvent):
        event = event.event
    return event


class Children:
    """The runs that a tool call started, in their order. `new_transcript()` makes the transcript of one.

    A question that is one of the call's `arguments` is not shown again.
    """

    def __init__(self, new_transcript: Callable[[], RunView], arguments: Mapping[str, Any]) -> None:
        self._new_transcript, self._arguments = new_transcript, arguments
        self._runs: dict[str, _Child] = {}
        self._more = 0

    def feed(self, event: Event) -> None:
        """Take an event of one of the runs."""
        run_id = event.metadata["run_id"]
        if isinstance(event, events.RunStarted):
            if len(self._runs) < MAX_RUNS:
                question = "" if event.content in self._arguments.values() else event.content
                self._runs[run_id] = _Child(event.metadata.get("agent"), question, self._new_transcript())
            else:
                self._more += 1
        if child := self._runs.get(run_id):
            child.feed(event)

    def end(self) -> None:
        """Nothing follows: the call is over."""
        for child in self._runs.values():
            if not child.transcript.over:
                child.transcript.mark_interrupted()

    def show_edited(self, key: str | None, arguments: dict[str, Any]) -> None:
        """See `Transcript.show_edited`."""
        for child in self._runs.values():
            child.transcript.show_edited(key, arguments)

    def html(self) -> list[str]:
        """A block for each run."""
        blocks = [child.html() for child in self._runs.values()]
        return [*blocks, render.note_html(self._note)] if self._more else blocks

    def lines(self) -> Iterator[str]:
        """The tool calls of the runs, as text."""
        for child in self._runs.values():
            yield from (f"  {line}" for line in child.transcript.call_lines())
        if self._more:
            yield f"  {self._note}"

    @property
    def _note(self) -> str:
        return f"and {self._more:,} more: see agent.trace.tree()"


class _Child:
    """One run."""

    def __init__(self, name: Any, question: str, transcript: RunView) -> None:
        self.transcript = transcript
        self._name = str(name or "agent")
        self._question = shortened(" ".join(question.split()), QUESTION_CHARS)
        self._failed = False
        self._html: str | None = None  # once nothing can change any more

    def feed(self, event: Event) -> None:
        self.transcript.feed(event)
        if isinstance(event, events.Interrupted):
            self.transcript.mark_interrupted()
        self._failed = isinstance(event, events.Error)

    def html(self) -> str:
        if self._html is not None:
            return self._html
        transcript, head = self.transcript, render.escape(self._name)
        if self._question:
            head += f' <span class="nbagent-quiet">{render.escape(self._question)}</span>'
        body = "".join(transcript.parts())
        if not transcript.over:
            return _indented(render.details_html(head, "working…", body, is_open=True))
        side = '<span class="nbagent-bad">✗ error</span>' if self._failed else render.escape(transcript.summary)
        self._html = _indented(render.details_html(head, side, body))
        return self._html


def _indented(page: str) -> str:
    return f'<div class="nbagent-child">{page}</div>'

"""Shows a transcript: in displays below a cell that are updated in place, or line by line in a terminal.

Each segment has its own display, so a complete segment is not drawn again. For example, a tool call that the user has
unfolded stays open while the answer streams.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from nbagent.agent.plan import UPDATE_PLAN, plan_in
from nbagent.chat.checklist import checklist_lines
from nbagent.chat.throttle import Throttle
from nbagent.chat.transcript import MimeBundle, Transcript, notice_text
from nbagent.core import events
from nbagent.core.citations import numbered
from nbagent.core.content.images import image_note
from nbagent.core.events import Event
from nbagent.core.messages import FunctionCall, LLMResponse
from nbagent.core.render import markdown as render
from nbagent.core.render.sources import sources_text
from nbagent.core.results import AgentResult
from nbagent.functions.elicitation import Question
from nbagent.notebook.display.approval import asking_call_id
from nbagent.text import shortened

log = logging.getLogger("nbagent")

#: Characters of plain text in an update. The final update has all of it.
PLAIN_CHARS = 200


class CellView:
    """Shows a transcript in the running cell.

    `show(index, bundle)` creates the next display, or updates the display with this index. With `live=False`, for runs
    that nobody watches (nbclient, nbval), there is a single display at the end.
    """

    def __init__(self, transcript: Transcript, show: Callable[[int, MimeBundle], Any], *, live: bool = True) -> None:
        self.transcript = transcript
        self._show = show
        self.live = live
        self._shown: list[MimeBundle] = []
        self._throttle = Throttle(self._paint)

    def feed(self, event: Event) -> None:
        """Process one event and request an update."""
        waited = self.transcript.status
        self.transcript.feed(event)
        if not self.live:
            return
        if isinstance(event, events.ToolStarted):
            self._throttle.now()  # before the tool prints: its output appears below its call
            self._throttle.every_second(lambda: self.transcript.has_running_tools)
        else:
            self._throttle.request(at_once=bool(waited and not self.transcript.status))

    def wait_for(self, what: str) -> None:
        """Until the prompt is sent, show what it is waiting for."""
        self.transcript.status = f"waiting for {what}"
        if self.live:
            self._throttle.now()

    @contextmanager
    def waiting_for_approval(self, call: FunctionCall) -> Iterator[Callable[[dict[str, Any]], None]]:
        """Show that the call is waiting for approval. Yields a function that shows edited arguments."""
        key = asking_call_id(call)
        with self.transcript.call_waits(key, stays=isinstance(call, Question)):
            self._throttle.now()
            yield partial(self.transcript.show_edited, key)
        self._throttle.now()

    def close(self) -> None:
        """Show the final state."""
        self._throttle.now()

    def _paint(self) -> int:
        """Show the bundles that changed. Bundles removed by a retry become empty."""
        bundles, sent = self._bundles(), 0
        gone = [{"text/html": "", "text/plain": ""}] * (len(self._shown) - len(bundles))
        for index, bundle in enumerate([*bundles, *gone]):
            if self._shown[index : index + 1] != [bundle]:
                self._show(index, bundle)
                self._shown[index : index + 1] = [bundle]
                sent += sum(map(len, bundle.values()))
        return sent

    def _bundles(self) -> list[MimeBundle]:
        transcript = self.transcript
        try:
            if not self.live:
                return [{"text/html": transcript.html(), "text/plain": transcript.plain()}]
            bundles = transcript.bundles()
        except Exception:  # the run must continue even if its display fails
            log.exception("the transcript can't be shown as HTML")
            plain = transcript.plain()
            bundles = [{"text/html": f"<pre>{render.escape(plain)}</pre>", "text/plain": plain}]
        if transcript.over:
            return bundles
        return [{**bundle, "text/plain": shortened(bundle["text/plain"], PLAIN_CHARS)} for bundle in bundles]


class TerminalView:
    """Shows a transcript in a terminal. Text is printed as it arrives, and everything else as complete lines, because a
    terminal can't be repainted.
    """

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self._in_line = False

    def feed(self, event: Event) -> None:
        """Print the new text."""
        self.transcript.feed(event)
        match event:
            case events.Text():
                self._print(event.content, end="")
            case events.ToolCall() | events.ChildEvent():
                self._print_call(event)
            case events.ToolResult() if plan := plan_in(event):
                self._print("\n".join(checklist_lines(plan)))
            case events.ToolResult():
                self._print(f"  {render.shortened_with_note(event.content, 200)}")
            case events.TurnStarted() if name := self.transcript.new_speaker:
                self._print(f"{name}:")
            case events.TurnDone(response=LLMResponse(metadata=dict() as about)):
                for part in about.get("parts", ()):
                    if part.get("type") == "image":
                        self._print(image_note(part))
                if citations := about.get("citations"):
                    self._print(sources_text(citations, numbered(citations)))
            case events.Retry() | events.Context() | events.ValidationError(tool_name=None):
                self._print(notice_text(event))
            case events.Done(result=AgentResult(status_reason=str(reason))):
                self._print(reason)

    def _print_call(self, event: Event, indent: str = "") -> None:
        """Print a tool call of the agent or of a subagent."""
        match event:
            case events.ChildEvent(event=inner):
                self._print_call(inner, f"{indent}  ")
            case events.ToolCall() if event.tool_name != UPDATE_PLAN:
                self._print(f"{indent}▸ {render.format_call(event.tool_name or '', event.tool_arguments)}")

    def close(self) -> None:
        """Print the footer."""
        self._print(self.transcript.plain().rpartition("\n")[2])

    def _print(self, text: str, end: str = "\n") -> None:
        lead = "\n" if self._in_line and end else ""
        print(f"{lead}{render.printable(text)}", end=end, flush=True)
        self._in_line = not end

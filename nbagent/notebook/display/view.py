"""How a cell shows a transcript: in displays that are kept fresh at most 15 times a second; in a terminal, as lines.

Each segment has a display of its own, so that what is complete is not drawn again: a call that a reader has unfolded
stays open while the answer streams.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from nbagent.core import events
from nbagent.core.content.images import image_note
from nbagent.core.events import Event
from nbagent.core.messages import FunctionCall, LLMResponse
from nbagent.core.render import markdown as render
from nbagent.notebook.display.transcript import Bundle, Transcript
from nbagent.text import shortened

log = logging.getLogger("nbagent")

#: Seconds between two updates of a display; grows with the size of what is shown.
INTERVAL = 1 / 15
#: Seconds without painting for each second of it: Markdown can be made to take long.
PAUSE = 4
#: Characters a second that a display may send while it streams, and those of a message around what is shown.
BYTES_PER_SECOND, OVERHEAD = 32_000, 800
#: Characters of plain text in an update: those who see it have the whole of it at the end.
PLAIN = 1_000


class Throttle:
    """Calls `paint` when there is something new, at most 15 times a second, and less often where painting costs much.

    `paint()` returns the characters that it sent. All calls come from one event loop.
    """

    def __init__(self, paint: Callable[[], int]) -> None:
        self._paint = paint
        self._next = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def touch(self) -> None:
        """Something is new: paint it, now or a little later."""
        if self._timer is not None:
            return
        wait = self._next - monotonic()
        if wait <= 0:
            self.now()
        else:
            self._timer = asyncio.get_running_loop().call_later(wait, self.now)

    def now(self) -> None:
        """Paint at once."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        began = monotonic()
        size = self._paint()
        ended = monotonic()
        self._next = ended + max(INTERVAL, (size + OVERHEAD) / BYTES_PER_SECOND, PAUSE * (ended - began))


class CellView:
    """Shows a transcript in the running cell, through displays that are updated in place.

    `show(index, bundle)` makes the next display, or updates the one with this index. Where nobody watches
    (`live=False`: nbclient, nbval) there is one display, at the end.
    """

    def __init__(self, transcript: Transcript, show: Callable[[int, Bundle], Any], *, live: bool = True) -> None:
        self.transcript = transcript
        self._show = show
        self._live = live
        self._shown: list[Bundle] = []
        self._throttle = Throttle(self._paint)

    def feed(self, event: Event) -> None:
        """Take one event, and repaint if it is time to."""
        self.transcript.feed(event)
        if not self._live:
            return
        if isinstance(event, events.ToolStarted):
            self._throttle.now()  # so that what the tool shows stands below its call
        else:
            self._throttle.touch()

    @contextmanager
    def asking(self, call: FunctionCall) -> Iterator[None]:
        """Meanwhile a person is asked whether this call may run, which is shown."""
        with self.transcript.asking(call):
            self._throttle.now()
            yield
        self._throttle.now()

    def close(self) -> None:
        """The final state, always shown."""
        self._throttle.now()

    def _paint(self) -> int:
        """Show the bundles that changed; those that are gone, after a retry, become empty."""
        bundles, sent = self._bundles(), 0
        gone = [{"text/html": "", "text/plain": ""}] * (len(self._shown) - len(bundles))
        for index, bundle in enumerate([*bundles, *gone]):
            if self._shown[index : index + 1] != [bundle]:
                self._show(index, bundle)
                self._shown[index : index + 1] = [bundle]
                sent += sum(map(len, bundle.values()))
        return sent

    def _bundles(self) -> list[Bundle]:
        transcript = self.transcript
        try:
            if not self._live:
                return [{"text/html": transcript.html(), "text/plain": transcript.plain()}]
            bundles = transcript.bundles()
        except Exception:  # whatever is wrong with the picture, the run must go on
            log.exception("the transcript can't be shown as HTML")
            plain = transcript.plain()
            bundles = [{"text/html": f"<pre>{render.escape(plain)}</pre>", "text/plain": plain}]
        if transcript.over:
            return bundles
        return [{**bundle, "text/plain": shortened(bundle["text/plain"], PLAIN)} for bundle in bundles]


class TerminalView:
    """The same transcript in a terminal, where nothing can be repainted: text as it comes, the rest as lines."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self._open = False

    def feed(self, event: Event) -> None:
        """Print what is new."""
        self.transcript.feed(event)
        match event:
            case events.Text():
                self._write(event.content, end="")
            case events.ToolCall():
                self._write(f"▸ {render.format_call(event.tool_name or '', event.tool_arguments)}")
            case events.ToolResult():
                self._write(f"  {render.shortened_with_note(event.content, 200)}")
            case events.TurnDone(response=LLMResponse(metadata={"parts": parts})):
                for part in parts:
                    if part.get("type") == "image":
                        self._write(image_note(part))
            case events.Retry() | events.Limit():
                self._write(event.content)

    def close(self) -> None:
        """The footer."""
        self._write(self.transcript.plain().rpartition("\n")[2])

    def _write(self, text: str, end: str = "\n") -> None:
        lead = "\n" if self._open and end else ""
        print(f"{lead}{render.printable(text)}", end=end, flush=True)
        self._open = not end

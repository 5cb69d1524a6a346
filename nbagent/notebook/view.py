"""What a cell shows of a run: thinking and tool calls collapsed, the answer as Markdown, a footer with what it cost.

`Transcript` turns events into HTML and plain text and knows nothing of Jupyter; `CellView` puts a transcript into one
display and keeps it fresh at most 15 times a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from nbagent.core import events, render
from nbagent.core.events import Event
from nbagent.core.images import Image, note
from nbagent.core.messages import LLMResponse, Usage
from nbagent.notebook.tool_call import picture, pictures, tool_call_html

log = logging.getLogger("nbagent")

#: Seconds between two updates of a display; grows with the size of what is shown.
INTERVAL = 1 / 15
#: Seconds without painting for each second of it: Markdown can be made to take long.
PAUSE = 4
#: Characters a second that a display may send while it streams, and those of a message around what is shown.
BYTES_PER_SECOND, OVERHEAD = 32_000, 800
#: Characters of plain text in an update: those who see it have the whole of it at the end.
PLAIN = 1_000
#: Characters of thinking that a display shows; the trace has the whole.
THINKING = 20_000


@dataclass(slots=True)
class Segment:
    """A stretch of the transcript: `text`, `thinking`, `tool` or `image`; `key` is the tool call's id.

    The text of an image is a note about it; `image` is there where it can be shown.
    """

    kind: str
    pieces: list[str] = field(default_factory=list)
    key: str = ""
    event: Event | None = None
    result: events.ToolResult | None = None
    image: Image | None = None
    started: float = 0.0
    duration: float | None = None
    html: str | None = None  # kept once nothing can change any more
    settled: list[str] = field(default_factory=list)  # HTML of the text's first blocks, which stay as they are
    settled_chars: int = 0
    is_folded: bool = False

    @property
    def text(self) -> str:
        """The text so far."""
        if len(self.pieces) > 1:
            self.pieces[:] = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""


class Transcript:
    """The state of one run's display. Feed it events; ask it for `html()` and `plain()`.

    `as_html` makes safe HTML of the answer's text.
    """

    def __init__(self, *, timings: bool = True, as_html: Callable[[str], str] = render.safe_html) -> None:
        self.timings = timings
        self._as_html = as_html
        self.segments: list[Segment] = []
        self.status = ""
        self.note = ""
        self.over = False
        self._turn_start = 0
        self._model = ""
        self._usage = Usage()
        self._cost: float | None = 0.0
        self._started = monotonic()
        self._footer: list[str] = []
        self._ending = ""

    def feed(self, event: Event) -> None:
        """Take one event."""
        match event:
            case events.TurnStarted():
                self._turn_start = len(self.segments)
                self._model = str(event.metadata.get("model") or "")
                self.status = f"waiting for {self._model}"
            case events.Text() | events.Thinking():
                self._grow(event.type, event.content)
            case events.TurnDone(response=LLMResponse(metadata={"parts": parts})):
                self._place_images(parts)
            case events.ToolCall():
                self._end_segment()
                self.segments.append(Segment("tool", key=event.metadata["tool_call_id"], event=event))
            case events.ToolStarted():
                self.status = f"running {event.tool_name}"
            case events.ToolResult():
                self._take_result(event)
            case events.Retry():
                del self.segments[self._turn_start :]
                self.status = event.content or "trying again"
            case events.Http() | events.Context():
                self.status = event.content or self.status
            case events.UsageReport():
                self._count(event)
            case events.Limit():
                self._ending = event.content
            case events.Done() | events.Error():
                self._end()

    def interrupted(self) -> None:
        """The run was cancelled: what is there stays, and says so."""
        self._ending = "Interrupted."
        self._end()

    def fold(self) -> None:
        """Put the answer's text away: what it was turned into is shown elsewhere."""
        for segment in reversed(self.segments):
            if segment.kind == "text":
                segment.html, segment.is_folded = None, True
                return

    def place(self, part: dict[str, Any]) -> None:
        """An image that a tool drew, here."""
        self._end_segment()
        self.segments.append(Segment("image", [note(part)], image=Image.from_part(part), duration=0.0))

    def _grow(self, kind: str, text: str) -> None:
        self.status = ""
        if not self.segments or self.segments[-1].kind != kind or len(self.segments) <= self._turn_start:
            self._end_segment()
            self.segments.append(Segment(kind, started=monotonic()))
        self.segments[-1].pieces.append(text)

    def _place_images(self, parts: list[dict[str, Any]]) -> None:
        """The turn's text anew, with the images of the answer in their places."""
        self._end_segment()
        shown = [segment for segment in self.segments[self._turn_start :] if segment.kind != "text"]
        for part in parts:
            if part.get("type") == "image":
                shown.append(Segment("image", [note(part)], image=Image.from_part(part)))
            else:
                shown.append(Segment("text", [part.get("text", "")]))
        self.segments[self._turn_start :] = shown

    def _end_segment(self) -> None:
        if self.segments and self.segments[-1].duration is None:
            self.segments[-1].duration = monotonic() - self.segments[-1].started

    def _take_result(self, event: events.ToolResult) -> None:
        self.status = ""
        for segment in self.segments:
            if segment.key == event.metadata["tool_call_id"]:
                segment.result, segment.html = event, None

    def _count(self, event: Event) -> None:
        numbers = {key: event.metadata.get(key) or 0 for key in Usage().to_dict()}
        self._usage += Usage(**numbers)
        cost = event.metadata.get("cost_usd")
        self._cost = None if cost is None or self._cost is None else self._cost + cost

    def _end(self) -> None:
        self.status, self.over = "", True
        self._end_segment()
        usage = self._usage
        cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
        seconds = monotonic() - self._started
        self._footer = [self._model] if self._model else []
        if usage.total_tokens:
            self._footer += [f"{usage.input_tokens:,} in{cached}", f"{usage.output_tokens:,} out"]
            if self._cost:
                self._footer.append(f"${self._cost:.4f}")
        if self.timings:
            self._footer.append(f"{seconds:.1f} s")
        if self.note:
            self._footer.append(self.note)

    def html(self) -> str:
        """The whole transcript as one safe HTML page fragment.

        Images are in it once the run is over: until then everything is sent again with each update.
        """
        said = [segment.text for segment in self.segments if segment.kind == "text"]
        formulas = any("$" in text or "\\" in text for text in said)
        return render.page("".join(self._shown(images=self.over)), formulas=formulas)

    def parts(self) -> list[str]:
        """The same in pieces, without the style: as the run goes on only the last ones change."""
        return self._shown(images=True)

    def _shown(self, *, images: bool) -> list[str]:
        pieces = [piece for segment in self.segments for piece in self._pieces(segment, images)]
        return [*pieces, closing] if (closing := self._closing_html()) else pieces

    def _pieces(self, segment: Segment, images: bool) -> list[str]:
        if segment.kind == "text":
            pieces = self._text_pieces(segment)
            folded = '<span class="nbagent-quiet">Answer</span>'
            return [render.details(folded, "", "".join(pieces))] if segment.is_folded else pieces
        if segment.kind == "image":
            return [_image_html(segment, images)]
        if segment.html is None:
            made = self._tool_html(segment) if segment.kind == "tool" else self._thinking_html(segment)
            if (segment is self.segments[-1] or segment.kind == "tool") and not segment.result and not self.over:
                return [made]
            segment.html = made
        return [segment.html, *(pictures(segment.result) if images else [])]

    def _text_pieces(self, segment: Segment) -> list[str]:
        while cut := render.settled(segment.text[segment.settled_chars :]):
            self._settle(segment, cut)
        rest = segment.text[segment.settled_chars :]
        if self.over or segment is not self.segments[-1]:
            self._settle(segment, len(rest))
            rest = ""
            if len(segment.settled) > 1 and render.has_definitions(segment.text):
                segment.settled[:] = [self._as_html(segment.text)]
        return [*segment.settled, self._as_html(rest)] if rest else segment.settled

    def _settle(self, segment: Segment, chars: int) -> None:
        begin, segment.settled_chars = segment.settled_chars, segment.settled_chars + chars
        if chars:
            segment.settled.append(self._as_html(segment.text[begin : segment.settled_chars]))

    def _closing_html(self) -> str:
        closing = render.quiet(f"{self.status}…" if self.status else "") + render.quiet(self._ending)
        if self._footer:
            spans = "".join(f"<span>{render.escape(item)}</span>" for item in self._footer)
            closing += f'<div class="nbagent-foot {render.NO_TEX}">{spans}</div>'
        return closing

    def plain(self) -> str:
        """The same as readable text, for terminals and for hosts without HTML."""
        lines = []
        for segment in self.segments:
            if segment.kind == "tool" and segment.event is not None:
                lines.append(f"▸ {render.signature(segment.event.tool_name or '', segment.event.tool_arguments)}")
                if segment.result is not None:
                    lines.append(f"  {render.preview(segment.result.content, 200)}")
            elif segment.kind in ("text", "image"):
                lines.append(segment.text)
        lines += [line for line in (f"{self.status}…" if self.status else "", self._ending) if line]
        if self._footer:
            lines.append(f"[{' · '.join(self._footer)}]")
        return render.legible("\n".join(lines))

    def _thinking_html(self, segment: Segment) -> str:
        took = f" for {segment.duration:.1f} s" if self.timings and (segment.duration or 0) >= 0.1 else ""
        head = "Thinking…" if segment.duration is None else f"Thought{took}"
        body = f"<pre>{render.escape(render.preview(segment.text, THINKING, ': see agent.trace.thinking'))}</pre>"
        return render.details(f'<span class="nbagent-quiet">{head}</span>', "", body)

    def _tool_html(self, segment: Segment) -> str:
        if segment.event is None:
            return ""
        return tool_call_html(segment.event, segment.result, over=self.over, timings=self.timings)


def _image_html(segment: Segment, shown: bool) -> str:
    if segment.image is not None and shown:
        return picture(segment.image, segment.text)
    return render.quiet(segment.text)


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
    """Shows a transcript in the running cell, through one display that is updated in place.

    `show` is called with a mimebundle, and with the handle's `update` from the second time on. Where nobody watches
    (`live=False`: nbclient, nbval) there is one final display.
    """

    def __init__(self, transcript: Transcript, show: Callable[[dict[str, str]], Any], *, live: bool = True) -> None:
        self.transcript = transcript
        self._show = show
        self._live = live
        self._throttle = Throttle(self._paint)

    def feed(self, event: Event) -> None:
        """Take one event, and repaint if it is time to."""
        self.transcript.feed(event)
        if self._live:
            self._throttle.touch()

    def close(self) -> None:
        """The final state, always shown."""
        self._throttle.now()

    def _paint(self) -> int:
        plain = self.transcript.plain()
        if not self.transcript.over:
            plain = render.shortened(plain, PLAIN)
        try:
            html = self.transcript.html()
        except Exception:  # whatever is wrong with the picture, the run must go on
            log.exception("the transcript can't be shown as HTML")
            html = f"<pre>{render.escape(plain)}</pre>"
        self._show({"text/html": html, "text/plain": plain})
        return len(html) + len(plain)


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
                self._write(f"▸ {render.signature(event.tool_name or '', event.tool_arguments)}")
            case events.ToolResult():
                self._write(f"  {render.preview(event.content, 200)}")
            case events.TurnDone(response=LLMResponse(metadata={"parts": parts})):
                for part in parts:
                    if part.get("type") == "image":
                        self._write(note(part))
            case events.Retry() | events.Limit():
                self._write(event.content)

    def close(self) -> None:
        """The footer."""
        self._write(self.transcript.plain().rpartition("\n")[2])

    def _write(self, text: str, end: str = "\n") -> None:
        lead = "\n" if self._open and end else ""
        print(f"{lead}{render.legible(text)}", end=end, flush=True)  # noqa: T201  a terminal's display is its standard output
        self._open = not end

"""What is shown of a run: thinking and tool calls collapsed, the answer as Markdown, a footer with what it cost.

`Transcript` turns events into HTML and plain text, for cells (`view`) and panels, and knows nothing of Jupyter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from nbagent.core import events
from nbagent.core.content.images import Image, image_note
from nbagent.core.events import Event
from nbagent.core.messages import FunctionCall, LLMResponse, Usage
from nbagent.core.render import markdown as render
from nbagent.notebook.display.tool_call import picture, pictures, tool_call_html

#: Characters of thinking that a display shows; the trace has the whole.
THINKING = 20_000
#: Displays of one run; JupyterLab folds away all after the fiftieth of a cell. The last one has all the rest.
MOST_DISPLAYS = 30

Bundle = dict[str, str]


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

    def __init__(self, *, timings: bool = True, as_html: Callable[[str], str] = render.markdown_to_html) -> None:
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
        self._asked: list[FunctionCall] = []

    def feed(self, event: Event) -> None:
        """Take one event."""
        match event:
            case events.TurnStarted():
                self._turn_start = len(self.segments)
                self._model = str(event.metadata.get("model") or "")
                self.status = f"waiting for {self._model}"
            case events.Text() | events.Thinking():
                self._grow(event.type, event.content, event.metadata.get("duration_s"))
            case events.TurnDone(response=LLMResponse(metadata={"parts": parts})):
                self._place_images(parts)
            case events.ToolCall():
                self.status = ""
                self._end_segment()
                self.segments.append(Segment("tool", key=event.metadata["tool_call_id"], event=event))
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
                self._end(event.metadata.get("duration_s"))

    @contextmanager
    def asking(self, call: FunctionCall) -> Iterator[None]:
        """Meanwhile a person is asked whether this call may run."""
        self._asked.append(call)
        try:
            yield
        finally:
            self._asked.remove(call)

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
        self.segments.append(Segment("image", [image_note(part)], image=Image.from_part(part), duration=0.0))

    def _grow(self, kind: str, text: str, seconds: float | None) -> None:
        """`seconds` is how long it took, where it is told again."""
        self.status = ""
        if not self.segments or self.segments[-1].kind != kind or len(self.segments) <= self._turn_start:
            self._end_segment()
            self.segments.append(Segment(kind, started=monotonic()))
        self.segments[-1].pieces.append(text)
        self.segments[-1].duration = seconds

    def _place_images(self, parts: list[dict[str, Any]]) -> None:
        """The turn's text anew, with the images of the answer in their places."""
        self._end_segment()
        shown = [segment for segment in self.segments[self._turn_start :] if segment.kind != "text"]
        for part in parts:
            if part.get("type") == "image":
                shown.append(Segment("image", [image_note(part)], image=Image.from_part(part)))
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

    def _end(self, seconds: float | None = None) -> None:
        self.status, self.over = "", True
        self._end_segment()
        usage = self._usage
        cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
        seconds = monotonic() - self._started if seconds is None else seconds
        self._footer = [self._model] if self._model else []
        if usage.total_tokens:
            self._footer += [f"{usage.input_tokens:,} in{cached}", f"{usage.output_tokens:,} out"]
            if self._cost:
                self._footer.append(f"${self._cost:.4f}")
        if self.timings:
            self._footer.append(render.format_duration(seconds))
        if self.note:
            self._footer.append(self.note)

    def html(self) -> str:
        """The whole transcript as one safe HTML page fragment."""
        return self._page(self.segments, self._closing_html())

    def parts(self) -> list[str]:
        """The same in pieces, without the style: as the run goes on only the last ones change."""
        pieces = [piece for segment in self.segments for piece in self._pieces(segment)]
        return [*pieces, closing] if (closing := self._closing_html()) else pieces

    def bundles(self) -> list[Bundle]:
        """The same as mimebundles, one for each segment; the first has the style for all.

        What closes the run stands with the text before it, or by itself.
        """
        groups = [[segment] for segment in self.segments[: MOST_DISPLAYS - 1]]
        if rest := self.segments[MOST_DISPLAYS - 1 :]:
            groups.append(rest)
        closing, lines = self._closing_html(), self._closing_lines()
        if closing and (not groups or groups[-1][-1].kind != "text"):
            groups.append([])
        bundles: list[Bundle] = []
        for group in groups:
            is_last = group is groups[-1]
            page = self._page(group, closing if is_last else "", style=not bundles)
            bundles.append({"text/html": page, "text/plain": self._plain(group, lines if is_last else [])})
        return bundles

    def _page(self, segments: list[Segment], closing: str, *, style: bool = True) -> str:
        said = [segment.text for segment in segments if segment.kind == "text"]
        formulas = any("$" in text or "\\" in text for text in said)
        pieces = [piece for segment in segments for piece in self._pieces(segment)]
        return render.output_html("".join([*pieces, closing]), formulas=formulas, style=style)

    def _pieces(self, segment: Segment) -> list[str]:
        if segment.kind == "text":
            pieces = self._text_pieces(segment)
            folded = '<span class="nbagent-quiet">Answer</span>'
            return [render.details_html(folded, "", "".join(pieces))] if segment.is_folded else pieces
        if segment.kind == "image":
            return [_image_html(segment)]
        if segment.html is None:
            made = self._tool_html(segment) if segment.kind == "tool" else self._thinking_html(segment)
            if (segment is self.segments[-1] or segment.kind == "tool") and not segment.result and not self.over:
                return [made]
            segment.html = made
        return [segment.html, *pictures(segment.result)]

    def _text_pieces(self, segment: Segment) -> list[str]:
        while cut := render.stable_prefix_length(segment.text[segment.settled_chars :]):
            self._settle(segment, cut)
        rest = segment.text[segment.settled_chars :]
        if self.over or segment is not self.segments[-1]:
            self._settle(segment, len(rest))
            rest = ""
            if len(segment.settled) > 1 and render.has_link_definitions(segment.text):
                segment.settled[:] = [self._as_html(segment.text)]
        return [*segment.settled, self._as_html(rest)] if rest else segment.settled

    def _settle(self, segment: Segment, chars: int) -> None:
        begin, segment.settled_chars = segment.settled_chars, segment.settled_chars + chars
        if chars:
            segment.settled.append(self._as_html(segment.text[begin : segment.settled_chars]))

    def _closing_html(self) -> str:
        closing = render.note_html(f"{self.status}…" if self.status else "") + render.note_html(self._ending)
        if self._footer:
            spans = "".join(f"<span>{render.escape(item)}</span>" for item in self._footer)
            closing += f'<div class="nbagent-foot {render.NO_TEX}">{spans}</div>'
        return closing

    def plain(self) -> str:
        """The same as readable text, for terminals and for hosts without HTML."""
        return self._plain(self.segments, self._closing_lines())

    def _plain(self, segments: list[Segment], closing: list[str]) -> str:
        lines = [line for segment in segments for line in self._lines(segment)]
        return render.printable("\n".join([*lines, *closing]))

    def _lines(self, segment: Segment) -> list[str]:
        if segment.kind == "tool" and segment.event is not None:
            call = f"▸ {render.format_call(segment.event.tool_name or '', segment.event.tool_arguments)}"
            if segment.result is None:
                return [f"{call} {self._state(segment)}"]
            return [call, f"  {render.shortened_with_note(segment.result.content, 200)}"]
        return [segment.text] if segment.kind in ("text", "image") else []

    def _closing_lines(self) -> list[str]:
        lines = [line for line in (f"{self.status}…" if self.status else "", self._ending) if line]
        return [*lines, f"[{' · '.join(self._footer)}]"] if self._footer else lines

    def _state(self, segment: Segment) -> str:
        """What goes on with a call that has no result."""
        if self.over:
            return "interrupted"
        wire_id = segment.event.metadata.get("wire_id") if segment.event is not None else None
        return "waiting for you…" if any(call.id == wire_id for call in self._asked) else "running…"

    def _thinking_html(self, segment: Segment) -> str:
        took = f" for {segment.duration:.1f} s" if self.timings and (segment.duration or 0) >= 0.1 else ""
        head = "Thinking…" if segment.duration is None else f"Thought{took}"
        text = render.shortened_with_note(segment.text, THINKING, ": see agent.trace.thinking")
        body = f"<pre>{render.escape(text)}</pre>"
        return render.details_html(f'<span class="nbagent-quiet">{head}</span>', "", body)

    def _tool_html(self, segment: Segment) -> str:
        if segment.event is None:
            return ""
        return tool_call_html(segment.event, segment.result, state=self._state(segment), timings=self.timings)


def _image_html(segment: Segment) -> str:
    if segment.image is not None:
        return picture(segment.image, segment.text)
    return render.note_html(segment.text)

"""What a cell or panel shows of a run: folded thinking and tool calls, the answer as Markdown, a footer with the cost.

`Transcript` turns events into HTML and plain text. It knows nothing about Jupyter; `view` displays it.
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
from nbagent.notebook.display.tool_call import image_html, result_images_html, tool_call_html

#: Characters of thinking that are shown; the trace has all of it.
THINKING_CHARS = 20_000
#: Displays of one run: JupyterLab folds all after the fiftieth of a cell. The last one holds the rest of the run.
MAX_DISPLAYS = 30

MimeBundle = dict[str, str]


@dataclass(slots=True)
class Segment:
    """A part of the transcript: `text`, `thinking`, `tool` or `image`. `key` is the id of the tool call.

    The text of an image segment is a note about it; `image` is None if the image can't be shown.
    """

    kind: str
    pieces: list[str] = field(default_factory=list)
    key: str = ""
    event: Event | None = None
    result: events.ToolResult | None = None
    image: Image | None = None
    started: float = 0.0
    duration: float | None = None
    html: str | None = None  # cached once nothing can change any more
    stable_html: list[str] = field(default_factory=list)  # of the text's first blocks, which can't change any more
    stable_chars: int = 0
    is_folded: bool = False

    @property
    def text(self) -> str:
        """The text so far."""
        if len(self.pieces) > 1:
            self.pieces[:] = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""


class Transcript:
    """The state of one run's display. Feed it events, then read `html()` and `plain()`.

    `as_html` turns the text of the answer into safe HTML.
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
        self._waiting: list[FunctionCall] = []

    # -- events -------------------------------------------------------------------------------------------------------

    def feed(self, event: Event) -> None:
        """Take one event."""
        match event:
            case events.TurnStarted():
                self._turn_start = len(self.segments)
                self._model = str(event.metadata.get("model") or "")
                self.status = f"waiting for {self._model}"
            case events.Text() | events.Thinking():
                self._add_text(event)
            case events.TurnDone(response=LLMResponse(metadata={"parts": parts})):
                self._place_images(parts)
            case events.ToolCall():
                self.status = ""
                self._add(Segment("tool", key=event.metadata["tool_call_id"], event=event))
            case events.ToolResult():
                self._add_result(event)
            case events.Retry():
                del self.segments[self._turn_start :]
                self.status = event.content or "trying again"
            case events.Http() | events.Context():
                self.status = event.content or self.status
            case events.UsageReport():
                self._usage += Usage(**{key: event.metadata.get(key) or 0 for key in Usage().to_dict()})
                cost = event.metadata.get("cost_usd")
                self._cost = None if cost is None or self._cost is None else self._cost + cost
            case events.Limit():
                self._ending = event.content
            case events.Done() | events.Error():
                self._end(event.metadata.get("duration_s"))

    @contextmanager
    def waiting_for_approval(self, call: FunctionCall) -> Iterator[None]:
        """Show in the block that the call waits for a person's approval."""
        self._waiting.append(call)
        try:
            yield
        finally:
            self._waiting.remove(call)

    def mark_interrupted(self) -> None:
        """The run was cancelled: keep what is there and say so."""
        self._ending = "Interrupted."
        self._end()

    def fold_answer(self) -> None:
        """Fold the text of the answer, since the cell returns the value made from it."""
        for segment in reversed(self.segments):
            if segment.kind == "text":
                segment.html, segment.is_folded = None, True
                return

    def add_image(self, part: dict[str, Any]) -> None:
        """Add an image that a tool drew."""
        self._add(Segment("image", [image_note(part)], image=Image.from_part(part), duration=0.0))

    def _add(self, segment: Segment) -> None:
        self._end_segment()
        self.segments.append(segment)

    def _add_text(self, event: Event) -> None:
        self.status = ""
        if len(self.segments) <= self._turn_start or self.segments[-1].kind != event.type:
            self._add(Segment(event.type, started=monotonic()))
        self.segments[-1].pieces.append(event.content)
        self.segments[-1].duration = event.metadata.get("duration_s")  # known for a turn that is over

    def _add_result(self, event: events.ToolResult) -> None:
        self.status = ""
        for segment in self.segments:
            if segment.key == event.metadata["tool_call_id"]:
                segment.result, segment.html = event, None

    def _end_segment(self) -> None:
        if self.segments and self.segments[-1].duration is None:
            self.segments[-1].duration = monotonic() - self.segments[-1].started

    def _place_images(self, parts: list[dict[str, Any]]) -> None:
        """Replace the text of the turn by the parts of the answer, so that its images stand between its text."""
        self._end_segment()
        shown = [segment for segment in self.segments[self._turn_start :] if segment.kind != "text"]
        for part in parts:
            if part.get("type") == "image":
                shown.append(Segment("image", [image_note(part)], image=Image.from_part(part)))
            else:
                shown.append(Segment("text", [part.get("text", "")]))
        self.segments[self._turn_start :] = shown

    def _end(self, seconds: float | None = None) -> None:
        self.status, self.over = "", True
        self._end_segment()
        usage = self._usage
        cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
        seconds = monotonic() - self._started if seconds is None else seconds
        tokens = [f"{usage.input_tokens:,} in{cached}", f"{usage.output_tokens:,} out"] if usage.total_tokens else []
        cost = f"${self._cost:.4f}" if tokens and self._cost else ""
        duration = render.format_duration(seconds) if self.timings else ""
        self._footer = [item for item in (self._model, *tokens, cost, duration, self.note) if item]

    # -- HTML ---------------------------------------------------------------------------------------------------------

    def html(self) -> str:
        """The whole transcript as one safe HTML fragment."""
        return self._output_html(self.segments, self._closing_html())

    def parts(self) -> list[str]:
        """The same in pieces, without the style. While the run goes on, only the last ones change."""
        pieces = [piece for segment in self.segments for piece in self._pieces(segment)]
        return [*pieces, closing] if (closing := self._closing_html()) else pieces

    def bundles(self) -> list[MimeBundle]:
        """The same as mimebundles, one for each segment. The first one has the style.

        The status or the footer follows the text in the last bundle, or has a bundle of its own.
        """
        groups = [[segment] for segment in self.segments[: MAX_DISPLAYS - 1]]
        if rest := self.segments[MAX_DISPLAYS - 1 :]:
            groups.append(rest)
        closing, lines = self._closing_html(), self._closing_lines()
        if closing and (not groups or groups[-1][-1].kind != "text"):
            groups.append([])
        bundles: list[MimeBundle] = []
        for group in groups:
            is_last = group is groups[-1]
            page = self._output_html(group, closing if is_last else "", style=not bundles)
            bundles.append({"text/html": page, "text/plain": self._plain(group, lines if is_last else [])})
        return bundles

    def _output_html(self, segments: list[Segment], closing: str, *, style: bool = True) -> str:
        texts = [segment.text for segment in segments if segment.kind == "text"]
        formulas = any("$" in text or "\\" in text for text in texts)
        pieces = [piece for segment in segments for piece in self._pieces(segment)]
        return render.output_html("".join([*pieces, closing]), formulas=formulas, style=style)

    def _pieces(self, segment: Segment) -> list[str]:
        if segment.kind == "text":
            pieces = self._text_pieces(segment)
            folded = '<span class="nbagent-quiet">Answer</span>'
            return [render.details_html(folded, "", "".join(pieces))] if segment.is_folded else pieces
        if segment.kind == "image":
            image = segment.image
            return [image_html(image, segment.text) if image is not None else render.note_html(segment.text)]
        if segment.html is None:
            block = self._block_html(segment)
            if (segment is self.segments[-1] or segment.kind == "tool") and not segment.result and not self.over:
                return [block]
            segment.html = block
        return [segment.html, *result_images_html(segment.result)]

    def _block_html(self, segment: Segment) -> str:
        """A folded tool call, or folded thinking."""
        if segment.event is not None:
            state = self._state(segment)
            return tool_call_html(segment.event, segment.result, state=state, timings=self.timings)
        took = f" for {segment.duration:.1f} s" if self.timings and (segment.duration or 0) >= 0.1 else ""
        head = "Thinking…" if segment.duration is None else f"Thought{took}"
        text = render.shortened_with_note(segment.text, THINKING_CHARS, ": see agent.trace.thinking")
        return render.details_html(
            f'<span class="nbagent-quiet">{head}</span>', "", f"<pre>{render.escape(text)}</pre>"
        )

    def _text_pieces(self, segment: Segment) -> list[str]:
        """The blocks that can't change any more, each rendered once, then the rest of the text."""
        while length := render.stable_prefix_length(segment.text[segment.stable_chars :]):
            self._keep_stable(segment, length)
        rest = segment.text[segment.stable_chars :]
        if self.over or segment is not self.segments[-1]:
            self._keep_stable(segment, len(rest))
            rest = ""
            if len(segment.stable_html) > 1 and render.has_link_definitions(segment.text):
                segment.stable_html[:] = [self._as_html(segment.text)]  # a link may be defined after its use
        return [*segment.stable_html, self._as_html(rest)] if rest else segment.stable_html

    def _keep_stable(self, segment: Segment, chars: int) -> None:
        begin, segment.stable_chars = segment.stable_chars, segment.stable_chars + chars
        if chars:
            segment.stable_html.append(self._as_html(segment.text[begin : segment.stable_chars]))

    def _closing_html(self) -> str:
        """The status while the run goes on, then how it ended and the footer."""
        closing = render.note_html(f"{self.status}…" if self.status else "") + render.note_html(self._ending)
        if self._footer:
            spans = "".join(f"<span>{render.escape(item)}</span>" for item in self._footer)
            closing += f'<div class="nbagent-foot {render.NO_TEX}">{spans}</div>'
        return closing

    def _state(self, segment: Segment) -> str:
        """The state of a call that has no result."""
        if self.over:
            return "interrupted"
        wire_id = segment.event.metadata.get("wire_id") if segment.event is not None else None
        return "waiting for you…" if any(call.id == wire_id for call in self._waiting) else "running…"

    # -- plain text ---------------------------------------------------------------------------------------------------

    def plain(self) -> str:
        """The transcript as readable text, for terminals and for hosts without HTML."""
        return self._plain(self.segments, self._closing_lines())

    def _plain(self, segments: list[Segment], closing: list[str]) -> str:
        lines = [line for segment in segments for line in self._lines(segment)]
        return render.printable("\n".join([*lines, *closing]))

    def _lines(self, segment: Segment) -> list[str]:
        if segment.event is not None:
            call = f"▸ {render.format_call(segment.event.tool_name or '', segment.event.tool_arguments)}"
            if segment.result is None:
                return [f"{call} {self._state(segment)}"]
            return [call, f"  {render.shortened_with_note(segment.result.content, 200)}"]
        return [] if segment.kind == "thinking" else [segment.text]

    def _closing_lines(self) -> list[str]:
        lines = [line for line in (f"{self.status}…" if self.status else "", self._ending) if line]
        return [*lines, f"[{' · '.join(self._footer)}]"] if self._footer else lines

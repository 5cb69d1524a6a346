"""Renders a run for a cell or panel: folded thinking and tool calls, the formatted answer, and a footer with the cost.

`Transcript` turns events into HTML and plain text. It knows nothing about Jupyter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from time import monotonic, time
from typing import Any, NamedTuple

from nbagent.agent.plan import UPDATE_PLAN, Step, plan_in
from nbagent.chat.checklist import checklist_html, checklist_lines
from nbagent.chat.tool_call import (
    displayed_in,
    group_html,
    image_html,
    last_line,
    outputs_html,
    printed_in,
    result_images_html,
    tool_call_html,
)
from nbagent.core import events
from nbagent.core.checking import reason_in
from nbagent.core.citations import Citation, numbered
from nbagent.core.content.images import image_note
from nbagent.core.events import Event
from nbagent.core.messages import Usage
from nbagent.core.render import markdown as render
from nbagent.core.render import sources
from nbagent.text import shortened

#: Characters of thinking that are shown. The trace has all of it.
THINKING_CHARS = 20_000
#: Characters at its end that are shown while it streams.
THINKING_TAIL = 1_200
#: Displays of one run: JupyterLab folds a cell's outputs after the fiftieth. The last one has the rest of the run.
MAX_DISPLAYS = 40

#: Runs of subagents that are shown below one call, and characters of their prompts. The trace has all of them.
MAX_RUNS, PROMPT_CHARS = 20, 80
MORE_RUNS = "and {:,} more: see agent.trace.tree()"

#: The state of a call that needs approval.
FOR_YOU = "waiting for you…"
#: A dot before the state of a running call, in the panel.
RUNS = '<span class="nbagent-runs"></span>'

MimeBundle = dict[str, str]


@dataclass(slots=True)
class Segment:
    """A part of the transcript. Its `kind` is `text`, `thinking`, `tool` or `fixed`, for `html` that never changes.

    `key` is the `tool_call_id`.
    """

    kind: str
    pieces: list[str] = field(default_factory=list)
    key: str = ""
    answer: int = 0  # the number of the model's answer that has the call; 0 if the call writes the plan
    event: Event | None = None
    result: events.ToolResult | None = None
    edited: dict[str, Any] | None = None  # the arguments that a person edited
    outputs: Sequence[Mapping[str, str]] = ()  # the tool's printed and displayed output
    progress: str = ""  # the tool's progress report
    fraction: float | None = None  # the same as a number from 0 to 1, if known
    children: dict[str, _Child] = field(default_factory=dict)  # the subagents' runs, by id
    n_more: int = 0  # how many more runs there are
    started: float = 0.0  # seconds since the epoch
    duration: float | None = None
    html: str | None = None  # cached once it is final
    #: HTML and end of each part of the text that is final.
    stable_html: list[str] = field(default_factory=list)
    stable_ends: list[int] = field(default_factory=list)
    is_folded: bool = False
    #: The plan that the call wrote. Later calls update it.
    plan: Sequence[Step] = ()
    #: The citation marks in the text, as Markdown.
    marks: set[str] = field(default_factory=set)

    def add_marks(self, marks: Mapping[int, Sequence[str]]) -> None:
        """Insert citation marks into the text."""
        self.pieces[:] = [sources.with_marks(self.text, marks)]
        self.stable_html.clear()
        self.stable_ends.clear()
        self.marks.update(mark for here in marks.values() for mark in here)

    def end_children(self) -> None:
        """Mark unfinished runs as interrupted, because the call has ended."""
        for child in self.children.values():
            if not child.over:
                child.mark_interrupted()

    def plain(self, text: str) -> str:
        """This part of the text, with its citation marks as plain text."""
        for mark in self.marks:
            text = text.replace(mark, sources.plain_mark(mark))
        return text

    @property
    def text(self) -> str:
        """The text so far."""
        if len(self.pieces) > 1:
            self.pieces[:] = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""


class _Block(NamedTuple):
    """The HTML and plain text of one display, and its Markdown."""

    page: str
    plain: str
    text: str


class Transcript:
    """The state of one run's display. Feed it events, then read `html()` and `plain()`.

    `outputs`: whether to show the tools' printed and displayed output. Set it to False for a cell, which shows the
    output anyway. `as_html` turns the answer's text into safe HTML. `timings`: whether to show values that differ from
    run to run, such as durations.
    """

    #: Whether the footer is part of its HTML.
    _has_footer = True

    def __init__(
        self,
        *,
        timings: bool = True,
        outputs: bool = True,
        as_html: Callable[[str], str] = render.markdown_to_html,
    ) -> None:
        self.timings = timings
        self.shows_outputs = outputs
        self.as_html = as_html
        self.segments: list[Segment] = []
        self.status = ""
        self.note = ""
        self.over = False
        self._turn_start = 0
        self._answers = 0
        self._sources: sources.Numbers = {}
        self._model = ""
        self._speaker: str | None = None
        #: The team member who has just started to speak; "" if unchanged.
        self.new_speaker = ""
        self._usage = Usage()
        self._cost: float | None = 0.0
        self._origin = ""  # the answer's origin, if readers must know it
        self._played = 0.0  # the cost of replayed answers when they were recorded
        self._started = monotonic()
        self._footer: list[str] = []
        self._amounts: set[str] = set()
        self._run_id = ""  # once there is an answer
        self._ending = ""
        self._waiting: list[tuple[str | None, bool]] = []  # calls that need approval, and whether they stay visible

    def feed(self, event: Event) -> None:
        """Process one event."""
        match event:
            case events.TurnStarted():
                self._show_speaker(event.metadata.get("speaker"))
                self._turn_start = len(self.segments)
                self._answers += 1
                self._model = str(event.metadata.get("model") or "")
                self.status = f"waiting for {self._model}"
            case events.Text() | events.Thinking():
                self._add_text(event)
            case events.ToolCallDelta():
                self._end_segment()
                self.status = "writing a tool call"
            case events.TurnDone(response=response):
                self._origin = event.metadata.get("note", "")
                self._complete_turn((response and response.metadata) or {})
            case events.Retry():
                self._start_again(event)
            case events.ValidationError(tool_name=None):
                self._add(_note(notice_text(event)))
            case events.UsageReport():
                self._add_usage(event)
            case events.Done(result=result):
                self._ending = (result.status_reason if result is not None else None) or self._ending
                self._run_id = event.metadata.get("run_id") or ""
                self._end(event.metadata.get("duration_s"))
            case events.Error():
                self._end(event.metadata.get("duration_s"))
            case events.Interrupted():
                self.mark_interrupted()
            case _:
                self._feed_call(event)

    @property
    def has_running_tools(self) -> bool:
        """Whether a tool is running."""
        return not self.over and any(each.kind == "tool" and each.started and not each.result for each in self.segments)

    @contextmanager
    def call_waits(self, key: str | None, *, stays: bool = False) -> Iterator[None]:
        """Hide a call's block while an approval form shows the call. `key` is the call's `tool_call_id`.

        With `stays`, for a form that shows something else, the block remains visible and says that the call is waiting.
        """
        self._waiting.append((key, stays))
        try:
            yield
        finally:
            self._waiting.remove((key, stays))
            for segment in self.segments:
                if segment.started and segment.key == key:
                    segment.started = time()  # the tool starts now

    def show_edited(self, key: str | None, arguments: dict[str, Any]) -> None:
        """Show these arguments in a call's block, marked as edited. `key` is the call's `tool_call_id`."""
        for segment in self.segments:
            if segment.key == key:
                segment.edited, segment.html = arguments, None
            for child in segment.children.values():
                child.show_edited(key, arguments)

    def mark_interrupted(self) -> None:
        """Mark the run as interrupted, and keep its content."""
        self._ending = "Interrupted."
        self._end()

    def fold_answer(self) -> None:
        """Fold the answer's text, because the cell returns a value made from it."""
        for segment in reversed(self.segments):
            if segment.kind == "text":
                segment.html, segment.is_folded = None, True
                return

    def show_instead(self, part: str, page: str, plain: str) -> None:
        """Replace this part of the answer's text with `page`, which is safe HTML, and `plain`, its plain text."""
        for place, segment in reversed(list(enumerate(self.segments))):
            if segment.kind == "text" and part in segment.text:
                texts = segment.text.rpartition(part)[::2]
                before, after = (
                    [Segment("text", [text], marks=segment.marks)] if text.strip() else [] for text in texts
                )
                self.segments[place : place + 1] = [*before, Segment("fixed", [plain], html=page), *after]
                return

    def _add(self, segment: Segment) -> None:
        self._end_segment()
        self.segments.append(segment)

    def _add_text(self, event: Event) -> None:
        self.status = ""
        if len(self.segments) <= self._turn_start or self.segments[-1].kind != event.type:
            self._add(Segment(event.type, started=time()))
        self.segments[-1].html = None
        self.segments[-1].pieces.append(event.content)
        self.segments[-1].duration = event.metadata.get("duration_s")  # known for a turn that is over

    def _feed_call(self, event: Event) -> None:
        """Process an event about a tool call, or about the run's requests."""
        match event:
            case events.ToolCall():
                self._add_call(event)
            case events.ToolStarted():
                for segment in self._calls(event):
                    segment.started = time()
            case events.ToolPrinted(outputs=outputs):
                for segment in self._calls(event):
                    segment.outputs = outputs
            case events.ToolProgress():
                for segment in self._calls(event):
                    segment.progress, segment.fraction = event.content, event.metadata.get("progress")
            case events.ToolResult():
                self._add_result(event)
            case events.ChildEvent():
                self._feed_child(event)
            case events.Context() if "begins" not in event.metadata:
                self._add(_note(notice_text(event)))
            case events.Http() | events.Context():
                self.status = event.content or self.status

    def _add_call(self, event: events.ToolCall) -> None:
        """Add a block, unless the call updates a plan that is already shown."""
        self.status = ""
        key, writes_plan = event.metadata["tool_call_id"], event.tool_name == UPDATE_PLAN
        plan = next((segment for segment in self.segments if segment.plan), None)
        if plan is not None and writes_plan:
            plan.key, plan.event = key, event
        else:
            self._add(Segment("tool", key=key, answer=0 if writes_plan else self._answers, event=event))

    def _show_speaker(self, name: str | None) -> None:
        """Show the name of the team member who speaks next, if the speaker has changed."""
        self.new_speaker = name if name and name != self._speaker else ""
        if self.new_speaker:
            page = f'<div class="nbagent-speaker {render.NO_TEX}">{render.escape(self.new_speaker)}</div>'
            self._add(Segment("fixed", [f"{self.new_speaker}:"], html=page))
        self._speaker = name

    def _feed_child(self, event: events.ChildEvent) -> None:
        """Show a child run's event below its call. Its usage is added to this run's."""
        if isinstance(own := own_event(event), events.UsageReport):
            self._add_usage(own)
        child, run_id = event.event, event.event.metadata["run_id"]
        for segment in self._calls(event):
            if isinstance(child, events.RunStarted):
                if len(segment.children) == MAX_RUNS:
                    segment.n_more += 1
                    continue
                known = (segment.event and segment.event.tool_arguments) or {}
                prompt = "" if child.content in known.values() else child.content  # the call already shows it
                segment.children[run_id] = _Child(self, child.metadata.get("agent") or "agent", prompt)
            if run_id in segment.children:
                segment.children[run_id].feed(child)

    def _start_again(self, event: Event) -> None:
        """Discard this turn's content, but not a note about another model."""
        noted = [_note(event.content)] if "next" in event.metadata else []
        self.segments[self._turn_start :] = noted
        self.status = event.content or "trying again"

    def _add_usage(self, event: events.UsageReport) -> None:
        self._usage += event.usage
        cost = event.metadata.get("cost_usd")
        if event.metadata.get("replayed"):
            self._played += cost or 0.0
        else:
            self._cost = None if cost is None or self._cost is None else self._cost + cost

    def _add_result(self, event: events.ToolResult) -> None:
        self.status = ""
        for segment in list(self._calls(event)):
            plan = plan_in(event)
            if segment.plan and not plan:  # the call failed: show it, and keep the plan
                self._add(Segment("tool", key=segment.key, event=segment.event, result=event))
                continue
            segment.plan = plan
            segment.result, segment.html, segment.outputs = event, None, event.outputs
            segment.end_children()
            if event.outcome is not None and event.outcome.approval == "edited":
                segment.edited = event.tool_arguments

    def _calls(self, event: Event) -> Iterator[Segment]:
        """The segment of the call that the event is about."""
        return (segment for segment in self.segments if segment.key and segment.key == event.metadata["tool_call_id"])

    def _end_segment(self) -> None:
        if self.segments and self.segments[-1].duration is None:
            self.segments[-1].duration = time() - self.segments[-1].started

    def _complete_turn(self, about: Mapping[str, Any]) -> None:
        """Add images and citations, which are known only when the turn's text is complete."""
        if parts := about.get("parts"):
            self._place_images(parts)
        if citations := about.get("citations"):
            self._place_citations(citations)

    def _place_images(self, parts: list[dict[str, Any]]) -> None:
        """Replace the turn's text with the answer's parts, so images appear where the model put them."""
        self._end_segment()
        shown = [segment for segment in self.segments[self._turn_start :] if segment.kind != "text"]
        for part in parts:
            if part.get("type") == "image":
                shown.append(Segment("fixed", [image_note(part)], html=image_html(part)))
            else:
                shown.append(Segment("text", [part.get("text", "")]))
        self.segments[self._turn_start :] = shown

    def _place_citations(self, citations: list[Citation]) -> None:
        """Put numbered marks into the turn's text, and the list of sources below."""
        self._end_segment()
        numbers = self._sources = numbered(citations, self._sources)
        start = 0
        for segment in self.segments[self._turn_start :]:
            if segment.kind == "text" and self.as_html is not render.verbatim_html:
                end = start + len(segment.text)
                own = [{**each, "end": each["end"] - start} for each in citations if start < each["end"] <= end]
                segment.add_marks(sources.mark_positions(segment.text, own, numbers))
                start = end
        text, page = sources.sources_text(citations, numbers), sources.sources_html(citations, numbers)
        self.segments.append(Segment("fixed", [text], html=page))

    def _end(self, seconds: float | None = None) -> None:
        self.status, self.over = "", True
        self._end_segment()
        for segment in self.segments:
            segment.end_children()
        usage = self._usage
        cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
        seconds = monotonic() - self._started if seconds is None else seconds
        tokens = [f"{usage.input_tokens:,} in{cached}", f"{usage.output_tokens:,} out"] if usage.total_tokens else []
        cost = f"${self._cost:.4f}" if tokens and self._cost else ""
        played = f"replayed: ${self._played:.4f} not paid" if self._played else ""
        duration = render.format_duration(seconds) if self.timings else ""
        facts = (self._model, *tokens, cost, played, duration, self._origin, self.note)
        self._footer, self._amounts = [*filter(None, facts)], {*tokens, cost}

    def html(self) -> str:
        """The whole transcript as one safe HTML fragment."""
        texts = (segment.text for segment in self.segments if segment.kind == "text")
        return render.output_html("".join(self.parts()), formulas=any(map(_may_have_formulas, texts)))

    def parts(self) -> list[str]:
        """The transcript as pieces of HTML, without the style. During the run, only the last pieces change."""
        pieces = [piece for group in self._groups() for piece in self._pieces(group)]
        return [*pieces, closing] if (closing := self._closing_html()) else pieces

    def bundles(self) -> list[MimeBundle]:
        """The transcript as mimebundles: one for each segment, or for each part of a long segment. The first bundle
        contains the style.

        The status or footer follows the text in the last bundle or is a bundle of its own. The final bundles don't
        depend on how the text arrived.
        """
        blocks = [block for group in self._groups() for block in self._blocks(group)]
        if rest := blocks[MAX_DISPLAYS - 1 :]:
            pages, plains, texts = zip(*rest, strict=True)
            blocks[MAX_DISPLAYS - 1 :] = [_Block("".join(pages), "\n".join(filter(None, plains)), "".join(texts))]
        closing, lines = self._closing_html(), self._closing_lines()
        if closing and (not self.segments or self.segments[-1].kind != "text"):
            blocks.append(_Block("", "", ""))
        if blocks:
            page, plain, text = blocks[-1]
            blocks[-1] = _Block(page + closing, "\n".join(filter(None, (plain, *lines))), text)
        return [
            {
                "text/html": render.output_html(
                    page, formulas=_may_have_formulas(text), style=not index, before=before
                ),
                "text/plain": render.printable(plain),
            }
            for index, ((before, *_), (page, plain, text)) in enumerate(pairwise([_Block("", "", ""), *blocks]))
        ]

    def _groups(self) -> Iterator[list[Segment]]:
        """The segments, with the tool calls of one answer in one group."""
        for _, group in groupby(self.segments, key=lambda each: (each.answer, 0 if each.answer else id(each))):
            yield [*group]

    def _blocks(self, group: list[Segment]) -> Iterator[_Block]:
        """The displays of a group: one, or one for each part of a long text."""
        segment, pieces = group[0], self._pieces(group)
        is_text = segment.kind == "text"
        if not is_text or len(pieces) == 1:
            lines = (line for each in group for line in self._lines(each))
            yield _Block("".join(pieces), "\n".join(lines), segment.text if is_text else "")
            return
        ends = (0, *segment.stable_ends, len(segment.text))
        for piece, (start, end) in zip(pieces, pairwise(ends), strict=False):  # at the end, the last range is empty
            text = segment.text[start:end]
            yield _Block(piece, segment.plain(text.strip("\n")), text)

    def _pieces(self, group: list[Segment]) -> list[str]:
        segment = group[0]
        if segment.event is not None and not segment.plan:
            return self._calls_pieces(group)
        if segment.kind == "text":
            pieces = self._text_pieces(segment)
            folded = '<span class="nbagent-quiet">Answer</span>'
            return [render.details_html(folded, "", "".join(pieces))] if segment.is_folded else pieces
        if segment.plan:
            return [checklist_html(segment.plan)]
        return [segment.html or "" if segment.kind == "fixed" else self._thinking_html(segment)]

    def _calls_pieces(self, calls: list[Segment]) -> list[str]:
        """The tool calls of one answer, folded, then the displays and images, which stay visible."""
        blocks, visible = zip(*map(self._call_pieces, calls), strict=True)
        below = [piece for pieces in visible for piece in pieces]
        if len(calls) == 1:
            return [*blocks[0], *below]
        inside = "".join(f'<div class="nbagent-call">{"".join(pieces)}</div>' for pieces in blocks if pieces)
        if not inside:
            return below
        started = min((call.started for call in calls if call.started and not self._is_waiting(call)), default=0.0)
        page = group_html(
            [(call.event, call.result) for call in calls if call.event is not None],
            inside,
            is_over=self.over,
            taken=self._time_html(started),
            timings=self.timings,
        )
        return [page, *below]

    def _call_pieces(self, segment: Segment) -> tuple[list[str], list[str]]:
        """A folded call with its subagents' runs and, while it runs, its printed output; then what stays visible."""
        outputs = segment.outputs if self.shows_outputs else ()
        is_running = segment.result is None and not self.over
        block = segment.html
        is_hidden = is_running and (segment.key, False) in self._waiting
        if block is None:
            assert segment.event is not None
            block = tool_call_html(
                segment.event,
                segment.result,
                edited=segment.edited,
                state=self._state_html(segment),
                printed=() if is_running else printed_in(outputs),
                timings=self.timings,
            )
            segment.html = None if is_running else block
        children = [child.block() for child in segment.children.values()]
        children += [render.note_html(MORE_RUNS.format(segment.n_more))] if segment.n_more else []
        printed = "".join(outputs_html(printed_in(outputs))) if is_running else ""
        tail = [f'<div class="nbagent-tail"><div>{printed}</div></div>'] if printed else []
        head = [] if is_hidden else [block]
        return [*head, *children, *tail], [*outputs_html(displayed_in(outputs)), *result_images_html(segment.result)]

    def _thinking_html(self, segment: Segment) -> str:
        """The end of the thinking while it streams, then all of it, folded."""
        if segment.html is not None:
            return segment.html
        if segment.duration is None and segment is self.segments[-1] and not self.over:
            head, tail = '<span class="nbagent-quiet">Thinking…</span>', segment.text[-THINKING_TAIL:]
            text = tail if len(tail) == len(segment.text) else f"…{tail}"
            body = f'<div class="nbagent-tail">{render.verbatim_html(text)}</div>'
            return render.details_html(head, RUNS + self._time_html(segment.started), body, is_open=True)
        took = f" for {segment.duration:.1f} s" if self.timings and (segment.duration or 0) >= 0.1 else ""
        text = render.shortened_with_note(segment.text, THINKING_CHARS, ": see agent.trace.thinking")
        head = f'<span class="nbagent-quiet">Thought{took}</span>'
        segment.html = render.details_html(head, "", render.verbatim_html(text))
        return segment.html

    def _text_pieces(self, segment: Segment) -> list[str]:
        """The parts that are final, each rendered once, then the rest of the text."""
        done = segment.stable_ends[-1] if segment.stable_ends else 0
        for end in render.stable_ends(segment.text[done:]):
            self._keep_stable(segment, done + end)
        if self.over or segment is not self.segments[-1]:
            self._keep_stable(segment, len(segment.text))
            if len(segment.stable_html) > 1 and render.has_link_definitions(segment.text):
                segment.stable_html[:] = [self.as_html(segment.text)]  # links may be defined after their use
        rest = segment.text[segment.stable_ends[-1] if segment.stable_ends else 0 :]
        return [*segment.stable_html, self.as_html(rest)] if rest else segment.stable_html

    def _keep_stable(self, segment: Segment, end: int) -> None:
        start = segment.stable_ends[-1] if segment.stable_ends else 0
        if end > start:
            segment.stable_html.append(self.as_html(segment.text[start:end]))
            segment.stable_ends.append(end)

    def _closing_html(self) -> str:
        """The status during the run; after it, how it ended, and the footer."""
        closing = render.note_html(f"{self.status}…" if self.status else "") + render.note_html(self._ending)
        if self._footer and self._has_footer:
            run = f' data-nbagent-run="{render.escape(self._run_id)}"' if self.timings and self._run_id else ""
            closing += render.footer_html(self._footer, run, self._amounts)
        return closing

    def _state(self, segment: Segment) -> str:
        """The state of a call that has no result."""
        if self.over:
            return "interrupted"
        if self._is_waiting(segment):
            return FOR_YOU
        return f"{segment.progress}…" if segment.progress else last_line(segment.outputs) or "running…"

    def _state_html(self, segment: Segment) -> str:
        """The state of a call as HTML, with a bar and the time."""
        if segment.result or self.over:
            return render.escape(self._state(segment))
        # screen readers read the text next to the bar
        value = "" if segment.fraction is None else f"{segment.fraction:.3f}"
        bar = f'<progress aria-hidden="true" value="{value}"></progress>' if value else ""
        taken = self._time_html(0 if self._is_waiting(segment) else segment.started)
        words = self._state(segment)
        is_below = self.shows_outputs and words == last_line(segment.outputs)
        text = "" if is_below else f"<span>{render.escape(words)}</span>"
        return f"{RUNS if taken else ''}{bar}{text}{taken}"

    def _is_waiting(self, segment: Segment) -> bool:
        return segment.key in dict(self._waiting)

    def _time_html(self, started: float) -> str:
        """Elapsed time; `panel.js` keeps it up to date."""
        if not started or not self.timings:
            return ""
        return f' <span class="nbagent-time" data-nbagent-since="{started:.1f}">{self._elapsed(started)}</span>'

    def _elapsed(self, started: float) -> str:
        """Elapsed time in whole seconds, in words."""
        seconds = time() - started if started and self.timings else 0
        return render.format_seconds(seconds) if seconds >= 1 else ""

    def plain(self) -> str:
        """The transcript as text, for terminals and hosts without HTML."""
        lines = [line for segment in self.segments for line in self._lines(segment)]
        return render.printable("\n".join([*lines, *self._closing_lines()]))

    def _lines(self, segment: Segment) -> list[str]:
        if segment.plan:
            return list(checklist_lines(segment.plan))
        if segment.event is not None:
            arguments = segment.event.tool_arguments if segment.edited is None else segment.edited
            call = f"▸ {render.format_call(segment.event.tool_name or '', arguments)}"
            call += " (edited)" if segment.edited is not None else ""
            below = [f"  {line}" for child in segment.children.values() for line in child.call_lines()]
            below += [f"  {MORE_RUNS.format(segment.n_more)}"] if segment.n_more else []
            if segment.result is None:
                state = (call, self._state(segment), "" if self.over else self._elapsed(segment.started))
                return [" ".join(filter(None, state)), *below]
            shown = segment.outputs if self.shows_outputs else ()
            texts = [part.get("text", part.get("text/plain", "")).rstrip() for part in shown]
            return [call, *below, *filter(None, texts), f"  {render.shortened_with_note(segment.result.content, 200)}"]
        return [] if segment.kind == "thinking" else [segment.plain(segment.text)]

    def call_lines(self) -> list[str]:
        """The tool calls, as text."""
        return [line for segment in self.segments if segment.event is not None for line in self._lines(segment)]

    @property
    def summary(self) -> str:
        """How the run ended, in a few words."""
        return self._ending or " · ".join(self._footer)

    def _closing_lines(self) -> list[str]:
        lines = [line for line in (f"{self.status}…" if self.status else "", self._ending) if line]
        return [*lines, f"[{' · '.join(self._footer)}]"] if self._footer else lines


def _note(text: str) -> Segment:
    return Segment("fixed", [text], html=render.note_html(text))


def notice_text(event: Event) -> str:
    """The text of an event about the run itself, such as the reason why an answer was rejected."""
    is_sent_back = isinstance(event, events.ValidationError)
    return f"Sent back: {reason_in(event.content)}" if is_sent_back else event.content


def _may_have_formulas(text: str) -> bool:
    return "$" in text or "\\" in text


def own_event(event: Event) -> Event:
    """The innermost event, without the `ChildEvent`s around it."""
    while isinstance(event, events.ChildEvent):
        event = event.event
    return event


class _Child(Transcript):
    """A run that a tool call started."""

    _has_footer = False

    def __init__(self, above: Transcript, name: str, prompt: str) -> None:
        super().__init__(timings=above.timings, outputs=above.shows_outputs, as_html=above.as_html)
        self._waiting = above._waiting
        self._name, self._prompt = name, shortened(" ".join(prompt.split()), PROMPT_CHARS)
        self._failed = False
        self._html: str | None = None  # once it is final

    def feed(self, event: Event) -> None:
        """Process one event."""
        super().feed(event)
        self._failed = isinstance(event, events.Error)

    def block(self) -> str:
        """The run as a block, unfolded while it works."""
        if self._html is not None:
            return self._html
        head = render.escape(self._name)
        if self._prompt:
            head += f' <span class="nbagent-quiet">{render.escape(self._prompt)}</span>'
        side = '<span class="nbagent-bad">✗ error</span>' if self._failed else render.escape(self.summary)
        side = side if self.over else "working…"
        block = render.details_html(head, side, "".join(self.parts()), is_open=not self.over)
        page = f'<div class="nbagent-child">{block}</div>'
        self._html = page if self.over else None
        return page

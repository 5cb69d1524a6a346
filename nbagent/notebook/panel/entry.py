"""One turn in the panel (the user's question and the answer), and the same for turns of the past.

An `PanelEntry` shows a turn as widgets and follows its run. `turn_html` and `turn_text` render a turn of the past for
readers without a kernel.
"""

from __future__ import annotations

import html
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ipywidgets as widgets

from nbagent.core import events
from nbagent.core.content.documents import document_note, is_document
from nbagent.core.content.images import Image, content_as_text, image_note
from nbagent.core.events import Event
from nbagent.core.history.branches import Branch
from nbagent.core.messages import Content, FunctionCall, LLMMessage, LLMResponse, origin_note
from nbagent.core.render import markdown as render
from nbagent.core.results import AgentResult, ToolOutcome
from nbagent.core.tool_output import WIDGET_TYPE
from nbagent.errors import NbagentError
from nbagent.notebook.display.cell_link import cell_link
from nbagent.notebook.display.recorded import Recorded
from nbagent.notebook.display.tool_call import widget_mark
from nbagent.notebook.display.transcript import Transcript
from nbagent.notebook.display.view import OVERHEAD_CHARS, Throttle
from nbagent.notebook.panel.attachments import Attachment, split_attachments
from nbagent.notebook.panel.branches import VersionPicker
from nbagent.trace.table import Row

log = logging.getLogger("nbagent")

#: A screen reader reads out this many characters of an answer's Markdown.
SPOKEN_CHARS = 1_000
#: Who speaks, for screen readers and where the style is stripped.
YOU, AGENT = (f'<div class="nbagent-unseen">{name}</div>' for name in ("You:", "Agent:"))
#: For turns that no trace recorded.
UNRECORDED = Recorded()
UNKNOWN: Mapping[str, Any] = {}


class PanelEntry:
    """The widgets of one turn: the question, the pieces of the transcript, then `below` (errors, a tool's question).

    `message` is the message of the history that begins the turn. All calls come on one event loop.
    """

    def __init__(
        self, message: LLMMessage, transcript: Transcript | None = None, run: Mapping[str, Any] = UNKNOWN
    ) -> None:
        self.message = message
        self.transcript = transcript or Transcript()
        #: Where the question has several versions.
        self.versions: VersionPicker | None = None
        #: The question of the history whose turn this one takes the place of.
        self.replaces: LLMMessage | None = None
        #: What is known of the run that asks the question, such as its branch and cell.
        self.run = run
        #: The run is under way, failed or was refused: it is shown even if the history does not have its question.
        self.outlasts_history = False
        self.status = ""
        self.below: list[Any] = []
        #: Widgets that tools of the run displayed, by their ids; they stand in the place of their text.
        self._live: dict[str, Any] = {}
        self.box = widgets.VBox().add_class("nbagent-entry")
        self._question = widgets.HTML(question_html(message, run)) if message.role == "user" else None
        self._pieces: list[Any] = []
        self._throttle = Throttle(self._paint)

    def feed(self, event: Event) -> None:
        """Take an event of the turn's run."""
        self.transcript.feed(event)
        if isinstance(event, events.Interrupted):
            self.transcript.mark_interrupted()
        if isinstance(event, events.ToolPrinted | events.ToolResult):
            self._show_widgets(event.outputs)
        if isinstance(event, events.Error) and event.exception is not None:
            self.show_error(event.exception)
        elif isinstance(event, events.Interrupted | events.Done):
            result = event.result if isinstance(event, events.Done) else None
            self.outlasts_history = result is not None and result.status == "blocked"
            self._throttle.now()
        else:
            self._throttle.request()
        if isinstance(event, events.ToolStarted):
            self._throttle.every_second(lambda: self.transcript.has_running_tools)

    def _show_widgets(self, outputs: Sequence[Mapping[str, str]]) -> None:
        for model_id in (part["widget"] for part in outputs if "widget" in part):
            if model_id not in self._live:
                data = {WIDGET_TYPE: {"model_id": model_id, "version_major": 2, "version_minor": 0}}
                shown = {"output_type": "display_data", "data": data, "metadata": {}}
                self._live[model_id] = widgets.Output(outputs=(shown,)).add_class("nbagent-live-widget")
                self.box.add_class("nbagent-with-widgets")

    def show_error(self, error: BaseException) -> None:
        """Show an error below what is there."""
        name, text = render.escape(type(error).__name__), render.escape(render.shortened_with_note(str(error)))
        classes = f"nbagent nbagent-error {render.NO_TEX}"
        block = f'<div class="{classes}" role="alert"><strong>{name}</strong><div>{text}</div></div>'
        self.below.append(widgets.HTML(block))
        self._throttle.now()

    def begin(self, run: Mapping[str, Any]) -> None:
        """Start with an empty answer: `run` (its metadata) begins, or the same question is asked again."""
        self.transcript, self.status = Transcript(), ""
        self.run, self.outlasts_history = run, True
        self._close_live()
        _close_all(self.below)
        if self._question is not None:
            self._question.value = question_html(self.message, run)
        self._throttle.now()

    def show_versions(self, branches: Sequence[Branch], here: Branch, switch: Callable[[Branch], None]) -> None:
        """Let the user `switch` between the versions of the question, if there are several."""
        before = self.versions
        if len(branches) < 2:
            self.versions = None
        elif before is None:
            self.versions = VersionPicker(switch)
        if self.versions is not None:
            self.versions.show(branches, here)
        if self.versions is not before:
            self._throttle.now()
        if before is not None and self.versions is None:
            before.close()

    def spoken_text(self) -> str:
        """The beginning of the answer as a screen reader should say it: what a browser shows, as plain text."""
        said = " ".join(segment.text for segment in self.transcript.segments if segment.kind == "text")
        shown = re.sub(r"</?span[^>]*>", "", render.markdown_to_html(said[:SPOKEN_CHARS]))
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", shown)).split())

    def html(self) -> str:
        """What the widgets show, as HTML that needs no kernel."""
        shown = (widgets.HTML, widgets.HTMLMath)
        return "".join(widget.value for widget in self.box.children if isinstance(widget, shown))

    def text(self) -> str:
        """The turn as plain text."""
        return _text_of(self.message, self.transcript)

    def refresh(self) -> None:
        """Paint at once."""
        self._throttle.now()

    def close(self) -> None:
        """Close the widgets."""
        self._close_live()
        _close_all(self.below)
        _close_all(self._pieces)
        _close_all([widget for widget in (self._question, self.versions, self.box) if widget is not None])

    def _close_live(self) -> None:
        _close_all(list(self._live.values()))
        self._live.clear()
        self.box.remove_class("nbagent-with-widgets")

    def _paint(self) -> int:
        """Update the pieces that changed. Returns the number of characters sent."""
        try:
            pieces = list(self.transcript.parts())
        except Exception:  # a rendering bug must not end the conversation
            log.exception("the transcript can't be shown as HTML")
            pieces = [f"<pre>{render.escape(self.transcript.plain())}</pre>"]
        if self.status:
            pieces.append(render.note_html(self.status))
        sent, replaced = 0, []
        for index, piece in enumerate(pieces):
            page = f'{"" if index else AGENT}<div class="nbagent">{piece}</div>'
            shown = self._pieces[index : index + 1]
            if shown and shown[0].value == page:
                continue
            sent += len(page) + (OVERHEAD_CHARS if sent else 0)  # each piece is a message
            # HTMLMath typesets formulas; HTML never looks for any
            kind = widgets.HTMLMath if render.has_formulas(page) else widgets.HTML
            if shown and isinstance(shown[0], kind):
                shown[0].value = page
            else:
                replaced += shown
                self._pieces[index : index + 1] = [kind(page).add_class("widget-html")]
        replaced, self._pieces = replaced + self._pieces[len(pieces) :], self._pieces[: len(pieces)]
        (self.box.remove_class if self.transcript.over else self.box.add_class)("nbagent-live")
        versions = [self.versions.box] if self.versions else []
        body = [each for piece in self._pieces for each in (piece, *self._live_in(piece))]
        children = (*([self._question] if self._question else []), *versions, *body, *self.below)
        if self.box.children != children:
            self.box.children = children
        _close_all(replaced)
        return sent

    def _live_in(self, piece: Any) -> list[Any]:
        """The widgets whose text is in this piece."""
        return [shown for model_id, shown in self._live.items() if widget_mark(model_id) in piece.value]


def _close_all(some: list[Any]) -> None:
    while some:
        some.pop().close()


def question_html(message: LLMMessage, run: Mapping[str, Any] = UNKNOWN) -> str:
    """The user's message as a speech bubble, with its images, and the cell of its run. Attachments are folded below."""
    own, attachments = split_attachments(message.content)
    said = f'<div class="nbagent-you">{_content_html(own)}</div>' if own else ""
    folded = "".join(map(_attachment_html, attachments))
    return f'<div class="nbagent nbagent-said">{YOU}{cell_link(run)}{said}{folded}</div>'


def _attachment_html(attachment: Attachment) -> str:
    name, about = render.escape(attachment.name), render.escape(attachment.about)
    return render.details_html(f"<code>{name}</code>", about, _content_html(attachment.content, _excerpt_html))


def _excerpt_html(text: str) -> str:
    return f"<pre>{render.escape(render.shortened_with_note(text, see=''))}</pre>"


def _content_html(content: Content, text_html: Callable[[str], str] = render.escape) -> str:
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return "".join(_part_html(part, text_html) for part in parts)


def _part_html(part: dict[str, Any], text_html: Callable[[str], str]) -> str:
    if is_document(part):
        return f'<div class="nbagent-quiet">{render.escape(document_note(part))}</div>'
    if part.get("type") != "image":
        return text_html(str(part.get("text", "")))
    image = Image.from_part(part)
    note = image_note(part)
    return render.escape(note) if image is None else render.image_html(image.media_type, image.to_base64(), note)


# -- turns of the past ------------------------------------------------------------------------------------------------


def transcript_of(turn: Sequence[LLMMessage], recorded: Recorded = UNRECORDED) -> Transcript:
    """The transcript of a finished turn, from its messages and from what the trace recorded."""
    run = recorded.run(turn)
    seconds = run.get("duration_s") if recorded.timings else None
    transcript = Transcript(timings=seconds is not None)
    for event in _turn_events(turn, run, recorded):
        transcript.feed(event)
        if isinstance(event, events.Interrupted):
            transcript.mark_interrupted()
    return transcript


def _turn_events(turn: Sequence[LLMMessage], run: Row, recorded: Recorded) -> Iterator[Event]:
    """The events that a turn came from; `run` is the row of its run."""
    n_calls, rows, notes = 0, dict[str, Row](), recorded.notes(run)
    for message in turn:
        if message.role == "assistant":
            while notes and notes[0]["ts"] <= recorded.entered(message):
                yield events.Context(notes.pop(0)["content"])
            yield from _answer_events(message, n_calls, recorded)
            n_calls += len(message.tool_calls or [])
            rows |= {call.id: recorded.tool(message, call.id) for call in message.tool_calls or [] if call.id}
            if message.interrupted:
                yield events.Interrupted()
        elif message.is_correction:
            yield events.ValidationError(message.text)
        elif message.role == "tool":
            row = rows.get(message.tool_call_id or "", {})
            yield from _child_events(message, row, recorded)
            yield _result_event(message, row)
    seconds = run.get("duration_s") if recorded.timings else None
    ended = AgentResult(status=run.get("status", "ok"), status_reason=run.get("status_reason"))
    yield events.Done(metadata={"run_id": run.get("run_id"), "duration_s": seconds}, result=ended)


def _child_events(message: LLMMessage, row: Row, recorded: Recorded) -> Iterator[Event]:
    """What the agents did that a tool asked; `message` is its result."""
    for run, said in recorded.children(row):
        failed = run["status"] == "error"
        failure = [events.Error(exception=NbagentError(run.get("error_message") or ""))] if failed else []
        asked = events.RunStarted(run["prompt"] or "", metadata={"agent": run["agent"]})
        for event in (asked, *_turn_events(said, run, recorded), *failure):
            event.metadata = {**event.metadata, "run_id": run["run_id"]}
            yield events.ChildEvent(metadata={"tool_call_id": message.tool_call_id}, event=event)


def _answer_events(message: LLMMessage, n_calls: int, recorded: Recorded) -> Iterator[Event]:
    """The events that an assistant message came from; `n_calls` is the number of earlier tool calls in the turn."""
    request = recorded.call(message)
    yield events.TurnStarted(metadata={**request, "speaker": message.name})
    if thought := recorded.thinking(message):
        yield events.Thinking(thought, metadata={"duration_s": request.get("thinking_s")})
    for row in recorded.vendor_tools(message):
        about = {"tool_call_id": row["tool_call_id"], "is_error": row["is_error"], "duration_s": row["duration_s"]}
        yield events.ToolCall("", row["name"], json.loads(row["args"]), about)
        yield events.ToolResult(row["result_text"] or "", row["name"], None, about)
    told: dict[str, Any] = {"citations": recorded.citations(message)}
    if not isinstance(message.content, str):
        told["parts"] = message.content
    elif message.content:
        yield events.Text(message.content)
    yield events.TurnDone(metadata={"note": origin_note(request)}, response=LLMResponse("", None, None, told))
    if request:
        yield events.UsageReport(metadata=request)
    for number, call in enumerate(message.tool_calls or [], n_calls):
        yield events.ToolCall("", call.name, call.arguments, {"tool_call_id": call.id or f"{number}"})


def _result_event(message: LLMMessage, row: Row) -> Event:
    """The event of a tool's result; `row` is the call's row in the trace."""
    about = {"tool_call_id": message.tool_call_id, "is_error": message.is_error, "duration_s": row.get("duration_s")}
    valid, approval = row.get("args_valid") is not False, row.get("approval") or "auto"
    call = FunctionCall(message.name or "", json.loads(row["args"]) if approval == "edited" else {})
    outcome = ToolOutcome(
        call,
        message.content,
        args_valid=valid,
        approval=approval,
        denied=approval == "denied",
        interrupted=row.get("error_type") == "interrupted",
    )
    outputs = json.loads(row.get("outputs") or "[]")
    text = content_as_text(message.content)
    return events.ToolResult(text, message.name, call.arguments, about, outcome, outputs=outputs)


def turn_html(turn: Sequence[LLMMessage], recorded: Recorded = UNRECORDED) -> str:
    """A turn as HTML that needs no kernel and no scripts."""
    question = question_html(turn[0]) if turn[0].role == "user" else ""
    return f'{question}{AGENT}<div class="nbagent">{"".join(transcript_of(turn, recorded).parts())}</div>'


def turn_text(turn: Sequence[LLMMessage], recorded: Recorded = UNRECORDED) -> str:
    """A turn as plain text."""
    return _text_of(turn[0], transcript_of(turn, recorded))


def _text_of(message: LLMMessage, transcript: Transcript) -> str:
    if message.role != "user":
        return render.printable(transcript.plain().rstrip())
    own, attachments = split_attachments(message.content)
    folded = (f"> [{each.name}: {each.about}]" for each in attachments)
    return render.printable("\n".join([f"> {LLMMessage('user', own).text}", *folded, transcript.plain()]).rstrip())

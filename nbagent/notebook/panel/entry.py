"""One turn in the panel (the user's question and the answer), and the same for turns of the past.

An `Entry` shows a turn as widgets and follows its run. `history_html` and `history_text` render a whole conversation
for readers without a kernel.
"""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Iterator, Sequence
from typing import Any

import ipywidgets as widgets

from nbagent.core import events
from nbagent.core.content.images import Image, content_as_text, image_note
from nbagent.core.events import Event
from nbagent.core.history.context import split_turns
from nbagent.core.messages import FunctionCall, LLMMessage, LLMResponse
from nbagent.core.render import markdown as render
from nbagent.core.results import ToolOutcome
from nbagent.notebook.display.recorded import Recorded
from nbagent.notebook.display.transcript import Transcript
from nbagent.notebook.display.view import Throttle
from nbagent.trace.table import Row

log = logging.getLogger("nbagent")

#: A screen reader reads out this many characters of an answer's Markdown.
SPOKEN_CHARS = 1_000
#: For turns that no trace recorded.
UNRECORDED = Recorded()


class Entry:
    """The widgets of one turn: the question, the pieces of the transcript, then `below` (errors, a tool's question).

    `message` is the message of the history that begins the turn. All calls come on one event loop.
    """

    def __init__(self, message: LLMMessage, transcript: Transcript | None = None, caption: str = "") -> None:
        self.message = message
        self.transcript = transcript or Transcript()
        self.is_sent = False  # true once a run has begun, so that the history has the question
        self.status = ""
        self.below: list[Any] = []
        self.box = widgets.VBox().add_class("nbagent-entry")
        self._question = widgets.HTML(question_html(message, caption)) if message.role == "user" else None
        self._pieces: list[Any] = []
        self._throttle = Throttle(self._paint)

    def feed(self, event: Event) -> None:
        """Take an event of the turn's run."""
        self.transcript.feed(event)
        if isinstance(event, events.Interrupted):
            self.transcript.mark_interrupted()
        if isinstance(event, events.Error) and event.exception is not None:
            self.show_error(event.exception)
        else:
            self._throttle.request()

    def show_error(self, error: BaseException) -> None:
        """Show an error below what is there."""
        name, text = render.escape(type(error).__name__), render.escape(render.shortened_with_note(str(error)))
        block = f'<div class="nbagent nbagent-error" role="alert"><strong>{name}</strong><div>{text}</div></div>'
        self.below.append(widgets.HTML(block))
        self._throttle.now()

    def add_image(self, part: dict[str, Any]) -> None:
        """Show an image that a tool drew."""
        self.transcript.add_image(part)
        self._throttle.request()

    def begin(self, caption: str = "") -> None:
        """Start with an empty answer: a run begins, or the same question is asked again."""
        self.transcript, self.status = Transcript(), ""
        _close_all(self.below)
        if self._question is not None:
            self._question.value = question_html(self.message, caption)
        self._throttle.now()

    def spoken_text(self) -> str:
        """The beginning of the answer as a screen reader should say it: what a browser shows, as plain text."""
        said = " ".join(segment.text for segment in self.transcript.segments if segment.kind == "text")
        shown = re.sub(r"</?span[^>]*>", "", render.markdown_to_html(said[:SPOKEN_CHARS]))
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", shown)).split())

    def refresh(self) -> None:
        """Paint at once."""
        self._throttle.now()

    def close(self) -> None:
        """Close the widgets."""
        _close_all(self.below)
        _close_all(self._pieces)
        _close_all([widget for widget in (self._question, self.box) if widget is not None])

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
            page, shown = f'<div class="nbagent">{piece}</div>', self._pieces[index : index + 1]
            if shown and shown[0].value == page:
                continue
            sent += len(page)
            # HTMLMath typesets formulas; HTML never looks for any
            kind = widgets.HTMLMath if render.has_formulas(page) else widgets.HTML
            if shown and isinstance(shown[0], kind):
                shown[0].value = page
            else:
                replaced += shown
                self._pieces[index : index + 1] = [kind(page).add_class("widget-html")]
        replaced, self._pieces = replaced + self._pieces[len(pieces) :], self._pieces[: len(pieces)]
        (self.box.remove_class if self.transcript.over else self.box.add_class)("nbagent-live")
        children = (*([self._question] if self._question else []), *self._pieces, *self.below)
        if self.box.children != children:
            self.box.children = children
        _close_all(replaced)
        return sent


def _close_all(some: list[Any]) -> None:
    while some:
        some.pop().close()


def question_html(message: LLMMessage, caption: str = "") -> str:
    """The user's message as a speech bubble, with its images."""
    parts = message.content if isinstance(message.content, list) else [{"type": "text", "text": message.content}]
    shown = "".join(map(_part_html, parts))
    head = f"<small>{render.escape(caption)}</small>" if caption else ""
    return f'<div class="nbagent nbagent-said">{head}<div class="nbagent-you">{shown}</div></div>'


def _part_html(part: dict[str, Any]) -> str:
    if part.get("type") != "image":
        return render.escape(str(part.get("text", "")))
    image = Image.from_part(part)
    note = image_note(part)
    return render.escape(note) if image is None else render.image_html(image.media_type, image.to_base64(), note)


# -- turns of the past ------------------------------------------------------------------------------------------------


def transcript_of(turn: Sequence[LLMMessage], recorded: Recorded = UNRECORDED) -> Transcript:
    """The transcript of a finished turn, from its messages and from what the trace recorded."""
    seconds = recorded.run(turn).get("duration_s") if recorded.timings else None
    transcript = Transcript(timings=seconds is not None)
    n_calls, rows = 0, dict[str, Row]()
    for message in turn:
        if message.role == "assistant":
            for event in _answer_events(message, n_calls, recorded):
                transcript.feed(event)
            n_calls += len(message.tool_calls or [])
            rows |= {call.id: recorded.tool(message, call.id) for call in message.tool_calls or [] if call.id}
            if message.interrupted:
                transcript.mark_interrupted()
        elif message.role == "tool":
            transcript.feed(_result_event(message, rows.get(message.tool_call_id or "", {})))
    transcript.feed(events.Done(metadata={"duration_s": seconds}))
    return transcript


def _answer_events(message: LLMMessage, n_calls: int, recorded: Recorded) -> Iterator[Event]:
    """The events that an assistant message came from; `n_calls` is the number of earlier tool calls in the turn."""
    request = recorded.call(message)
    yield events.TurnStarted(metadata=request)
    if thought := recorded.thinking(message):
        yield events.Thinking(thought, metadata={"duration_s": request.get("thinking_s")})
    if not isinstance(message.content, str):
        yield events.TurnDone(response=LLMResponse("", None, None, {"parts": message.content}))
    elif message.content:
        yield events.Text(message.content)
    if request:
        yield events.UsageReport(metadata=request)
    for number, call in enumerate(message.tool_calls or [], n_calls):
        yield events.ToolCall("", call.name, call.arguments, {"tool_call_id": call.id or f"{number}"})


def _result_event(message: LLMMessage, row: Row) -> Event:
    """The event of a tool's result; `row` is the call's row in the trace."""
    about = {"tool_call_id": message.tool_call_id, "is_error": message.is_error, "duration_s": row.get("duration_s")}
    valid, denied = row.get("args_valid") is not False, row.get("approval") == "denied"
    outcome = ToolOutcome(FunctionCall(message.name or "", {}), message.content, args_valid=valid, denied=denied)
    return events.ToolResult(content_as_text(message.content), message.name, None, about, outcome)


def history_html(messages: Sequence[LLMMessage], recorded: Recorded = UNRECORDED) -> str:
    """A conversation as HTML that needs no kernel and no scripts."""
    return "".join(
        (question_html(turn[0]) if turn[0].role == "user" else "") + "".join(transcript_of(turn, recorded).parts())
        for turn in split_turns(messages)
    )


def history_text(messages: Sequence[LLMMessage], recorded: Recorded = UNRECORDED) -> str:
    """A conversation as plain text."""
    blocks = []
    for turn in split_turns(messages):
        question = [f"> {turn[0].text}"] if turn[0].role == "user" else []
        blocks.append("\n".join([*question, transcript_of(turn, recorded).plain()]).rstrip())
    return render.printable("\n\n".join(blocks))

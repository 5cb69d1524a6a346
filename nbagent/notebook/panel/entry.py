"""One question and its answer in the panel, as widgets; and the conversation so far as the same pieces of HTML."""

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
from nbagent.core.messages import FunctionCall, LLMMessage, LLMResponse
from nbagent.core.render import markdown as render
from nbagent.core.results import ToolOutcome
from nbagent.notebook.display.recorded import Recorded
from nbagent.notebook.display.transcript import Transcript
from nbagent.notebook.display.view import Throttle
from nbagent.trace.table import Row

log = logging.getLogger("nbagent")

#: Characters of an answer that are read out.
SPOKEN = 1_000
#: Of what no trace has seen.
NOTHING = Recorded()


class Entry:
    """A turn in the panel: the question's bubble, the pieces of the transcript, then what stands below.

    `message` is the history's message that the turn begins with. `below` are widgets, such as a question about a tool.
    Everything is called on one event loop.
    """

    def __init__(self, message: LLMMessage, transcript: Transcript | None = None, caption: str = "") -> None:
        self.message = message
        self.transcript = transcript or Transcript()
        self.sent = False  # whether a run has begun, so that the history has it
        self.waiting = ""
        self.below: list[Any] = []
        self.box = widgets.VBox().add_class("nbagent-entry")
        self._question = widgets.HTML(bubble(message, caption)) if message.role == "user" else None
        self._pieces: list[Any] = []
        self._throttle = Throttle(self._paint)

    def feed(self, event: Event) -> None:
        """Take an event of the turn's run."""
        self.transcript.feed(event)
        if isinstance(event, events.Interrupted):
            self.transcript.mark_interrupted()
        if isinstance(event, events.Error) and event.exception is not None:
            self.fail(event.exception)
        else:
            self._throttle.request()

    def fail(self, error: BaseException) -> None:
        """Say what went wrong, below what is there."""
        self.below.append(widgets.HTML(error_html(error)))
        self._throttle.now()

    def place(self, part: dict[str, Any]) -> None:
        """Show an image that a tool drew."""
        self.transcript.add_image(part)
        self._throttle.request()

    def begin(self, caption: str = "") -> None:
        """Its run begins, or begins anew: nothing is there yet."""
        self.transcript, self.waiting = Transcript(), ""
        self._close(self.below)
        if self._question is not None:
            self._question.value = bubble(self.message, caption)
        self._throttle.now()

    def spoken(self) -> str:
        """The answer, or its beginning, as a screen reader may say it: without Markdown's signs."""
        said = " ".join(segment.text for segment in self.transcript.segments if segment.kind == "text")
        return _readable(said[:SPOKEN])

    def refresh(self) -> None:
        """Paint at once."""
        self._throttle.now()

    def close(self) -> None:
        """Take the widgets away."""
        self._close(self.below)
        self._close(self._pieces)
        for widget in (self._question, self.box):
            if widget is not None:
                widget.close()

    @staticmethod
    def _close(some: list[Any]) -> None:
        while some:
            some.pop().close()

    def _paint(self) -> int:
        """Send the pieces that changed."""
        try:
            pieces = list(self.transcript.parts())
        except Exception:  # whatever is wrong with the picture, the conversation must go on
            log.exception("the transcript can't be shown as HTML")
            pieces = [f"<pre>{render.escape(self.transcript.plain())}</pre>"]
        if self.waiting:
            pieces.append(render.note_html(self.waiting))
        sent, gone = 0, []
        for index, piece in enumerate(pieces):
            page, shown = f'<div class="nbagent">{piece}</div>', self._pieces[index : index + 1]
            if shown and shown[0].value == page:
                continue
            sent += len(page)
            if shown and isinstance(shown[0], _kind(page)):
                shown[0].value = page
            else:
                gone += shown
                self._pieces[index : index + 1] = [_kind(page)(page).add_class("widget-html")]
        gone, self._pieces = gone + self._pieces[len(pieces) :], self._pieces[: len(pieces)]
        (self.box.remove_class if self.transcript.over else self.box.add_class)("nbagent-live")
        children = (*([self._question] if self._question else []), *self._pieces, *self.below)
        if self.box.children != children:
            self.box.children = children
        self._close(gone)
        return sent


def _kind(page: str) -> Any:
    """Formulas are typeset in a widget that is made for them, and nothing is looked for in the others."""
    return widgets.HTMLMath if render.has_formulas(page) else widgets.HTML


def _readable(markdown: str) -> str:
    """What a browser would show of it, as plain text."""
    shown = re.sub(r"</?span[^>]*>", "", render.markdown_to_html(markdown))
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", shown)).split())


def bubble(message: LLMMessage, caption: str = "") -> str:
    """What the user said, as HTML; images that are in the message are shown."""
    parts = [message.content] if isinstance(message.content, str) else message.content
    shown = "".join(map(_part_html, parts))
    head = f"<small>{render.escape(caption)}</small>" if caption else ""
    return f'<div class="nbagent nbagent-said">{head}<div class="nbagent-you">{shown}</div></div>'


def _part_html(part: Any) -> str:
    if isinstance(part, str):
        return render.escape(part)
    if part.get("type") != "image":
        return render.escape(str(part.get("text", "")))
    image = Image.from_part(part)
    shown = render.image_html(image.media_type, image.to_base64(), image_note(part)) if image is not None else ""
    return shown or render.escape(image_note(part))


def error_html(error: BaseException) -> str:
    """One readable block: which error, and what to do."""
    name, text = render.escape(type(error).__name__), render.escape(render.shortened_with_note(str(error)))
    return f'<div class="nbagent nbagent-error" role="alert"><strong>{name}</strong><div>{text}</div></div>'


# -- the conversation so far ------------------------------------------------------------------------------------------


def turns(messages: Sequence[LLMMessage]) -> list[list[LLMMessage]]:
    """The history, cut where the user speaks; system messages are left out, and summaries of a turn's beginning."""
    groups: list[list[LLMMessage]] = []
    for message in messages:
        if message.role == "system":
            continue
        if message.opens_turn or not groups:
            groups.append([])
        groups[-1].append(message)
    return groups


def transcript_of(turn: Sequence[LLMMessage], recorded: Recorded = NOTHING) -> Transcript:
    """The transcript of a turn that is over, made from its messages and from what a trace has recorded of it."""
    seconds = recorded.run(turn).get("duration_s") if recorded.timings else None
    transcript = Transcript(timings=seconds is not None)
    calls, went = 0, dict[str, Row]()
    for message in turn:
        if message.role == "assistant":
            for event in _said(message, calls, recorded):
                transcript.feed(event)
            calls += len(message.tool_calls or [])
            went |= {call.id: recorded.tool(message, call.id) for call in message.tool_calls or [] if call.id}
            if message.interrupted:
                transcript.mark_interrupted()
        elif message.role == "tool":
            transcript.feed(_result(message, went.get(message.tool_call_id or "", {})))
    transcript.feed(events.Done(metadata={"duration_s": seconds}))
    return transcript


def _said(message: LLMMessage, index: int, recorded: Recorded) -> Iterator[Event]:
    request = recorded.call(message)
    yield events.TurnStarted(metadata=request)
    if thought := recorded.thinking(message):
        yield events.Thinking(thought, metadata={"duration_s": request.get("thinking_s")})
    if isinstance(message.content, str):
        if message.content:
            yield events.Text(message.content)
    else:
        yield events.TurnDone(response=LLMResponse("", None, None, {"parts": message.content}))
    if request:
        yield events.UsageReport(metadata=request)
    for number, call in enumerate(message.tool_calls or [], index):
        about = {"tool_call_id": call.id or f"{number}"}
        yield events.ToolCall("", call.name, call.arguments, about)


def _result(message: LLMMessage, row: Row) -> Event:
    """What came of a call; `row` says how it went."""
    about = {"tool_call_id": message.tool_call_id, "is_error": message.is_error, "duration_s": row.get("duration_s")}
    valid, denied = row.get("args_valid") is not False, row.get("approval") == "denied"
    call = FunctionCall(message.name or "", {})
    outcome = ToolOutcome(call, message.content, args_valid=valid, denied=denied)
    return events.ToolResult(content_as_text(message.content), message.name, None, about, outcome)


def static_html(messages: Sequence[LLMMessage], recorded: Recorded = NOTHING) -> str:
    """The conversation as HTML that needs no kernel and no scripts."""
    return "".join(
        (bubble(turn[0]) if turn[0].role == "user" else "") + "".join(transcript_of(turn, recorded).parts())
        for turn in turns(messages)
    )


def static_text(messages: Sequence[LLMMessage], recorded: Recorded = NOTHING) -> str:
    """The conversation as plain text."""
    said = []
    for turn in turns(messages):
        asked = [f"> {turn[0].text}"] if turn[0].role == "user" else []
        said.append("\n".join([*asked, transcript_of(turn, recorded).plain()]).rstrip())
    return render.printable("\n\n".join(said))

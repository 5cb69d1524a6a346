"""One turn in the panel: the user's prompt and the model's answer.

A `PanelEntry` processes the events of a turn's run and provides the state that panels show. `past_turn` creates an
entry from the history and the trace.
"""

from __future__ import annotations

import html
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from nbagent.chat.attachments import Attachment, parts_of, split_attachments
from nbagent.chat.cell_link import cell_link
from nbagent.chat.patch import State
from nbagent.chat.recorded import Recorded
from nbagent.chat.tool_call import image_html, widget_mark
from nbagent.chat.transcript import Transcript
from nbagent.core import events
from nbagent.core.content.documents import document_note, is_document
from nbagent.core.content.images import content_as_text
from nbagent.core.events import Event
from nbagent.core.history.branches import Branch
from nbagent.core.messages import Content, FunctionCall, LLMMessage, LLMResponse, new_id, origin_note
from nbagent.core.render import markdown as render
from nbagent.core.results import AgentResult, ToolOutcome
from nbagent.errors import NbagentError
from nbagent.trace.rows import Row

log = logging.getLogger("nbagent")

#: Characters of an answer's Markdown that a screen reader reads out.
SPOKEN_CHARS = 1_000
#: The speakers' names, for screen readers and pages whose style is stripped.
YOU, AGENT = (f'<div class="nbagent-unseen">{name}</div>' for name in ("You:", "Agent:"))
UNKNOWN: Mapping[str, Any] = {}
Piece = dict[str, Any]


class PanelEntry:
    """One turn: the prompt, the pieces of the transcript, and any errors and approval forms below them.

    `message` is the turn's first message in the history. Call all methods on one event loop.
    """

    def __init__(
        self, message: LLMMessage, transcript: Transcript | None = None, run: Mapping[str, Any] = UNKNOWN
    ) -> None:
        self.message = message
        self.transcript = transcript or Transcript()
        #: The turn's key in the panels' state.
        self.key = new_id("turn")
        #: The branches with versions of its prompt, and the current one's index.
        self.versions: tuple[Sequence[Branch], int] = ((), 0)
        #: The prompt in the history whose turn this one replaces.
        self.replaces: LLMMessage | None = None
        #: Facts about the prompt's run, such as its branch and cell.
        self.run = run
        #: The pieces below the answer, by name: HTML, widgets and calls that need approval.
        self._below: dict[str, Piece] = {}
        #: The ids of widgets that the run's tools displayed. They replace their text.
        self._live: dict[str, None] = {}
        self._state: State | None = None
        #: The prompt's HTML, which may contain images.
        self._question = ""

    def feed(self, event: Event) -> None:
        """Process an event of the turn's run."""
        self._state = None
        self.transcript.feed(event)
        if isinstance(event, events.ToolPrinted | events.ToolResult):
            self._live |= {part["widget"]: None for part in event.outputs if "widget" in part}
        if isinstance(event, events.Error) and event.exception is not None:
            self.show_failure(type(event.exception).__name__, str(event.exception))

    def show_failure(self, name: str, text: str) -> None:
        """Show an error below the turn."""
        name, text = render.escape(name), render.escape(render.shortened_with_note(text))
        classes = f"nbagent nbagent-error {render.NO_TEX}"
        block = f'<div class="{classes}" role="alert"><strong>{name}</strong><div>{text}</div></div>'
        self.add_below({"html": block})

    def add_below(self, piece: Piece) -> str:
        """Show a piece below the answer: `{"html": …}`, `{"widget": id}`, or `{"ask": {"id": …, "html": …}}`.

        Returns the piece's name, for `remove_below`.
        """
        self._below[name := new_id("b")] = piece
        self._state = None
        return name

    def remove_below(self, name: str) -> None:
        """Remove a piece below the answer."""
        self._below.pop(name, None)
        self._state = None

    def begin(self, run: Mapping[str, Any]) -> None:
        """Clear the answer for a new run, and store the run's metadata."""
        self.transcript, self._state, self._question = Transcript(), None, ""
        self.run = run
        self._live.clear()
        self._below.clear()

    def show_status(self, status: str) -> None:
        """Show what the prompt is waiting for."""
        if status != self.transcript.status:
            self.transcript.status, self._state = status, None

    def show_versions(self, branches: Sequence[Branch], here: Branch) -> None:
        """Set the prompt's versions. `here` is the current version."""
        versions = (branches, branches.index(here)) if len(branches) > 1 else ((), 0)
        if versions != self.versions:
            self.versions, self._state = versions, None

    def spoken_text(self) -> str:
        """The start of the answer's text, rendered and without markup, for screen readers."""
        said = " ".join(segment.text for segment in self.transcript.segments if segment.kind == "text")
        shown = re.sub(r"</?span[^>]*>", "", render.markdown_to_html(said[:SPOKEN_CHARS]))
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", shown)).split())

    def html(self) -> str:
        """The turn's HTML as panels show it. The HTML needs no kernel."""
        state = self.state()
        pieces = [state["pieces"][name].get("html", "") for name in state["order"]]
        return "".join([state.get("question", ""), *pieces])

    def text(self) -> str:
        """The turn as plain text."""
        question: list[str] = []
        if self.message.role == "user":
            own, attachments = split_attachments(self.message.content)
            question = [
                f"> {LLMMessage('user', own).text}",
                *(f"> [{each.name}: {each.about}]" for each in attachments),
            ]
        return render.printable("\n".join([*question, self.transcript.plain()]).rstrip())

    def state(self) -> State:
        """The turn as JSON data for panels: the prompt's HTML, the named pieces and their `order`.

        A piece is `{"html": …}`, with `"tex": True` if it has formulas, `{"widget": id}`, or `{"ask": …}` for a call
        that needs approval. The same object is returned until something changes.
        """
        if self._state is None:
            pieces = self._pieces()
            branches, place = self.versions
            self._question = self._question or question_html(self.message, self.run)
            self._state = {
                "pieces": pieces,
                "order": list(pieces),
                "live": not self.transcript.over,
                **({"question": self._question} if self.message.role == "user" else {}),
                **({"versions": [place + 1, len(branches)]} if branches else {}),
            }
        return self._state

    def _pieces(self) -> dict[str, Piece]:
        try:
            parts = list(self.transcript.parts())
        except Exception:  # a rendering bug must not end the conversation
            log.exception("the transcript can't be shown as HTML")
            parts = [f"<pre>{render.escape(self.transcript.plain())}</pre>"]
        pieces: dict[str, Piece] = {}
        for index, (before, part) in enumerate(pairwise(["", *parts])):
            page = f'{"" if index else AGENT}<div class="{render.container_classes(part, before)}">{part}</div>'
            pieces[f"p{index}"] = {"html": page, **({"tex": True} if render.has_formulas(page) else {})}
            pieces |= {f"w{model_id}": {"widget": model_id} for model_id in self._live if widget_mark(model_id) in page}
        return pieces | self._below


def question_html(message: LLMMessage, run: Mapping[str, Any]) -> str:
    """The user's message as a speech bubble, with its images, the name of its cell, and its folded attachments."""
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
    return "".join(_part_html(part, text_html) for part in parts_of(content))


def _part_html(part: dict[str, Any], text_html: Callable[[str], str]) -> str:
    if is_document(part):
        return f'<div class="nbagent-quiet">{render.escape(document_note(part))}</div>'
    return image_html(part) if part.get("type") == "image" else text_html(str(part.get("text", "")))


def past_turn(
    turn: Sequence[LLMMessage], recorded: Recorded, as_html: Callable[[str], str] = render.markdown_to_html
) -> PanelEntry:
    """Create the entry of a finished turn from its messages and its rows in the trace. `Transcript` describes
    `as_html`.
    """
    run = recorded.run(turn)
    seconds = run.get("duration_s") if recorded.timings else None
    transcript = Transcript(timings=seconds is not None, as_html=as_html)
    for event in _turn_events(turn, run, recorded):
        transcript.feed(event)
    # without a person, a notebook that runs again must have the same outputs, whatever its cells' numbers
    return PanelEntry(turn[0], transcript, run if recorded.timings else {})


def _turn_events(turn: Sequence[LLMMessage], run: Row, recorded: Recorded) -> Iterator[Event]:
    """A turn's events. `run` is the row of its run."""
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
    """The events of runs that a tool call started. `message` is the tool's result."""
    for run, said in recorded.children(row):
        failed = run["status"] == "error"
        failure = [events.Error(exception=NbagentError(run.get("error_message") or ""))] if failed else []
        start = events.RunStarted(run["prompt"] or "", metadata={"agent": run["agent"]})
        for event in (start, *_turn_events(said, run, recorded), *failure):
            event.metadata = {**event.metadata, "run_id": run["run_id"]}
            yield events.ChildEvent(metadata={"tool_call_id": message.tool_call_id}, event=event)


def _answer_events(message: LLMMessage, n_calls: int, recorded: Recorded) -> Iterator[Event]:
    """An assistant message's events. `n_calls` is the number of earlier tool calls in the turn."""
    request = recorded.call(message)
    yield events.TurnStarted(metadata={**request, "speaker": message.name})
    if thought := recorded.thinking(message):
        yield events.Thinking(thought, metadata={"duration_s": request.get("thinking_s")})
    for row in recorded.provider_tools(message):
        about = {"tool_call_id": row["tool_call_id"], "is_error": row["is_error"], "duration_s": row["duration_s"]}
        yield events.ToolCall("", row["name"], json.loads(row["args"]), about)
        yield events.ToolResult(row["result_text"] or "", row["name"], None, about)
    metadata: dict[str, Any] = {"citations": recorded.citations(message)}
    if not isinstance(message.content, str):
        metadata["parts"] = message.content
    elif message.content:
        yield events.Text(message.content)
    yield events.TurnDone(metadata={"note": origin_note(request)}, response=LLMResponse("", None, None, metadata))
    if request:
        yield events.UsageReport(metadata=request)
    for number, call in enumerate(message.tool_calls or [], n_calls):
        yield events.ToolCall("", call.name, call.arguments, {"tool_call_id": call.id or f"{number}"})


def _result_event(message: LLMMessage, row: Row) -> Event:
    """The event of a tool's result. `row` is the call's row in the trace."""
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
        started=row.get("started") or 0.0,
        duration_s=row.get("duration_s"),
    )
    outputs = json.loads(row.get("outputs") or "[]")
    text = content_as_text(message.content)
    return events.ToolResult(text, message.name, call.arguments, about, outcome, outputs=outputs)

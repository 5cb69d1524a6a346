"""A panel's output in the saved notebook: the conversation after its last turn, for readers without a kernel.

This is a separate output below the panel, because hosts redraw a widget when its output is updated. A live panel hides
this output. Without a live panel, the output hides the host's message about a missing widget (`panel.css`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Context
from secrets import token_hex

from IPython import get_ipython
from IPython.display import display, update_display

from nbagent.chat.entry import PanelEntry, past_turn
from nbagent.chat.recorded import Recorded
from nbagent.core.cells import is_watched
from nbagent.core.history.history import split_turns
from nbagent.core.render import markdown as render
from nbagent.notebook.keeper import is_kept
from nbagent.notebook.panel.conversation import PanelConversation

#: Characters of HTML in the output; earlier turns are omitted.
MAX_CHARS = 2_000_000
NO_MESSAGES = "No messages yet."
KEPT = "Run %agent restore in a new kernel to continue this conversation."


class SavedOutput:
    """The saved output of one panel. `style` is the panel's style sheet as HTML. The live panel must include
    `hiding_style`.
    """

    def __init__(self, conversation: PanelConversation, style: str) -> None:
        self._conversation = conversation
        self._style = style
        self._is_live = is_watched(get_ipython())  # nbclient and nbval must get the same output each time
        self._name = f"nbagent-saved-{token_hex(4) if self._is_live else 'only'}"
        self._is_displayed = False
        self._shown: dict[str, str] = {}

    @property
    def hiding_style(self) -> str:
        """A style sheet, as HTML, that hides the output and the space that it would take in JupyterLab."""
        return f"<style>.{self._name}, .jp-OutputArea-child:has(.{self._name}) {{ display: none; }}</style>"

    def text(self) -> str:
        """The conversation so far as plain text."""
        return self._history()["text/plain"]

    def display(self) -> None:
        """Display the conversation so far, below the panel."""
        # without an id, a display is never updated
        display(self._history(), raw=True, display_id=self._name if self._is_live else None)
        self._is_displayed = True

    def update(self) -> None:
        """Update the output, unless a prompt is running or waiting. Call this method on the background loop."""
        if not self._is_displayed or not self._is_live or not self._conversation.is_idle:
            return
        bundle = self._bundle(self._conversation.entries)
        if bundle != self._shown:
            self._shown = bundle
            # in an empty context: a display in a tool's context would belong to its call
            Context().run(update_display, bundle, display_id=self._name, raw=True)

    def _history(self) -> dict[str, str]:
        agent = self._conversation.agent
        recorded = Recorded(agent.trace, timings=self._is_live)
        return self._bundle([past_turn(turn, recorded) for turn in split_turns(list(agent.conversation_history))])

    def _bundle(self, entries: Sequence[PanelEntry]) -> dict[str, str]:
        pages, texts = [entry.html() for entry in entries], [entry.text() for entry in entries]
        notes = [] if pages else [NO_MESSAGES]
        if is_kept(self._conversation.agent):
            notes.append(KEPT)
        first, chars = len(pages), 0
        while first and chars + len(pages[first - 1]) <= MAX_CHARS:
            first -= 1
            chars += len(pages[first])
        if first:
            notes.append(f"{first} earlier turn{'s are' if first > 1 else ' is'} omitted here.")
        head = "".join(f'<div class="nbagent"><div class="nbagent-quiet">{note}</div></div>' for note in notes)
        page = f'{self._style}<div class="nbagent-saved {self._name}">{head}{"".join(pages[first:])}</div>'
        text = render.printable("\n\n".join([*notes, *texts[first:]]))
        return {"text/html": page, "text/plain": text}

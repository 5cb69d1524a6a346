"""Where conversations part: the versions of a question, and the list of this notebook's conversations, as widgets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import ipywidgets as widgets

from nbagent.core.history.branches import Branch
from nbagent.core.render import markdown as render


class VersionPicker:
    """`‹ 2/3 ›` at a question: which version of it is shown, and buttons that `switch` to the one before or after."""

    def __init__(self, switch: Callable[[Branch], None]) -> None:
        self._branches: Sequence[Branch] = ()
        self._place = 0
        self._before = widgets.Button(description="Previous version").add_class("nbagent-before")
        self._after = widgets.Button(description="Next version").add_class("nbagent-after")
        self._number = widgets.HTML()
        self.box = widgets.HBox([self._before, self._number, self._after]).add_class("nbagent-versions")
        self._before.on_click(lambda _: switch(self._branches[self._place - 1]))
        self._after.on_click(lambda _: switch(self._branches[self._place + 1]))

    @property
    def said(self) -> str:
        """What the picker shows, in words."""
        return f"Version {self._place + 1} of {len(self._branches)}"

    def show(self, branches: Sequence[Branch], here: Branch) -> None:
        """Show that `here` is one of these."""
        self._branches, self._place = branches, branches.index(here)
        shown = f'<span aria-hidden="true">{self._place + 1}/{len(branches)}</span>'
        self._number.value = f'<div class="nbagent">{shown}<span class="nbagent-unseen">{self.said}</span></div>'

    def enable(self, is_idle: bool) -> None:
        """Let the buttons work that lead somewhere; none during a run."""
        self._before.disabled = not is_idle or self._place == 0
        self._after.disabled = not is_idle or self._place == len(self._branches) - 1

    def close(self) -> None:
        """Close the widgets."""
        for widget in (*self.box.children, self.box):
            widget.close()


class ConversationPicker:
    """`box` has the list of the agent's conversations, once there are two, and the button that begins another one."""

    def __init__(self, switch: Callable[[Branch], None], begin: Callable[[], None]) -> None:
        #: The thread that is updating the list: changes that it causes are not the user's.
        self._updating: int | None = None
        self._list = widgets.Dropdown(options=[], description="Conversations", layout=widgets.Layout(width="auto"))
        self._new = widgets.Button(description="New chat", tooltip="Begin another conversation; this one stays")
        self.box = widgets.HBox([self._list, self._new]).add_class("nbagent-conversations")
        self._new.on_click(lambda _: begin())
        self._list.observe(lambda change: self._chosen(switch, change["new"]), "value")

    def _chosen(self, switch: Callable[[Branch], None], branch: Branch | None) -> None:
        if branch is not None and self._updating != threading.get_ident():
            switch(branch)

    def update(self, conversations: Sequence[Branch], here: Branch, is_idle: bool) -> None:
        """Show these conversations, of which `here` is the current one."""
        options = tuple((render.printable(each.title), each) for each in conversations)
        self._updating = threading.get_ident()
        try:
            if self._list.options != options:
                self._list.options = options
            if self._list.value is not here:
                self._list.value = here
        finally:
            self._updating = None
        self._list.layout.display = "none" if len(options) < 2 else ""
        self._list.disabled = not is_idle
        self._new.disabled = not is_idle or not here.questions

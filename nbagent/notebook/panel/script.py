"""What ipywidgets can't do for the panel, in `panel.js`: Shift-Enter, names for screen readers, where the focus goes.

It is an enhancement: where a front end has no anywidget, or does not run it, the panel works by what ipywidgets give.
"""

from __future__ import annotations

from pathlib import Path

import anywidget
from traitlets import Int, Unicode


class PanelScript(anywidget.AnyWidget):
    """An invisible part of the panel. `said` is what a screen reader says next, `tab` the number of the open tab.

    It tells `{"ready": True}` when it works, and then `{"ask": text}` for each Enter.
    """

    _esm = Path(__file__).with_name("panel.js")

    said = Unicode().tag(sync=True)
    tab = Int().tag(sync=True)

    def focus(self) -> None:
        """Put the cursor into the question's box."""
        self.send({"focus": True})

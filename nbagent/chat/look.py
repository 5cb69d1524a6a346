"""The script and the style sheets of the panel, for the notebook and for the server's page."""

from __future__ import annotations

from pathlib import Path

from nbagent.core.render import markdown as render
from nbagent.core.render.diff import DIFF_STYLE

SCRIPT = Path(__file__).with_name("panel.js")
#: The style of the question before a tool runs; the panel uses the same colours.
APPROVAL_STYLE = render.STYLE + DIFF_STYLE + render.style_html(Path(__file__).with_name("approval.css"))
PANEL_STYLE = APPROVAL_STYLE + render.style_html(Path(__file__).with_name("panel.css"))

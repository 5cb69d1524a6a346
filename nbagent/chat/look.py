"""The script and the style sheets of the panel, for the notebook and for the server's page."""

from __future__ import annotations

from pathlib import Path

from nbagent.chat.words import TABLE
from nbagent.core.render import markdown as render
from nbagent.core.render.diff import DIFF_STYLE

_FOLDER = Path(__file__).parent
#: The script, with the panel's words in Chinese by the English ones. Words without a translation stay English.
SCRIPT = f'const WORDS = navigator.language.startsWith("zh") ? {TABLE} : {{}};\n' + (_FOLDER / "panel.js").read_text(
    "utf-8"
)
#: The style of the approval question; the panel uses the same colours.
APPROVAL_STYLE = render.STYLE + DIFF_STYLE + render.style_html(Path(__file__).with_name("approval.css"))
PANEL_STYLE = APPROVAL_STYLE + render.style_html(Path(__file__).with_name("panel.css"))

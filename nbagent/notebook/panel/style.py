"""How the panel and a tool's question look: `panel.css`, in the host's colours with fallbacks."""

from __future__ import annotations

from pathlib import Path

from nbagent.core.render.markdown import BAD, CARD, CODE, LINE, MUTED, STYLE

_VARIABLES = {
    "page": "var(--jp-layout-color1, var(--vscode-editor-background, #fff))",
    "text": "var(--jp-content-font-color1, var(--vscode-foreground, #1f2328))",
    "font": "var(--jp-ui-font-family, system-ui, sans-serif)",
    "line": LINE,
    "muted": MUTED,
    "card": CARD,
    "code": CODE,
    "bad": BAD,
}
ACCENT = "#4f46e5"
#: Colours that hosts have no names for, in their light and their dark themes.
_LIGHT = {"accent": ACCENT, "on-accent": "#fff", "you": "#eef2ff"}
_DARK = {"accent": "#a5b4fc", "on-accent": "#111418", "you": "#272c44"}
_IS_DARK = ':is([data-jp-theme-light="false"], .vscode-dark, html[theme="dark"])'


def _rule(selector: str, variables: dict[str, str]) -> str:
    return f"{selector} {{{' '.join(f'--{name}: {value};' for name, value in variables.items())}}}\n"


PANEL_STYLE = "".join(
    [
        STYLE,
        "<style>",
        _rule(":is(.nbagent, .nbagent-panel, .nbagent-ask)", {**_VARIABLES, **_LIGHT}),
        _rule(f"{_IS_DARK} :is(.nbagent, .nbagent-panel, .nbagent-ask)", _DARK),
        Path(__file__).with_name("panel.css").read_text("utf-8"),
        "</style>",
    ]
)

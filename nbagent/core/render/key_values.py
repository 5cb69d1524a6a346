"""Small tables of labels and values for notebooks and terminals, such as the summary of an agent or a trace."""

from __future__ import annotations

from collections.abc import Sequence

from nbagent.core.render import markdown as render

KeyValues = Sequence[tuple[str, str]]


def key_values_html(pairs: KeyValues) -> str:
    """Return a table as safe HTML, in the style of all outputs."""
    rows = (f"<tr><th>{render.escape(label)}</th><td>{render.escape(text)}</td></tr>" for label, text in pairs)
    return render.output_html(f"<table>{''.join(rows)}</table>", formulas=False)


def key_values_text(pairs: KeyValues) -> str:
    """Return the pairs as aligned lines of text.

    >>> print(key_values_text([("runs", "2"), ("model calls", "3: claude-sonnet-5 ×3")]))
    runs         2
    model calls  3: claude-sonnet-5 ×3
    """
    width = max((len(label) for label, _ in pairs), default=0)
    return "\n".join(f"{label:<{width}}  {render.printable(text)}" for label, text in pairs)

"""Fonts for what Matplotlib's own font has no characters for, such as questions in Chinese: any that is installed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.text import Text


def fit_fonts(texts: Iterable[Text]) -> None:
    """Let each text fall back on an installed font that has the characters which its own fonts lack."""
    for text in texts:
        families = text.get_fontfamily()
        if font := _font_with(_lacking(text.get_text(), families)):
            text.set_fontfamily([*families, font])


def boxed(text: str) -> str:
    """The text with a box for each character that no installed font has: Matplotlib would warn of each."""
    import matplotlib as mpl

    families = mpl.rcParams["font.family"]
    lacking = _lacking(text, families)
    if font := _font_with(lacking):
        lacking = _lacking(lacking, [font])
    return "".join("□" if char in lacking else char for char in text)


def _lacking(text: str, families: Sequence[str]) -> str:
    """The characters that none of the fonts has, sorted."""
    if text.isascii():
        return ""
    from matplotlib.font_manager import FontProperties, findfont

    paths = [findfont(FontProperties(family=[family])) for family in families]
    return "".join(sorted(char for char in set(text) if not any(_has(path, char) for path in paths)))


def _has(path: str, char: str) -> bool:
    from matplotlib.font_manager import get_font

    with suppress(OSError, RuntimeError):  # the file has gone, or is none that Matplotlib reads
        return char.isspace() or get_font(path).get_char_index(ord(char)) != 0
    return False


@lru_cache(maxsize=256)
def _font_with(chars: str) -> str | None:
    """The family of an upright font that has most of the characters, or None."""
    from matplotlib.font_manager import fontManager

    if not chars:
        return None
    usual = ("normal", "regular", 400)
    fonts = [font for font in fontManager.ttflist if font.style == "normal" and font.weight in usual]
    # Matplotlib's own last resort has a box for everything
    upright = [font for font in fonts if not font.name.startswith("Last Resort")]
    counts = {font.name: sum(_has(font.fname, char) for char in chars) for font in upright}
    best = max(counts, key=lambda name: counts[name], default="")
    return best if counts.get(best) else None

"""Installed fonts for characters that Matplotlib's own font lacks, for example in Chinese prompts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.text import Text


def fit_fonts(texts: Iterable[Text]) -> None:
    """Let each text fall back to installed fonts for characters that its own fonts lack."""
    lacking = {text: chars for text in texts if (chars := _lacking(text.get_text(), text.get_fontfamily()))}
    found = _fonts_with(_all_of(lacking.values()))
    for text in lacking:
        text.set_fontfamily([*text.get_fontfamily(), *found])


def boxed(texts: Sequence[str]) -> list[str]:
    """Replace characters with a box if no installed font has them, since Matplotlib would warn about them."""
    import matplotlib as mpl

    families = mpl.rcParams["font.family"]
    lacking = _all_of(_lacking(text, families) for text in texts)
    lacking = _lacking(lacking, [*families, *_fonts_with(lacking)])
    return ["".join("□" if char in lacking else char for char in text) for text in texts]


def _all_of(texts: Iterable[str]) -> str:
    return "".join(sorted(set().union(*texts)))


def _lacking(text: str, families: Sequence[str]) -> str:
    """The characters that none of the fonts has, sorted."""
    if text.isascii():
        return ""
    from matplotlib.font_manager import FontProperties, findfont

    paths = [findfont(FontProperties(family=[family])) for family in families]
    return "".join(sorted(char for char in set(text) if not any(_has(path, char) for path in paths)))


def _has(path: str, char: str) -> bool:
    from matplotlib.font_manager import get_font

    with suppress(OSError, RuntimeError):  # the file is gone, or Matplotlib can't read it
        return char.isspace() or get_font(path).get_char_index(ord(char)) != 0
    return False


@lru_cache(maxsize=256)
def _fonts_with(chars: str) -> tuple[str, ...]:
    """Upright font families that together have as many of the characters as possible, the best one first.

    Checking hundreds of fonts takes a second, so this is called once for all texts.
    """
    from matplotlib.font_manager import fontManager

    if not chars:
        return ()
    usual = ("normal", "regular", 400)
    fonts = [font for font in fontManager.ttflist if font.style == "normal" and font.weight in usual]
    # Matplotlib's last resort font has a box for everything
    upright = [font for font in fonts if not font.name.startswith("Last Resort")]
    having = {font.name: {char for char in chars if _has(font.fname, char)} for font in upright}
    found, left = [], set(chars)
    while best := max(having, key=lambda name: len(having[name] & left), default=""):
        if not having[best] & left:
            break
        found.append(best)
        left -= having[best]
    return tuple(found)

"""Installed fonts for characters that Matplotlib's own font lacks, for example in Chinese prompts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.text import Text

#: Usual fonts with Chinese, Japanese and Korean characters.
FAMILIES = [
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Hiragino Sans GB",
    "Arial Unicode MS",
    "Heiti TC",
    "Apple SD Gothic Neo",
    "Microsoft YaHei",
    "SimHei",
    "Yu Gothic",
    "Malgun Gothic",
]


def fit_fonts(texts: Iterable[Text]) -> None:
    """Let each text use installed fonts for characters that its own fonts lack."""
    found = _installed()
    for text in texts:
        if not text.get_text().isascii():
            text.set_fontfamily([*text.get_fontfamily(), *found])


def boxed(texts: Sequence[str]) -> list[str]:
    """Replace characters with a box if no available font has them, since Matplotlib would warn about them."""
    if all(map(str.isascii, texts)):
        return list(texts)
    import matplotlib as mpl
    from matplotlib.font_manager import FontProperties, findfont, get_font

    families = [*mpl.rcParams["font.family"], *_installed()]
    fonts = [get_font(findfont(FontProperties(family=[family]))) for family in families]
    chars = {char for char in set().union(*texts) if any(font.get_char_index(ord(char)) for font in fonts)}
    return ["".join(char if char in chars else "□" for char in text) for text in texts]


def _installed() -> list[str]:
    from matplotlib.font_manager import fontManager

    names = {font.name for font in fontManager.ttflist}
    return [family for family in FAMILIES if family in names]

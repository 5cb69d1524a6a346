r"""Converts formulas to MathML, which browsers can display on pages without a TeX typesetter.

The converter is latex2mathml, from the extra `server`. Its result is reduced to elements and attributes that only
describe a formula. Formulas that it can't convert stay TeX.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache
from xml.etree.ElementTree import Element, SubElement, tostring

from nbagent.core.render.formulas import MAX_CHARS

#: How many characters of formulas in one text are converted. The others stay TeX, because converting takes time.
MAX_CONVERTED = 10 * MAX_CHARS
#: The elements of formulas, with their attributes.
MATHML: dict[str, set[str]] = {
    "math": {"display"},
    "annotation": {"encoding"},
    "menclose": {"notation"},
    "mfrac": {"linethickness"},
    "mi": {"mathvariant"},
    "mn": {"mathvariant"},
    "mo": {"accent", "fence", "form", "largeop", "mathvariant", "maxsize", "minsize", "movablelimits", "stretchy"},
    "mover": {"accent"},
    "mpadded": {"width"},
    "mspace": {"width"},
    "mstyle": {"displaystyle", "scriptlevel"},
    "mtable": {"displaystyle"},
    "mtext": {"mathvariant"},
    **{name: set() for name in ("mphantom", "mroot", "mrow", "msqrt", "msub", "msubsup", "msup")},
    **{name: set() for name in ("mtd", "mtr", "munder", "munderover", "semantics")},
}
#: A word, or a length that moves nothing far away.
_VALUE = re.compile(r"[a-z-]{1,30}|-?0?\.\d{1,3}em|\d(\.\d{1,3})?(em)?")
#: How many parts these elements have. With fewer, the TeX was incomplete.
_PARTS = {
    **dict.fromkeys(["mfrac", "mover", "mroot", "msub", "msup", "munder"], 2),
    **dict.fromkeys(["msubsup", "munderover"], 3),
}
#: Operators with limits below them in a displayed formula.
_LIMITS = {"inf", "lim", "max", "min", "sup"}
_DELIMITERS = re.compile(r"\$\$?|\\[\[\]()]")
#: TeX that the converter doesn't know, as TeX that it knows.
_REWRITTEN = [
    (re.compile(r"\\(begin|end)\{(?:align|aligned|eqnarray|split)\*?\}"), r"\\\1{align*}"),
    (re.compile(r"\\(begin|end)\{(?:gather|gathered|multline)\*?\}"), r"\\\1{matrix}"),
    (re.compile(r"\\(?:nonumber|notag)(?![a-zA-Z])"), ""),
    (re.compile(r"\\(arg|sgn)(?![a-zA-Z])"), r"\\operatorname{\1}"),
]


@lru_cache(maxsize=1_000)
def formula_to_mathml(tex: str) -> str | None:
    r"""Convert a formula with its delimiters to MathML that contains the TeX for copying. Returns None if that fails.

    >>> formula_to_mathml("$x^2$").partition("<annotation")[0]
    '<math display="inline"><semantics><mrow><msup><mi>x</mi><mn>2</mn></msup></mrow>'
    >>> formula_to_mathml(r"$\unknown$")
    """
    from latex2mathml.converter import Converter

    opening = _DELIMITERS.match(tex)
    is_block = opening is None or opening[0] in ("$$", "\\[")
    source = tex if opening is None else tex[opening.end() : -len(opening[0])]
    for pattern, replacement in _REWRITTEN:
        source = pattern.sub(replacement, source)
    converter = Converter(display="block" if is_block else "inline")
    try:
        root = converter.convert_to_element(source)
    except Exception:  # noqa: BLE001  the converter raises many types for wrong, unknown or deep TeX
        return None
    if not all(map(_cleaned, root.iter())):
        return None
    semantics = Element("semantics")
    semantics.extend(root)
    SubElement(semantics, "annotation", encoding="application/x-tex").text = tex
    root[:] = [semantics]
    return tostring(root, encoding="unicode", short_empty_elements=False)


def _cleaned(element: Element) -> bool:
    """Reduce an element to its allowed attributes. Returns whether it can be shown."""
    given, known, text = element.attrib, MATHML.get(element.tag), element.text or ""
    is_unknown = "\\" in text or text == "&" or "linebreak" in given
    if known is None or is_unknown or len(element) != _PARTS.get(element.tag, len(element)):
        return False
    if element.tag in ("msub", "msubsup") and (element[0].text in _LIMITS or "movablelimits" in element[0].attrib):
        element.tag = element.tag.replace("msub", "munder").replace("sup", "over")
        element[0].set("movablelimits", "true")
    element.text = html.unescape(text)
    side = given.get("columnalign")
    element.attrib = {name: value for name, value in given.items() if name in known and _VALUE.fullmatch(value)}
    if element.text == "→":
        element.set("stretchy", "false")  # over one letter, it would become a line
    if element.tag == "mtd" and side in ("left", "right"):
        element.set("class", f"nbagent-{side}")
    return True

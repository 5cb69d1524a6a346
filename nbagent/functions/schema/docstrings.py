"""Parses docstrings in Google, NumPy and reST style into a tool's description and its parameters' descriptions.

>>> parse_docstring("Add.\\n\\nArgs:\\n    a: The first.\\n    b (int): The second.\\n")
('Add.', {'a': 'The first.', 'b': 'The second.'})
"""

from __future__ import annotations

from contextlib import suppress

from docstring_parser import Docstring, ParseError, google, numpydoc, rest


def parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description, and the descriptions of parameters by name. A text in none of the styles is all description."""
    found: list[Docstring] = []
    for parse in (google.parse, numpydoc.parse, rest.parse):
        with suppress(ParseError):
            found.append(parse(text))
    best = max(found, key=lambda parsed: len(parsed.meta), default=Docstring())
    description = best.description or ("" if best.meta else text)
    parameters = {
        name.strip().lstrip("*"): " ".join((parameter.description or "").split())
        for parameter in best.params
        for name in parameter.arg_name.split(",")
    }
    return description.strip(), parameters

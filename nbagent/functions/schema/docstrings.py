"""Parses docstrings in Google, NumPy and reST style into a tool's description and its parameters' descriptions.

>>> parse_docstring("Add.\\n\\nArgs:\\n    a: The first.\\n    b (int): The second.\\n")
('Add.', {'a': 'The first.', 'b': 'The second.'})
"""

from __future__ import annotations

import re
from contextlib import suppress

from docstring_parser import Docstring, ParseError, google, numpydoc, rest

#: A role of Sphinx at the beginning of a line, such as :func:`load`.
_ROLE = re.compile(r"^:(?=\w+:`)", re.MULTILINE)


def parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description, and the descriptions of parameters by name. Text in none of the styles is all description."""
    found: list[Docstring] = []
    below = f"\n{text}"  # the parsers would dedent the rest of a text whose first line is a section
    without_roles = _ROLE.sub(r" \g<0>", below)  # they would be fields, which end the description
    for parse, given in ((google.parse, below), (numpydoc.parse, below), (rest.parse, without_roles)):
        with suppress(ParseError):
            found.append(parse(given))
    best = max(found, key=lambda parsed: len(parsed.meta), default=Docstring())
    description = best.description or ("" if best.meta else text)
    parameters = {
        name.strip().lstrip("*"): " ".join((parameter.description or "").split())
        for parameter in best.params
        for name in parameter.arg_name.split(",")
    }
    return description.strip(), parameters

"""Parses docstrings in Google, NumPy and reST style into a tool's description and its parameters' descriptions.

>>> parse_docstring("Add.\\n\\nArgs:\\n    a: The first.\\n    b (int): The second.\\n")
('Add.', {'a': 'The first.', 'b': 'The second.'})
"""

from __future__ import annotations

import re
from contextlib import suppress

from docstring_parser import Docstring, ParseError, google, numpydoc, rest

#: A Sphinx role at the start of a line, such as :func:`load`.
_ROLE = re.compile(r"^:(?=\w+:`)", re.MULTILINE)


def parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the tool's description, and its parameters' descriptions by name.

    If the style is unknown, the whole text becomes the description.
    """
    found: list[Docstring] = []
    text = f"\n{text}"  # otherwise a section in the first line would make the parsers dedent the rest
    without_roles = _ROLE.sub(r" \g<0>", text)  # a role would count as a field and end the description
    for parse, source in ((google.parse, text), (numpydoc.parse, text), (rest.parse, without_roles)):
        with suppress(ParseError):
            found.append(parse(source))
    best = max(found, key=lambda parsed: len(parsed.meta), default=Docstring())
    description = best.description or ("" if best.meta else text)
    parameters = {
        name.strip().lstrip("*"): " ".join((parameter.description or "").split())
        for parameter in best.params
        for name in parameter.arg_name.split(",")
    }
    return description.strip(), parameters

"""What documentation and error messages don't say: patterns that read as translated, and what to write instead."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

#: A pattern of one sentence, and what to do about it.
PATTERNS = {
    r"\b[Vv]endors?\b": 'write "provider"',
    r"^(?:What|Whatever|Who|Whoever)\b(?!.*\?$)": "begin with the thing that acts, not with a clause",
    r",? too(?:[.,;:)]|$)": 'write "also" before the verb, or leave it out',
    r"\b(?:that|those) of\b": "name the thing again, or use a compound",
    r"\b(?:stands?|stood) (?:in(?! for)|for|by|there|before|after|behind|beside|below|above|on)\b": 'write "is"',
    r"\bbeside\b(?! the notebook)": 'write "next to", "with" or "outside"',
    r"\b[Aa] yes\b|\bsays? yes\b|\banswer is no[.:;,]": 'write "approve" or "deny"',
    r"\bgo(?:es)? on\b|\bwent on\b": 'write "continue"',
    r"\bmend(?:s|ed|ing)?\b": 'write "fix" or "repair"',
    r"\bas ever\b|\ball the same\b|\bhere and there\b": "leave it out",
    r"\b(?:options|bodies|headers|keys) of (?:a |the )?requests?\b": "write a compound: request options",
    r"\btexts? (?:of|by) (?:others|strangers)\b": 'write "untrusted text"',
    r"\bBefore it (?:stands|is)\b|\bIn (?:it|them) (?:is|are)\b": "put the subject first",
    r"\bby (?:itself|themselves)\b": 'write "on its own", or leave it out',
    r"\bis (?:told|held|not held)\b|\bare told\b": "say who learns what",
    r";[^;]*;": "one fact a sentence",
}
_BLOCKS = re.compile(
    r"^---\n.*?^---\n|^<!--.*?-->|^(?:```|~~~).*?^(?:```|~~~)$|^:::.*?$|^\|.*?$|^#.*?$|^!\[.*?$|^<.*?>$",
    re.MULTILINE | re.DOTALL,
)
_MADE = re.compile(r"^<!-- made by.*?<!-- end -->|^<!-- map:.*?<!-- end of the map -->", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`]*`|\]\([^)]*\)|\"[^\"\n]{0,200}\"|\*[^*\n]+\*")


def sentences(page: str) -> Iterator[str]:
    """The sentences of a page of Markdown, without code, tables, titles, quotations and addresses."""
    text = _CODE.sub("…", _BLOCKS.sub("", _MADE.sub("", page)))
    for paragraph in re.split(r"\n\s*\n|^\s*(?:[-*]|\d+\.)\s", text, flags=re.MULTILINE):
        yield from (each for each in re.split(r"(?<=[.!?])\s+", " ".join(paragraph.split())) if each)


def messages(source: str) -> Iterator[str]:
    """The texts of the errors that a module raises."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for part in ast.walk(node.exc):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and " " in part.value.strip():
                    yield from re.split(r"(?<=[.!?])\s+", part.value.strip())


def docstrings(value: object) -> Iterator[str]:
    """The sentences of a public name's docstring and of its public methods, without code."""
    members = vars(value).values() if isinstance(value, type) else ()
    for each in (value, *(member for member in members if not getattr(member, "__name__", "_").startswith("_"))):
        text = inspect.getdoc(each) if callable(each) or isinstance(each, classmethod) else None
        text = re.sub(r"^>>>.*?(?:\n\n|\Z)", "", text or "", flags=re.MULTILINE | re.DOTALL)
        yield from sentences(re.sub(r"^\s*\w+: ", "- ", text, flags=re.MULTILINE))


def faults(sentence: str) -> list[str]:
    """What to change in it.

    >>> faults("Other providers do so, too.")
    ['write "provider"', 'write "also" before the verb, or leave it out']
    """
    return [advice for pattern, advice in PATTERNS.items() if re.search(pattern, sentence)]


def pages(root: Path) -> list[Path]:
    """The pages that are checked."""
    docs = [each for each in (root / "docs").rglob("*.md") if not {"_build", "zh"} & set(each.parts)]
    return [root / "README.md", root / "CONTRIBUTING.md", root / "SECURITY.md", *sorted(docs)]

"""Documents in messages. A text file becomes text between marks, and a PDF becomes a content part.

The part is plain JSON data: `{"type": "document", "media_type": "application/pdf", "data": base64 str, "name": str,
"pages": int}`. Providers that read PDFs receive the file itself. Other providers receive its text.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from nbagent.core.content.marks import END_MARK, begin_mark, without_marks
from nbagent.core.content.pdf import PDF_MARK, page_count, pages_text, pdf_pages
from nbagent.errors import ConfigurationError

#: Claude accepts requests of 32 MB, and base64 makes a file a third larger.
#: https://platform.claude.com/docs/en/build-with-claude/pdf-support
MAX_PDF_BYTES = 20_000_000
MAX_TEXT_BYTES = 1_000_000

Part = dict[str, Any]


def is_document(part: Mapping[str, Any]) -> bool:
    """Whether a part is a document in nbagent's own form. A provider's form has no `data`."""
    return part.get("type") == "document" and "data" in part


def has_document(content: str | Iterable[Mapping[str, Any]]) -> bool:
    """Whether a message's content includes a document."""
    return not isinstance(content, str) and any(map(is_document, content))


def pdf_part(data: bytes, name: str) -> Part:
    """Return the content part for a PDF. Raises `ConfigurationError` if providers would refuse the PDF because it is
    too large, broken or encrypted.
    """
    if len(data) > MAX_PDF_BYTES:
        limit = f"PDFs of more than {MAX_PDF_BYTES // 10**6} MB can't be sent"
        raise ConfigurationError(f"{name} is {len(data) / 1e6:.1f} MB: {limit}. Split it, or pass its text.")
    try:
        pages = page_count(data)
    except ConfigurationError as error:
        raise ConfigurationError(f"{name}: {error}.") from error.__cause__
    encoded = base64.b64encode(data).decode("ascii")
    return {"type": "document", "media_type": "application/pdf", "data": encoded, "name": name, "pages": pages}


def file_part(data: bytes, name: str) -> Part | None:
    """Return the content part of a PDF or a text file, or None for other data. Raises `ConfigurationError` if the file
    is too large, or is a PDF that providers would refuse.

    >>> file_part(b"Dear Sir", "letter.txt")["text"]
    '\\n\\n<attached name="letter.txt" about="8 characters">\\nDear Sir\\n</attached>'
    """
    if data.startswith(PDF_MARK):
        return pdf_part(data, name)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    if not text or "\0" in text:
        return None
    if len(data) > MAX_TEXT_BYTES:
        limit = f"text files of more than {MAX_TEXT_BYTES // 10**6} MB are not sent"
        raise ConfigurationError(f"{name} is {len(data) / 1e6:.1f} MB: {limit}. Pass a part of its text.")
    return _attached(name, f"{len(text):,} characters", text)


def as_text(part: Mapping[str, Any]) -> Part:
    """Return a PDF's text, with a note that the model sees only the text. Raises `ConfigurationError` if the PDF has no
    text.
    """
    text = pages_text(pdf_pages(base64.b64decode(part["data"]))[0])
    return _attached(part["name"], f"PDF, {_pages(part)}; only its text, without pictures and layout", text)


def document_note(part: Mapping[str, Any], why: str = "") -> str:
    """Return a note that replaces a document. It describes the document briefly and says `why` it is missing.

    >>> document_note({"name": "paper.pdf", "pages": 3})
    '[document: paper.pdf, 3 pages]'
    """
    return f"[document: {', '.join(filter(None, (str(part.get('name')), _pages(part), why)))}]"


def _pages(part: Mapping[str, Any]) -> str:
    pages = part.get("pages")
    return f"{pages} page{'s' * (pages != 1)}"


def _attached(name: str, about: str, text: str) -> Part:
    return {"type": "text", "text": f"\n\n{begin_mark(name, about)}{without_marks(text)}{END_MARK}"}

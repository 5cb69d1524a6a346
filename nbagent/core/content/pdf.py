"""Reads PDF files with pypdf: checks whether they are readable, and extracts their text."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nbagent.errors import ConfigurationError

if TYPE_CHECKING:
    from pypdf import PdfReader

#: The first bytes of a PDF.
PDF_MARK = b"%PDF"


def page_count(data: bytes) -> int:
    """Return a PDF's number of pages.

    If providers would refuse the PDF, raises a `ConfigurationError` that does not name the file.
    """
    with _reading(data) as reader:
        encrypted, pages = reader.is_encrypted, 0 if reader.is_encrypted else len(reader.pages)
    if encrypted:
        raise ConfigurationError("this PDF is encrypted. Save a copy without a password and without restrictions")
    if not pages:
        raise ConfigurationError("this PDF has no pages")
    return pages


def pdf_pages(data: bytes, *, max_chars: float = math.inf, seconds: float = math.inf) -> tuple[list[str], int]:
    """Return the text of each page, up to the page that reaches a limit, and the total number of pages.

    If there is no text, raises a `ConfigurationError` that does not name the file.
    """
    pages: list[str] = []
    start = time.monotonic()
    with _reading(data) as reader:
        total = len(reader.pages)
        for page in reader.pages:
            pages.append(page.extract_text().strip())
            if sum(map(len, pages)) > max_chars or time.monotonic() - start > seconds:
                break
    if not any(pages):
        raise ConfigurationError("this PDF has no text, so it may be scanned. Save its pages as images, and use those")
    return pages, total


def pages_text(pages: list[str]) -> str:
    """Join pages into one text, each below its page number.

    >>> pages_text(["Dear Sir,", "Yours"])
    'Page 1\\nDear Sir,\\n\\nPage 2\\nYours'
    """
    return "\n\n".join(f"Page {number}\n{page}" for number, page in enumerate(pages, 1))


@contextmanager
def _reading(data: bytes) -> Iterator[PdfReader]:
    from pypdf import PdfReader  # takes 0.1 s

    try:
        yield PdfReader(io.BytesIO(data))
    except Exception as error:  # pypdf raises many types of errors for a broken file
        raise ConfigurationError(f"this PDF can't be read: {type(error).__name__}: {error}") from error

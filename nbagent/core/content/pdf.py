"""The text of PDF files, by pypdf. What models read of a PDF that a user attaches, or names in a table."""

from __future__ import annotations

import io

from nbagent.errors import ConfigurationError, MissingDependencyError

#: How a PDF begins.
PDF_MARK = b"%PDF"


def pdf_pages(data: bytes) -> list[str]:
    """The text of each page. Raises `ConfigurationError`, without the file's name, if there is none."""
    try:
        from pypdf import PdfReader
    except ImportError:
        raise MissingDependencyError("reading a PDF needs pypdf: pip install 'nbagent[pdf]'") from None
    try:
        pages = [page.extract_text().strip() for page in PdfReader(io.BytesIO(data)).pages]
    except Exception as error:  # pypdf raises many kinds for a file that is broken or has a password
        raise ConfigurationError(f"this PDF can't be read: {type(error).__name__}: {error}") from error
    if not any(pages):
        raise ConfigurationError(
            "this PDF has no text, perhaps it was scanned. Save its pages as images, and use these"
        )
    return pages


def pages_text(pages: list[str]) -> str:
    """Pages as one text, each below its number.

    >>> pages_text(["Dear Sir,", "Yours"])
    'Page 1\\nDear Sir,\\n\\nPage 2\\nYours'
    """
    return "\n\n".join(f"Page {number}\n{page}" for number, page in enumerate(pages, 1))

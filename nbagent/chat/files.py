"""Creates attachments from dropped, pasted or chosen files, for panels and the server's page."""

from __future__ import annotations

import io
import os
from typing import Any

from nbagent.chat.attachments import Attachment, parts_of
from nbagent.core.content.images import image_media_type, image_part, images_in
from nbagent.core.content.pdf import PDF_MARK, pages_text, pdf_pages
from nbagent.core.messages import Content
from nbagent.errors import ConfigurationError
from nbagent.functions.formatting import format_result, table_text
from nbagent.functions.secret_values import HIDDEN, without_secrets

#: Larger files are not read.
MAX_FILE_BYTES = 20_000_000
#: Characters of one attachment. A longer one is shortened.
MAX_CHARS = 100_000
#: Seconds to spend on a PDF's pages. A file of a few kilobytes can have thousands that take long.
PDF_SECONDS = 10
#: Wider tables are attached as text, because parsing them takes minutes and gigabytes.
MAX_COLUMNS = 2_000
_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def from_bytes(name: str, data: bytes, remedy: str) -> Attachment:
    """Create an attachment from a file's name and content. Raises `ConfigurationError` with the `remedy` if the file
    can't be attached.
    """
    if len(data) > MAX_FILE_BYTES:
        raise not_attached(name, f"it has more than {MAX_FILE_BYTES // 10**6} MB. {remedy}")
    if image_media_type(data):
        return from_image(name, data)
    if data.startswith(PDF_MARK):
        try:
            pages, total = pdf_pages(data, max_chars=MAX_CHARS, seconds=PDF_SECONDS)
        except ConfigurationError as error:  # it has no text
            raise not_attached(name, str(error)) from error.__cause__
        first = f"the first {len(pages)} of " if len(pages) < total else ""
        about = f"PDF, {first}{total} page{'s' * (total != 1)}"
        return checked(name, about, without_secrets(pages_text(pages), MAX_CHARS))
    ending = os.path.splitext(name.rstrip('"'))[1].lower()
    if ending in _SEPARATORS and (frame := _table(data, _SEPARATORS[ending])) is not None:
        return checked(name, f"table {len(frame)}×{len(frame.columns)}", _text_of(frame))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise not_attached(name, f"it is neither UTF-8 text nor a PNG, JPEG, GIF or WebP image. {remedy}")
    about = f"{len(text):,} characters{', shortened' if len(text) > MAX_CHARS else ''}"
    return checked(name, about, without_secrets(text, MAX_CHARS))


def from_image(name: str, value: Any) -> Attachment:
    """Create an attachment from an image in any form that messages accept. Raises `ConfigurationError` for any other
    value.
    """
    parts = [image_part(value)]
    size = [f"{'×'.join(map(str, image.size or ()))} {image.format}" for image in images_in(parts)]
    return Attachment(name, " ".join(["image", *size]), parts)


def checked(name: str, about: str, content: Content) -> Attachment:
    """Create the attachment. Its description says whether secrets in it are hidden."""
    texts = [part.get("text", "") for part in parts_of(content)]
    is_masked = any(HIDDEN in text for text in texts)
    return Attachment(name, f"{about}, secrets hidden" if is_masked else about, content)


def _text_of(frame: Any) -> Content:
    return without_secrets(table_text(frame) or format_result(frame), MAX_CHARS)


def _table(data: bytes, separator: str) -> Any:
    """The data frame; None if it is too wide or can't be parsed."""
    import pandas as pd

    if data.partition(b"\n")[0].count(separator.encode()) > MAX_COLUMNS:
        return None
    try:
        return pd.read_csv(io.BytesIO(data), sep=separator, low_memory=False)
    except ValueError:
        return None


def not_attached(name: str, reason: str) -> ConfigurationError:
    """The error for a file or an object that can't be attached."""
    return ConfigurationError(f"{name} can't be attached: {reason}.")

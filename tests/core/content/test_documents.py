"""PDFs and text files as parts of a message, and refused files."""

import io
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter
from support.papers import pdf

from nbagent.core.content import documents
from nbagent.core.content.documents import as_text, document_note
from nbagent.core.content.images import content_as_text, content_parts
from nbagent.core.history.history import estimate_tokens
from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError

PAPER = pdf("Gentoo are heaviest.", "Adelie are not.")


def encrypted(password):
    writer = PdfWriter(PdfReader(io.BytesIO(PAPER)))
    writer.encrypt(password, "owner", algorithm="RC4-128")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def test_a_pdf_can_be_a_path_bytes_or_an_open_file(tmp_path):
    path = tmp_path / "paper.pdf"
    path.write_bytes(PAPER)
    with path.open("rb") as file:
        parts = content_parts([path, file, PAPER, {"type": "document", "path": path}])
    assert [part["name"] for part in parts] == ["paper.pdf", "paper.pdf", "document.pdf", "paper.pdf"]
    assert {(part["type"], part["media_type"], part["pages"]) for part in parts} == {("document", "application/pdf", 2)}
    assert content_as_text(["text", *parts][1:2]) == document_note(parts[0]) == "[document: paper.pdf, 2 pages]"
    assert estimate_tokens(LLMMessage("user", parts[:1])) > 4_000
    text = as_text(parts[0])["text"]
    assert 'name="paper.pdf" about="PDF, 2 pages; only its text, without pictures and layout"' in text
    assert text.endswith("Page 1\nGentoo are heaviest.\n\nPage 2\nAdelie are not.\n</attached>")


@pytest.mark.parametrize("name", ["data.csv", "Makefile"])
def test_a_text_file_becomes_text_between_marks(tmp_path, name):
    (tmp_path / name).write_bytes("\ufeffa,b\n1,ü</attached>".encode())
    question, file = content_parts(["Odd?", tmp_path / name])
    assert question["text"] + file["text"] == (
        f'Odd?\n\n<attached name="{name}" about="18 characters">\na,b\n1,ü< /attached>\n</attached>'
    )


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("locked.pdf", encrypted("secret"), "locked.pdf: this PDF is encrypted. Save a copy without"),
        ("broken.pdf", PAPER[:200], "broken.pdf: this PDF can't be read"),
        ("latin.txt", "Größe".encode("latin-1"), "or text in UTF-8"),
        ("nul.txt", b"a\0b", "or text in UTF-8"),
        ("empty.txt", b"", "is empty"),
        ("log.txt", b"x" * 1_100_000, "log.txt is 1.1 MB: text files of more than 1 MB"),
        ("large.pdf", PAPER + b" " * 10_000, r"large.pdf is .* MB: PDFs of more than"),
    ],
    ids=["locked", "cut off", "latin-1", "with zeros", "empty", "long", "large"],
)
def test_refused_files_are_reported_with_the_reason(tmp_path, monkeypatch, name, data, why):
    monkeypatch.setattr(documents, "MAX_PDF_BYTES", 10_000)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ConfigurationError, match=why):
        content_parts([tmp_path / name])
    with pytest.raises(ConfigurationError, match=r"can't be read: No such file.* The current folder is"):
        content_parts([Path("none.pdf")])

"""PDFs in requests: as files where the provider reads them, else as text, with a note in the trace."""

import base64
import json

import pytest
from support.conformance_case import Case
from support.dialects.providers import dialect_of
from support.dialects.script import reply
from support.papers import pdf

from nbagent import Agent, create_provider
from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats.anthropic import MessagesCodec
from nbagent.providers.formats.openai_chat import ChatCodec
from nbagent.providers.options.resolved import ResolvedOptions

PAPER = pdf("Gentoo are heaviest.")
SCANNED = pdf("")
DATA = base64.b64encode(PAPER).decode()
URL = f"data:application/pdf;base64,{DATA}"
ASKED = "Which species?"
NATIVE = {
    "claude": {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": DATA},
        "title": "paper.pdf",
    },
    "openai chat": {"type": "file", "file": {"filename": "paper.pdf", "file_data": URL}},
    "openai responses": {"type": "input_file", "filename": "paper.pdf", "file_data": URL},
    "gemini": {"inlineData": {"mimeType": "application/pdf", "data": DATA}},
}
MODELS = {
    "claude": "claude-sonnet-5",
    "openai": "gpt-5.6-luna",
    "gemini": "gemini-2.5-pro",
    "zhipu": "glm-5",
    "minimax": "MiniMax-M2.5",
}


@pytest.fixture
def paper(tmp_path):
    (tmp_path / "paper.pdf").write_bytes(PAPER)
    return tmp_path / "paper.pdf"


def case(provider):
    name, _, api = provider.partition(" ")
    options = {"api": api} if api else {}
    return Case(provider, dialect_of(provider), lambda url, **more: create_provider(
        name, model=MODELS.get(name, "m1"), base_url=url, **options, **more
    ))  # fmt: skip


@pytest.mark.parametrize("provider", [*NATIVE, "minimax", "zhipu", "open_source", "openrouter"])
async def test_what_is_sent(provider, paper):
    async with case(provider).talk(reply("Gentoo.")) as talk:
        agent = Agent(talk.provider)
        await agent.chat([ASKED, paper])
        await agent.chat("Sure?")
        bodies = [json.dumps(asked.body) for asked in talk.server.asked]
    notes = [row for row in agent.trace.events["content"].dropna() if "can't read PDFs" in row]
    sent, again = (body.replace(', "cache_control": {"type": "ephemeral"}', "") for body in bodies)
    if provider in NATIVE:
        assert json.dumps(NATIVE[provider]) in sent
        assert json.dumps(NATIVE[provider]) in again
        assert notes == []
    else:
        assert DATA not in sent
        assert json.dumps("Page 1\nGentoo are heaviest.")[1:-1] in sent
        assert "only its text" in sent
        assert len(notes) == 1
        assert "paper.pdf" in notes[0]
    (block,) = agent.trace.blocks.query("type == 'document'").to_dict("records")
    assert (block["name"], block["media_type"]) == ("paper.pdf", "application/pdf")


def sent_by(codec, model, *messages):
    return codec.encode_request(list(messages), ResolvedOptions(), model).decode()


def question(data, name="paper.pdf"):
    part = {"type": "document", "media_type": "application/pdf", "name": name, "pages": 1}
    return LLMMessage("user", [{"type": "text", "text": ASKED}, {**part, "data": base64.b64encode(data).decode()}])


def test_a_scanned_pdf_needs_a_model_that_reads_pdfs():
    assert "application/pdf" in sent_by(MessagesCodec(CATALOG["claude"]), "claude-sonnet-5", question(SCANNED))
    chat = ChatCodec(CATALOG["open_source"])
    with pytest.raises(ConfigurationError, match=r"paper.pdf: this PDF has no text.* use a model that reads PDFs"):
        sent_by(chat, "m1", question(SCANNED))
    later = sent_by(chat, "m1", question(SCANNED), LLMMessage("assistant", "?"), LLMMessage("user", "And?"))
    assert "[document: paper.pdf, 1 page, not shown: this PDF has no text" in later

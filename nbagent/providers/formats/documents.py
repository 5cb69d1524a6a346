"""Documents in a conversation, for models that read PDFs and for models that need the text of PDFs."""

from __future__ import annotations

from collections.abc import Sequence

from nbagent.core.content.documents import as_text, document_note, has_document, is_document
from nbagent.core.content.images import Part, joined_content
from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError


def sendable_documents(messages: Sequence[LLMMessage], takes_pdfs: bool) -> Sequence[LLMMessage]:
    """Replace PDFs in tool results with their text, or PDFs in all messages if the model does not accept them.

    Raises `ConfigurationError` if a document in the prompt has no text. An earlier document without text becomes a
    description.
    """
    if not any(has_document(message.content) for message in messages):
        return messages
    prompt = messages[-1]
    return [_with_text(each, each is prompt) if _needs_text(each, takes_pdfs) else each for each in messages]


def sent_as_text(messages: Sequence[LLMMessage], takes_pdfs: bool) -> list[str]:
    """The names of documents that are sent as text."""
    contents = [message.content for message in messages if _needs_text(message, takes_pdfs)]
    return [part["name"] for content in contents for part in content if isinstance(part, dict) and is_document(part)]


def _needs_text(message: LLMMessage, takes_pdfs: bool) -> bool:
    return has_document(message.content) and not (takes_pdfs and message.role == "user")


def _with_text(message: LLMMessage, is_prompt: bool) -> LLMMessage:
    """The message with its documents as text. The result is cached in it, so a PDF is read only once."""
    cached: LLMMessage | None = message.encoded.get(_with_text)
    if cached is None:
        parts = [] if isinstance(message.content, str) else message.content
        cached = message.replace(content=joined_content(_text_part(part, is_prompt) for part in parts))
        message.encoded[_with_text] = cached
    return cached


def _text_part(part: Part, is_prompt: bool) -> Part:
    if not is_document(part):
        return part
    try:
        return as_text(part)
    except ConfigurationError as error:
        if is_prompt:
            fix = "Or use a model that reads PDFs: Claude, OpenAI or Gemini"
            raise ConfigurationError(f"{part['name']}: {error}. {fix}.") from error.__cause__
        return {"type": "text", "text": document_note(part, f"not shown: {error}")}

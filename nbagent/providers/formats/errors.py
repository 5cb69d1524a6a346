"""What a vendor's error body says, and which of nbagent's errors it means."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from nbagent.errors import (
    AuthenticationError,
    BadRequestError,
    ContextLengthError,
    ImageInputError,
    ModelNotFoundError,
    ProviderError,
    RateLimitError,
    ServerError,
)

_BY_WORD: dict[str, type[ProviderError]] = {
    **dict.fromkeys(("authentication_error", "permission_error", "invalid_api_key"), AuthenticationError),
    **dict.fromkeys(("not_found_error", "model_not_found"), ModelNotFoundError),
    **dict.fromkeys(("rate_limit_error", "rate_limit_exceeded"), RateLimitError),
    **dict.fromkeys(("context_length_exceeded", "exceed_context_size_error"), ContextLengthError),
    **dict.fromkeys(("invalid_request_error", "invalid_prompt", "content_filter"), BadRequestError),
}
_CONTEXT_PHRASES = (
    "maximum context length",
    "context length exceeded",
    "context window",
    "prompt is too long",
    "exceeds the available context size",
    "range of input length should be",
    "exceeds the context length",
    "exceeds max length",
    "exceed context limit",
    "maximum prompt length",
    "exceeds the maximum number of tokens allowed",
)
#: What OpenAI, DeepSeek, Zhipu, OpenRouter, Ollama, llama.cpp and vLLM say, with 400, 404 or 500, if the model takes no
#: images. An image that is too large or of a wrong format is another error.
_NO_IMAGES = re.compile(
    r"(?:not|n't) support (?:images?|vision|multimodal)(?: inputs?| content)?(?! (?:type|format|media|size|file))\b"
    r"|support image input|(?:images?(?: inputs?| content)?|image_url|vision)['\"`]? (?:is|are) (?:not|only) "
    r"(?:supported|enabled|allowed)(?! format)|not a multimodal model|at most 0 image|required for image input"
    r"|unknown variant [`'\"]?image_url|取值范围 \['text'\]",
    re.IGNORECASE,
)
#: Gemini refuses a wrong key with 400, like any bad argument.
_WRONG_KEY_PHRASES = ("api key not valid", "api key expired", "api_key_invalid")


def error_message(body: Any) -> tuple[str, tuple[str, ...]]:
    """The text of a vendor's error object, and the words (code, type, status) that classify it.

    >>> error_message({"error": {"message": "slow down", "type": "rate_limit_error", "code": None}})
    ('slow down', ('rate_limit_error',))
    """
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return str(body), ()
    error = body.get("error") or body.get("base_resp") or body
    if not isinstance(error, dict):
        return str(error), ()
    words = tuple(str(word) for key in ("code", "type", "status") if (word := error.get(key)) is not None)
    text = next((error[key] for key in ("message", "status_msg", "detail", "msg") if error.get(key)), None)
    return (text if isinstance(text, str) else json.dumps(text or error, ensure_ascii=False)), words


def error_class(message: str, words: Sequence[str], status: int | None = None) -> type[ProviderError]:
    """The class of a vendor's error, by its HTTP status, else by the words in its body."""
    words = [word.lower() for word in words]
    low = message.lower()
    if any(phrase in low for phrase in _CONTEXT_PHRASES) or "context_length_exceeded" in words:
        return ContextLengthError
    if any(phrase in low for phrase in _WRONG_KEY_PHRASES):
        return AuthenticationError
    if status not in (401, 403, 429) and _NO_IMAGES.search(message):
        return ImageInputError
    if status is None:
        status = next((int(word) for word in words if word.isdigit() and 400 <= int(word) < 600), None)
    if status is None:
        return next((_BY_WORD[word] for word in words if word in _BY_WORD), ServerError)
    if status in (408, 409) or status >= 500:
        return ServerError
    by_status = {401: AuthenticationError, 403: AuthenticationError, 404: ModelNotFoundError}
    by_status |= {402: RateLimitError, 429: RateLimitError}
    return by_status.get(status, BadRequestError)


def error_in_answer(body: Any) -> ProviderError:
    """The error in an answer with status 200. It may be tried again, unless it would come again."""
    message, words = error_message(body)
    cls = error_class(message, words)
    lasting = issubclass(cls, AuthenticationError | ModelNotFoundError | ContextLengthError | ImageInputError)
    return cls(message, should_retry=not lasting)

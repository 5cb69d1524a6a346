"""Reads a provider's error body, and finds nbagent's error class for it."""

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
    QuotaError,
    RateLimitError,
    RegionError,
    ServerError,
)

_BY_WORD: dict[str, type[ProviderError]] = {
    **dict.fromkeys(("authentication_error", "permission_error", "invalid_api_key"), AuthenticationError),
    **dict.fromkeys(("not_found_error", "model_not_found"), ModelNotFoundError),
    **dict.fromkeys(("rate_limit_error", "rate_limit_exceeded"), RateLimitError),
    "exceed_context_size_error": ContextLengthError,
    **dict.fromkeys(("invalid_request_error", "invalid_prompt", "content_filter"), BadRequestError),
}
#: Codes that are more specific than their status. The numbers are Zhipu's (1113, 1261, 1304 to 1310) and MiniMax's.
#: https://docs.bigmodel.cn/cn/faq/api-code, https://help.aliyun.com/en/model-studio/error-code
_BY_CODE: dict[str, type[ProviderError]] = {
    **dict.fromkeys(("context_length_exceeded", "1261"), ContextLengthError),
    **dict.fromkeys(("insufficient_quota", "exceeded_current_quota_error", "billing_not_active"), QuotaError),
    **dict.fromkeys(("billing_error", "billing_hard_limit_reached", "insufficient_balance"), QuotaError),
    **dict.fromkeys(("arrearage", "allocationquota.freetieronly"), QuotaError),
    **dict.fromkeys(("1113", "1304", "1308", "1309", "1310", "1008", "2056"), QuotaError),
    "unsupported_country_region_territory": RegionError,
}
#: Texts that Anthropic and Gemini send with status 400 instead of a code.
_NO_CREDIT = re.compile(r"credit balance is too low|insufficient (?:account )?(?:balance|credits)", re.IGNORECASE)
_REGION = re.compile(r"(?:country|region|territory|location is)(?:,? \w+){0,3} not supported", re.IGNORECASE)
#: DashScope also uses `insufficient_quota` for a limit on tokens per minute.
_PER_MINUTE = re.compile(r"allocated quota exceeded|#token-limit|per[- ]minute", re.IGNORECASE)
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
#: Texts from OpenAI, DeepSeek, Zhipu, OpenRouter, Ollama, llama.cpp and vLLM, with status 400, 404 or 500, if the model
#: does not accept images. An image that is too large or in the wrong format is a different error.
_NO_IMAGES = re.compile(
    r"(?:not|n't) support (?:images?|vision|multimodal)(?: inputs?| content)?(?! (?:type|format|media|size|file))\b"
    r"|support image input|(?:images?(?: inputs?| content)?|image_url|vision)['\"`]? (?:is|are) (?:not|only) "
    r"(?:supported|enabled|allowed)(?! format)|not a multimodal model|at most 0 image|required for image input"
    r"|unknown variant [`'\"]?image_url|取值范围 \['text'\]",
    re.IGNORECASE,
)
#: Gemini refuses a wrong key with status 400, like any bad argument.
_WRONG_KEY_PHRASES = ("api key not valid", "api key expired", "api_key_invalid")


def error_message(body: Any) -> tuple[str, tuple[str, ...]]:
    """The text of a provider's error object, and the words (code, type, status) that classify it.

    >>> error_message({"error": {"message": "slow down", "type": "rate_limit_error", "code": None}})
    ('slow down', ('rate_limit_error',))
    """
    error = _error_of(body)
    if not isinstance(error, dict):
        return str(error), ()
    words = tuple(str(word) for key in (*_CODES, "type") if (word := error.get(key)) is not None)
    text = next((error[key] for key in ("message", "status_msg", "detail", "msg") if error.get(key)), None)
    text = text if isinstance(text, str) else json.dumps(text or error, ensure_ascii=False)
    parameter = error.get("param")  # OpenAI names it separately
    if isinstance(parameter, str) and parameter and parameter not in text:
        text = f"{text.rstrip('.')} (parameter {parameter!r})"
    return text, words


def _error_of(body: Any) -> Any:
    """The error in a body, which some providers wrap."""
    body = body[0] if isinstance(body, list) and body else body
    return (body.get("error") or body.get("base_resp") or body) if isinstance(body, dict) else body


#: The fields that contain a code, for most providers, for MiniMax and for Gemini.
_CODES = ("code", "status_code", "status")


def error_code(body: Any, status: int | None = None) -> str | None:
    """The provider's own code, unless it merely repeats the HTTP status.

    >>> error_code({"error": {"code": "1214", "message": "messages 参数非法"}}, 400)
    '1214'
    >>> error_code({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}, 429)
    'RESOURCE_EXHAUSTED'
    """
    error = _error_of(body)
    if not isinstance(error, dict):
        return None
    codes = (str(error[key]) for key in _CODES if isinstance(error.get(key), str | int))
    return next((code for code in codes if code and code != str(status)), None)


def retry_delay(body: Any) -> float | None:
    """The number of seconds to wait, from Google's `RetryInfo` in the error's details:
    https://cloud.google.com/apis/design/errors
    """
    details = error.get("details") if isinstance(error := _error_of(body), dict) else None
    delays = re.findall(r'"retryDelay": "(\d+(?:\.\d+)?)s"', json.dumps(details))
    return float(delays[0]) if delays else None


def error_class(message: str, words: Sequence[str], status: int | None = None) -> type[ProviderError]:
    """nbagent's class for a provider's error, based on its message, its HTTP status and the words from its body."""
    words = [word.lower() for word in words]
    low = message.lower()
    if any(phrase in low for phrase in _CONTEXT_PHRASES):
        return ContextLengthError
    by_code = next((_BY_CODE[word] for word in words if word in _BY_CODE), None)
    if by_code is not None and not (by_code is QuotaError and _PER_MINUTE.search(message)):
        return by_code
    if status == 402 or _NO_CREDIT.search(message):
        return QuotaError
    if status in (400, 403) and _REGION.search(message):
        return RegionError
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
    return (by_status | {429: RateLimitError}).get(status, BadRequestError)


#: Errors that a retry can't fix. Providers also send them with status 200.
_LASTING = (AuthenticationError, ModelNotFoundError, ContextLengthError, ImageInputError, QuotaError, RegionError)


def error_in_answer(body: Any) -> ProviderError:
    """The error in a response with status 200. It is marked as retryable unless its class shows that a retry would fail
    again.
    """
    message, words = error_message(body)
    cls = error_class(message, words)
    return cls(message, code=error_code(body), should_retry=not issubclass(cls, _LASTING))

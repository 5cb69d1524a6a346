"""What HTTP statuses, and the exceptions of HTTP libraries and SDKs, mean in nbagent's own error tree."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from nbagent.errors import (
    ConfigurationError,
    IncompleteStreamError,
    InvalidResponseError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
)
from nbagent.providers.formats.errors import error_class, error_message
from nbagent.providers.http.redaction import without_secrets
from nbagent.providers.http.retry import retry_headers

#: Characters of a vendor's explanation that are looked at; what an error keeps of them is cut by `shortened`, later:
#: a key that the vendor repeats can be found in a whole text only.
TEXT_LIMIT = 8192
_SHOWN = 500


def request_id(headers: Mapping[str, str]) -> str | None:
    """The vendor's id of the request, which its support asks for."""
    return headers.get("x-request-id") or headers.get("request-id")


def status_error(status: int, headers: Mapping[str, str], content: bytes, request: Any = None) -> ProviderError:
    """The error that an HTTP answer with an error status means, without the secrets that were sent in the request."""
    text = without_secrets(content.decode("utf-8", "replace").strip(), request)
    asked = retry_headers(headers)
    try:
        body = json.loads(text)
        message, words = error_message(body)
        asked["retry_after"] = _retry_info(body) if asked["retry_after"] is None else asked["retry_after"]
    except (ValueError, RecursionError):
        body, message, words = None, _without_explanation(text, status, headers, request), ()
    if status == 402:  # no credit is left, and waiting brings none
        asked["should_retry"] = False
    cls = error_class(message, words, status) if status >= 400 else InvalidResponseError
    parameter = _refused_parameter(body)
    if parameter and parameter not in message:
        message = f"{message[: TEXT_LIMIT - 100].rstrip('.')} (parameter {parameter!r})"
    return cls(
        message[:TEXT_LIMIT] or "no explanation was given",
        status=status,
        request_id=request_id(headers) or _id_in(body),
        **asked,
    )


def _refused_parameter(body: Any) -> str | None:
    """What OpenAI names as the wrong part of the request beside its message, which may not name it."""
    error = body.get("error") if isinstance(body, dict) else None
    named = error.get("param") if isinstance(error, dict) else None
    return named[:100] if isinstance(named, str) else None


def _id_in(body: Any) -> str | None:
    """The request's id where it stands in the body alone (Claude, DashScope)."""
    named = body.get("request_id") if isinstance(body, dict) else None
    return named[:100] if isinstance(named, str) else None


def shortened(text: str) -> str:
    """An explanation of a length that can be read."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN].rstrip()} …"


def _retry_info(body: Any) -> float | None:
    """Seconds to wait, where Google says so: in the error's details, not in a header.

    Format: https://cloud.google.com/apis/design/errors (google.rpc.RetryInfo)
    """
    body = body[0] if isinstance(body, list) and body else body
    error = body.get("error") if isinstance(body, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (number := re.fullmatch(r"(\d+(?:\.\d+)?)s", delay)):
            return float(number[1])
    return None


def readable(text: str) -> str:
    """A body that is no JSON in a few words.

    >>> readable("<html><title>Sign in</title>…"), readable("Ollama is running")
    ('an HTML page (Sign in)', "the text 'Ollama is running'")
    """
    if not text:
        return "an empty answer"
    if text.startswith("<"):
        title = re.search(r"<title[^>]*>(.*?)</title>", text[:TEXT_LIMIT], re.IGNORECASE | re.DOTALL)
        return f"an HTML page{f' ({title[1].strip()})' if title else ''}"
    if "\0" in text or text.count("\N{REPLACEMENT CHARACTER}") > len(text) / 10:
        return "binary data"
    return f"the text '{text[:TEXT_LIMIT]}'"


def _without_explanation(text: str, status: int, headers: Mapping[str, str], request: Any) -> str:
    """What an error whose body is no JSON says."""
    if 300 <= status < 400 and (elsewhere := headers.get("location")):
        return f"the server sends the request elsewhere, to {without_secrets(elsewhere, request)}"
    told = readable(text)
    return text if told.startswith("the text ") else f"{told} came instead of an explanation"


#: The exceptions of httpx, httpx2 and both SDKs, by the names they share, the special before the general.
_BY_NAME: dict[str, type[ProviderError]] = {
    "TimeoutException": ProviderTimeoutError,
    "APITimeoutError": ProviderTimeoutError,
    "TransportError": ProviderConnectionError,
    "APIConnectionError": ProviderConnectionError,
    "DecodingError": IncompleteStreamError,
    "StreamError": IncompleteStreamError,
}


def provider_error(
    exc: Exception, streaming: bool, timeout: float | None = None
) -> ProviderError | ConfigurationError | None:
    """What an exception of an HTTP library or SDK means here; None for any other exception.

    `streaming` tells that the answer had begun: a connection that breaks then has broken the stream. `timeout` is how
    many seconds without a byte were too many, where that is known.
    """
    names = [cls.__name__ for cls in type(exc).__mro__]
    cause = _innermost(exc)
    if isinstance(cause, ConfigurationError):  # found on the way to a connection; an SDK may have wrapped it
        return cause
    if "APIStatusError" in names:
        answer: Any = exc
        response = answer.response
        return status_error(response.status_code, response.headers, response.content, response.request)
    if "InvalidURL" in names or "UnsupportedProtocol" in names or "LocalProtocolError" in names:
        return ConfigurationError(f"The request can't be sent: {_cause(exc).rstrip('.')}. Check base_url and api_key.")
    cls = next((_BY_NAME[name] for name in names if name in _BY_NAME), None)
    if cls is None:
        return None
    if streaming and cls is ProviderConnectionError:
        return IncompleteStreamError(f"the connection broke in the middle of the answer ({_cause(exc)})")
    if type(cause).__name__ == "ProxyError":
        return ProviderConnectionError(str(cause), should_retry=False if "407" in str(cause) else None)
    if cls is ProviderTimeoutError:
        return cls(_silence(exc, timeout))
    text = _cause(exc)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        advice = "Behind a company's proxy, name its certificates in the environment variable SSL_CERT_FILE"
        text = f"the server's TLS certificate is not trusted ({text}). {advice}"
        return ProviderConnectionError(text, should_retry=False)
    return cls(f"no connection to {host} ({text})" if (host := _host(exc)) and "Connect" in text else text)


def _silence(exc: BaseException, timeout: float | None) -> str:
    """What was waited for in vain: the libraries' own texts are empty, or say "timed out"."""
    link: BaseException | None = exc
    while link is not None:
        if type(link).__name__ == "ConnectTimeout":
            return "no connection came about in time"
        link = link.__cause__
    return "nothing came in time" if timeout is None else f"nothing came for {timeout:g} s"


def _host(exc: BaseException | None) -> str | None:
    """Where a request that failed was sent to, after redirections."""
    host = None
    while exc is not None:
        request = vars(exc).get("_request") or vars(exc).get("request")
        host = host if request is None else str(request.url.host)
        exc = exc.__cause__
    return host


def _cause(exc: Exception) -> str:
    """The innermost explanation: SDKs say only "Connection error." themselves."""
    cause = _innermost(exc)
    return f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__


def _innermost(exc: BaseException) -> BaseException:
    while exc.__cause__ is not None:
        exc = exc.__cause__
    return exc

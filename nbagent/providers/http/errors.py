"""Converts HTTP statuses, and the exceptions of HTTP libraries and SDKs, to nbagent's errors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from nbagent.errors import (
    ConfigurationError,
    IncompleteStreamError,
    InvalidResponseError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    QuotaError,
)
from nbagent.providers.formats.errors import error_class, error_code, error_message, retry_delay
from nbagent.providers.http.address import proxy_for, without_password
from nbagent.providers.http.retry import retry_headers


def request_id(headers: Mapping[str, str]) -> str | None:
    """The provider's id for the request, which helps its support team find the request."""
    return headers.get("x-request-id") or headers.get("request-id")


def status_error(response: Any, content: bytes) -> ProviderError:
    """The error for a response with an error status and this body."""
    status, headers = response.status_code, response.headers
    if status == 407:
        return _proxy_error(str(response.request.url), "407 Proxy Authentication Required")
    text = content.decode("utf-8", "replace").strip()
    advice = retry_headers(headers)
    try:
        body = json.loads(text)
        message, words = error_message(body)
        advice["retry_after"] = retry_delay(body) if advice["retry_after"] is None else advice["retry_after"]
    except (ValueError, RecursionError):
        body, message, words = None, _without_explanation(text, status, headers), ()
    cls = error_class(message, words, status) if status >= 400 else InvalidResponseError
    if issubclass(cls, QuotaError):  # whatever the headers say, it would fail again
        advice["should_retry"] = False
    named = str(body.get("request_id") or "") if isinstance(body, dict) else None  # from Claude and DashScope
    message = message or "no explanation was given"
    return cls(message, status=status, code=error_code(body, status), request_id=named, **advice)


def readable(text: str) -> str:
    """A short description of a body that is not JSON.

    >>> readable("<html><title>Sign in</title>…"), readable("Ollama is running")
    ('an HTML page (Sign in)', "the text 'Ollama is running'")
    """
    if not text:
        return "an empty answer"
    if text.startswith("<"):
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        return f"an HTML page{f' ({title[1].strip()})' if title else ''}"
    if "\0" in text or text.count("\N{REPLACEMENT CHARACTER}") > len(text) / 10:
        return "binary data"
    return f"the text '{text}'"


def _without_explanation(text: str, status: int, headers: Mapping[str, str]) -> str:
    """The message of an error whose body is not JSON."""
    if 300 <= status < 400 and (location := headers.get("location")):
        return f"the server redirects the request to {location}"
    description = readable(text)
    return text if description.startswith("the text ") else f"expected an explanation, got {description}"


#: The exceptions of httpx, httpx2, aiohttp and both SDKs by their shared names, the specific before the general.
_BY_NAME: dict[str, type[ProviderError]] = {
    "TimeoutException": ProviderTimeoutError,
    "APITimeoutError": ProviderTimeoutError,
    "ServerTimeoutError": ProviderTimeoutError,
    "ClientError": ProviderConnectionError,
    "TransportError": ProviderConnectionError,
    "APIConnectionError": ProviderConnectionError,
    "DecodingError": IncompleteStreamError,
    "StreamError": IncompleteStreamError,
}
#: OpenSSL's errors for a server that speaks plain HTTP.
_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST")


def provider_error(
    exc: Exception, streaming: bool, timeout: float | None = None, base_url: str | None = None
) -> ProviderError | ConfigurationError | None:
    """nbagent's error for an exception of an HTTP library or SDK; None for any other exception.

    `streaming` means that the answer had started, so a broken connection is a broken stream. `timeout` is the limit in
    seconds. `base_url` is the server's address, or None if the user's own client handles proxies.
    """
    chain: list[BaseException] = [exc]
    while cause := chain[-1].__cause__:
        chain.append(cause)
    links = [{cls.__name__ for cls in type(link).__mro__} for link in chain]
    kinds = set().union(*links)
    text = f"{type(chain[-1]).__name__}: {chain[-1]}".removesuffix(
        ": "
    )  # the SDK's own message is only "Connection error."
    if kinds & {"InvalidURL", "UnsupportedProtocol", "LocalProtocolError"}:
        return ConfigurationError(f"The request can't be sent: {text.rstrip('.')}. Check base_url and api_key.")
    # the innermost exception is the most precise: httpx-aiohttp calls a refused connection a timeout
    cls = next((_BY_NAME[name] for names in reversed(links) for name in _BY_NAME if name in names), None)
    if cls is None:
        return None
    if streaming and cls is ProviderConnectionError:
        return IncompleteStreamError(f"the connection broke in the middle of the answer ({text})")
    not_reached = kinds & {"ProxyError", "ConnectError", "ConnectTimeout"} and "SSL" not in text
    if not_reached and base_url and proxy_for(base_url):
        return _proxy_error(base_url, text, cls)
    if cls is ProviderTimeoutError:
        if "ConnectTimeout" in kinds:
            return cls("the connection timed out")
        return cls("no data arrived in time" if timeout is None else f"no data arrived for {timeout:g} s")
    if explanation := _tls_explanation(text):
        return ProviderConnectionError(explanation, should_retry=False)
    if kinds & {"ConnectError", "ClientConnectorError"}:
        requests = [request for link in chain if (request := vars(link).get("_request") or vars(link).get("request"))]
        return cls(f"no connection to {requests[-1].url.host} ({text})" if requests else text)
    return cls(text)


def _tls_explanation(text: str) -> str:
    """The error for a TLS failure that a retry can't fix."""
    if "CERTIFICATE_VERIFY_FAILED" in text:
        advice = "Behind a company proxy, set the environment variable SSL_CERT_FILE to its certificates"
        return f"the server's TLS certificate is not trusted ({text}). {advice}"
    if any(sign in text for sign in _NOT_TLS):
        return f"base_url starts with https://, but the server speaks http: write http:// ({text})"
    return ""


def _proxy_error(base_url: str, reason: str, cls: type[ProviderError] = ProviderConnectionError) -> ProviderError:
    """The error for a request that a proxy refused or could not forward."""
    proxy = without_password(proxy_for(base_url) or "on the way")
    if "407" in reason:
        login = f"the proxy {proxy} requires a user name and a password: HTTPS_PROXY=http://user:password@host:port"
        return ProviderConnectionError(f"{login} ({reason})", should_retry=False)
    host = urlsplit(base_url).hostname
    return cls(f"{host}, or the proxy {proxy} from the environment, can't be reached: {reason}")

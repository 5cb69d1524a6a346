"""HTTP exchanges, as the trace records them.

Agents and concurrent runs share providers, so recording can't be switched on in a provider. Instead, the exchanges are
passed to `Current.collect`. Before each request, the HTTP client checks whether `collect` is set; if not, it records
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Exchange:
    """One HTTP request and its response. Each secret is replaced by a name, such as `$API_KEY`.

    Bodies are the text as sent and received, including the raw events of a stream. Parts that never arrived are None.
    """

    method: str
    url: str
    request_headers: Mapping[str, str]
    request_body: str
    request_bytes: int
    #: Unix time in seconds.
    started: float
    #: Seconds until the last byte or the failure.
    duration_s: float
    status: int | None = None
    http_version: str | None = None
    response_headers: Mapping[str, str] | None = None
    response_body: str | None = None
    response_bytes: int | None = None
    #: The provider's id for the request.
    request_id: str | None = None
    #: Seconds until the response's headers arrived or, if an SDK itself read an error response, all of it.
    ttfb_s: float | None = None
    #: Whether the response was read to its end. False if it broke off, was interrupted, or was closed after its last
    #: event.
    complete: bool = False
    #: The names that replace secrets, without the dollar sign.
    secrets: Sequence[str] = ()
    #: The error that broke the connection. A response with an error status does not count.
    error_type: str | None = None
    error_message: str | None = None

    def summary(self) -> dict[str, Any]:
        """The main fields, for an event's metadata."""
        names = ("method", "url", "status", "duration_s", "request_bytes", "response_bytes", "error_type")
        return {name: getattr(self, name) for name in names}


#: Called with each finished exchange.
Collector = Callable[[Exchange], None]

"""Describes failed requests as problem details (RFC 9457): the status of each error, and its text for clients.

Clients receive the errors that they can act on. The text of an unexpected error is logged, but not sent.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from nbagent import errors
from nbagent.server.logs import request_id
from nbagent.text import without_keys

log = logging.getLogger("nbagent")


@dataclass(frozen=True)
class HTTPProblem:
    """The report of a failed request. `code` is for programs, `detail` for people.

    `more` contains further members: `errors` for invalid fields, or `provider`, `model` and `provider_status` for a
    provider's failure.
    """

    status: int
    code: str
    detail: str
    more: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the problem details as a dict."""
        about = {"type": "about:blank", "title": HTTPStatus(self.status).phrase, "status": self.status}
        return {**about, "detail": self.detail, "code": self.code, **self.more}


class RefusedError(errors.NbagentError):
    """Raised when the server refuses a request. The client receives `problem`."""

    def __init__(self, status: int, code: str, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.problem = HTTPProblem(status, code, detail, headers={k.replace("_", "-"): v for k, v in headers.items()})


def not_found(what: str) -> RefusedError:
    """Return the error for something that does not exist, or that belongs to another token."""
    return RefusedError(404, "not_found", f"There is no {what}.")


#: The status and code of errors. The first matching class counts.
_STATUS: tuple[tuple[type[BaseException], int, str], ...] = (
    (errors.RateLimitError, 429, "provider_rate_limited"),
    (errors.QuotaError, 502, "provider_quota_spent"),
    (errors.AuthenticationError, 502, "provider_refused_key"),
    (errors.ContextLengthError, 422, "conversation_too_long"),
    (errors.ImageInputError, 422, "model_takes_no_images"),
    (errors.ModelNotFoundError, 502, "provider_has_no_such_model"),
    (errors.BadRequestError, 422, "provider_refused_request"),
    (errors.ProviderTimeoutError, 504, "provider_timed_out"),
    (errors.ServerError, 503, "provider_unavailable"),
    (errors.ProviderError, 502, "provider_failed"),
    (errors.AnswerRejectedError, 502, "answer_rejected"),
    (errors.LocalModelError, 503, "local_model_unavailable"),
    (errors.MCPServerError, 502, "mcp_server_failed"),
    (errors.TurnLostError, 409, "turn_lost"),
    (errors.StoreError, 503, "store_unavailable"),
    (errors.AgentBusyError, 409, "agent_busy"),
    (errors.ConfigurationError, 422, "invalid_request"),
)


def problem_of(error: BaseException) -> HTTPProblem:
    """Return an error's report for the client."""
    if isinstance(error, RefusedError):
        return error.problem
    for kind, status, code in _STATUS:
        if isinstance(error, kind):
            if isinstance(error, errors.ProviderError):
                problem = _of_provider(error, status, code)
            else:
                problem = HTTPProblem(status, code, without_keys(str(error)))
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                log.warning("a request failed: %s: %s", code, problem.detail)
            return problem
    log.error("a request failed", exc_info=error)
    return HTTPProblem(500, "internal_error", f"The server failed. See its log for request {request_id.get()}.")


def _of_provider(error: errors.ProviderError, status: int, code: str) -> HTTPProblem:
    who = " ".join(filter(None, (error.provider, error.model))) or "The provider"
    more = {"provider": error.provider, "model": error.model, "provider_status": error.status}
    headers = {} if error.retry_after is None else {"Retry-After": str(math.ceil(error.retry_after))}
    return HTTPProblem(status, code, without_keys(f"{who}: {error.message}"), more, headers)

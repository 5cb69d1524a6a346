"""Errors in OpenAI's envelope, `{"error": {message, type, param, code}}`, for which SDKs raise their usual errors."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from nbagent.server.problems import HTTPProblem, RefusedError

#: The server's code -> the API's status and code, where they differ.
_CODES = {
    "unauthorized": (401, "invalid_api_key"),
    "model_not_allowed": (404, "model_not_found"),
    "conversation_too_long": (400, "context_length_exceeded"),
    "provider_rate_limited": (429, "rate_limit_exceeded"),
    "too_many_requests": (429, "rate_limit_exceeded"),
    "too_many_at_once": (429, "rate_limit_exceeded"),
    "budget_spent": (429, "insufficient_quota"),
}
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class ParameterError(RefusedError):
    """Raised if a field of the request is invalid, or if an agent can't support it. `param` is the field's name."""

    def __init__(self, param: str, message: str, code: str = "invalid_value") -> None:
        super().__init__(400, code, f"{param}: {message}")
        self.problem = HTTPProblem(400, code, f"{param}: {message}", {"param": param})


def unsupported(param: str, message: str) -> ParameterError:
    """Return the error for a parameter that an agent can't support."""
    return ParameterError(param, message, "unsupported_parameter")


def answer_restarted() -> RefusedError:
    """Return the error that ends a stream if text that was already sent would have to be retracted."""
    detail = "The connection to the model broke in the middle of the answer. Try again."
    return RefusedError(502, "answer_restarted", detail)


def envelope(problem: HTTPProblem) -> tuple[int, dict[str, Any]]:
    """Return the status and body of the error response. As in OpenAI's API, an unprocessable request has status 400,
    not 422.
    """
    status, code = _CODES.get(problem.code, (400 if problem.status == 422 else problem.status, problem.code))
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    message, param = problem.detail, problem.more.get("param")
    if wrong := [(error["field"].removeprefix("body."), error["message"]) for error in problem.more.get("errors", ())]:
        message, param = "; ".join(f"{name}: {text}" for name, text in wrong), wrong[0][0]
    return status, {"error": {"message": message, "type": kind, "param": param, "code": code}}


def openai_form(problem: HTTPProblem) -> Response:
    """Return the response to a failed request.

    A header keeps SDKs from retrying if the agent has already retried or may have run tools, or if the budget is spent.
    """
    status, body = envelope(problem)
    final = problem.code == "budget_spent" or problem.code.startswith(("provider_", "internal_"))
    headers = {"x-should-retry": "false"} if final else None
    return JSONResponse(body, status, headers)

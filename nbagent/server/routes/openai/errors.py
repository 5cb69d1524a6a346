"""Errors in OpenAI's envelope, `{"error": {message, type, param, code}}`: SDKs raise their usual classes."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from nbagent.server.problems import HTTPProblem, RefusedError

#: The server's code -> the API's status and code, if different.
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
    """A field of the request is wrong, or an agent can't support it. `param` is its name."""

    def __init__(self, param: str, message: str, code: str = "invalid_value") -> None:
        super().__init__(400, code, f"{param}: {message}")
        self.problem = HTTPProblem(400, code, f"{param}: {message}", {"param": param})


def unsupported(param: str, message: str) -> ParameterError:
    """The error for an API parameter that an agent can't support."""
    return ParameterError(param, message, "unsupported_parameter")


def answer_restarted() -> RefusedError:
    """The error that ends a stream whose text would have to be taken back."""
    detail = "The connection to the model broke in the middle of the answer. Ask again."
    return RefusedError(502, "answer_restarted", detail)


def envelope(problem: HTTPProblem) -> tuple[int, dict[str, Any]]:
    """The status and the body. The server's "unprocessable" is a bad request here, as at OpenAI."""
    status, code = _CODES.get(problem.code, (400 if problem.status == 422 else problem.status, problem.code))
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    message, param = problem.detail, problem.more.get("param")
    if wrong := [(each["field"].removeprefix("body."), each["message"]) for each in problem.more.get("errors", ())]:
        message, param = "; ".join(f"{name}: {text}" for name, text in wrong), wrong[0][0]
    return status, {"error": {"message": message, "type": kind, "param": param, "code": code}}


def openai_form(problem: HTTPProblem) -> Response:
    """The answer to a failed request. SDKs don't retry if the agent already did and may have run tools."""
    status, body = envelope(problem)
    final = problem.code == "budget_spent" or problem.code.startswith(("provider_", "internal_"))
    headers = {"x-should-retry": "false"} if final else None
    return JSONResponse(body, status, headers)

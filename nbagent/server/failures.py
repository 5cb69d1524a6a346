"""Error responses: problem details (RFC 9457), or OpenAI's format below `/v1/`."""

from __future__ import annotations

from http import HTTPStatus

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from nbagent.server.problems import HTTPProblem, problem_of
from nbagent.server.routes.openai.errors import openai_form
from nbagent.text import without_keys

MEDIA_TYPE = "application/problem+json"
#: How many invalid fields of a request are reported.
_MAX_FIELDS = 20


async def on_error(request: Request, error: Exception) -> Response:
    """Return the response to a request that failed in its route or matches no route."""
    if isinstance(error, RequestValidationError):
        return problem_response(request.scope, _of_validation(error))
    if isinstance(error, HTTPException):
        code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
        problem = HTTPProblem(error.status_code, code, f"{error.detail}.", headers=dict(error.headers or {}))
        return problem_response(request.scope, problem)
    return problem_response(request.scope, problem_of(error))


def _of_validation(error: RequestValidationError) -> HTTPProblem:
    """The invalid fields, without their values, which may be secret."""
    found = error.errors()
    if any(item["type"] == "json_invalid" for item in found):
        return HTTPProblem(400, "invalid_json", "The body is not JSON.")
    fields = [{"field": ".".join(map(str, item["loc"])), "message": item["msg"]} for item in found[:_MAX_FIELDS]]
    detail = "; ".join(f"{field['field']}: {field['message']}" for field in fields)
    return HTTPProblem(422, "invalid_request", without_keys(detail), {"errors": fields})


def route_path(scope: Scope) -> str:
    """Return a request's path below the application's mount point."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def problem_response(scope: Scope, problem: HTTPProblem) -> Response:
    """Return an error response."""
    if route_path(scope).startswith("/v1/"):
        response = openai_form(problem)
        response.headers.update(problem.headers)
        return response
    return JSONResponse(problem.to_dict(), problem.status, problem.headers, MEDIA_TYPE)

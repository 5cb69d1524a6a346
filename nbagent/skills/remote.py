"""Skills of another process, over HTTP: `GET /skills`, `POST /skills/{id}/invoke`, `GET /healthz`.

`GET /skills` answers with a list of skills, or with one under the key `skills`. Each has an `id`, a `description` and
`parameters`, the JSON Schema of its input. The body of an invocation is `{"arguments": {…}}`; its answer has the fields
of `SkillResult`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from nbagent.checks import check_number, invalid
from nbagent.core.render.control_chars import show_control_chars
from nbagent.errors import ToolError
from nbagent.skills.result import SkillResult
from nbagent.text import shortened

if TYPE_CHECKING:
    import httpx2
    from pydantic import SecretStr

#: Bytes of an answer, characters of an error's text that are repeated.
MAX_ANSWER, ERROR_CHARS = 16 * 2**20, 300


class RemoteSkills:
    """The skills at an address. All methods block, and raise `ToolError` if it does not answer as it should."""

    def __init__(self, url: str, token: SecretStr | None, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise invalid("url", url, "an http or https address without a password", "Pass a key as token=...")
        check_number("timeout", timeout, above=0, fix="Pass seconds.")
        self.url = url.rstrip("/")
        self._token = token
        self._timeout = timeout

    def list(self) -> list[dict[str, Any]]:
        """`{id, description, parameters}` of each skill."""
        answer = self._request("GET", "/skills")
        skills = answer.get("skills") if isinstance(answer, dict) else answer
        if not isinstance(skills, list) or not all(isinstance(each, dict) and each.get("id") for each in skills):
            raise ToolError(f"{self.url}/skills: expected a list of skills with ids, got {_short(answer)}.")
        return [
            {
                "id": str(each["id"]),
                "description": show_control_chars(str(each.get("description") or "")),
                "parameters": each.get("parameters") or {"type": "object", "properties": {}},
            }
            for each in skills
        ]

    def invoke(self, skill_id: str, arguments: dict[str, Any]) -> SkillResult:
        """Call a skill."""
        answer = self._request("POST", f"/skills/{quote(skill_id, safe='')}/invoke", {"arguments": arguments})
        if not isinstance(answer, dict) or not isinstance(answer.get("success"), bool):
            raise ToolError(f"{self.url}: expected a result with success, got {_short(answer)}.")
        return SkillResult(
            answer["success"],
            answer.get("data"),
            None if answer.get("error") is None else show_control_chars(str(answer["error"])),
            str(answer.get("trace_id") or ""),
            float(answer.get("duration_ms") or 0.0),
        )

    def health(self) -> dict[str, Any]:
        """What the server says of itself."""
        answer = self._request("GET", "/healthz")
        return answer if isinstance(answer, dict) else {"status": str(answer)}

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        import httpx2

        headers = {"Authorization": f"Bearer {self._token.get_secret_value()}"} if self._token is not None else {}
        try:
            with (
                httpx2.Client(timeout=self._timeout) as client,
                client.stream(method, self.url + path, headers=headers, json=body) as response,
            ):
                text = _read(response)
        except httpx2.HTTPError as error:
            raise ToolError(f"{self.url} did not answer: {type(error).__name__}: {error}") from None
        if not 200 <= response.status_code < 300:
            raise ToolError(f"{method} {self.url}{path}: status {response.status_code}: {shortened(text, ERROR_CHARS)}")
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise ToolError(f"{method} {self.url}{path}: expected JSON, got {_short(text)}.") from None


def _read(response: httpx2.Response) -> str:
    data = bytearray()
    for piece in response.iter_bytes():
        data += piece
        if len(data) > MAX_ANSWER:
            raise ToolError(f"{response.url} answered with more than {MAX_ANSWER:,} bytes.")
    return show_control_chars(data.decode("utf-8", "replace"))


def _short(value: Any) -> str:
    return shortened(repr(value), ERROR_CHARS)

"""OpenAI's batches: upload a file of requests, download a file of answers and a file of errors.

Sources, read in November 2026:

- https://developers.openai.com/api/docs/guides/batch: the lines of the files; at most 50,000 requests and 200 MB per
  batch; requests that are unanswered after 24 hours are in the error file as `batch_expired`
- https://developers.openai.com/api/reference/resources/batches, …/files: the objects
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence, Set
from typing import Any

from nbagent.batch.endpoints.endpoint import BatchRequest, Endpoint, Result, State
from nbagent.providers.formats.codec import dumps

#: How many of the latest batches to search.
_LISTED = 100
_PHASES: dict[Any, Any] = {"completed": "ended", "expired": "ended", "failed": "failed", "cancelled": "cancelled"}


class OpenAIEndpoint(Endpoint):
    """OpenAI's batch endpoint: `/files` and `/batches`."""

    max_requests = 50_000

    async def submit(self, tag: str, requests: Sequence[BatchRequest]) -> str:
        """See `Endpoint`."""
        url = b"/v1" + self.provider.codec.path(self.provider.model_name, False).encode()
        lines = [
            b'{"custom_id":"%s","method":"POST","url":"%s","body":%s}\n' % (key.encode(), url, body)
            for key, body in requests
        ]
        part = (f"nbagent-{tag}.jsonl", b"".join(lines), "application/jsonl")
        file = await self.provider.call("/files", {"purpose": (None, b"batch"), "file": part})
        body = {"input_file_id": file["id"], "endpoint": url.decode(), "completion_window": "24h"}
        body["metadata"] = {"nbagent": tag}
        batch = await self.provider.call("/batches", dumps(body), is_repeatable=False)
        return str(batch["id"])

    async def find(self, tag: str, submitted_at: float, count: int, known: Set[str]) -> str | None:
        """See `Endpoint`."""
        listed = await self.provider.call(f"/batches?limit={_LISTED}")
        found = (batch["id"] for batch in listed["data"] if (batch.get("metadata") or {}).get("nbagent") == tag)
        return next(map(str, found), None)

    async def state(self, batch_id: str) -> State:
        """See `Endpoint`."""
        batch = await self.provider.call(f"/batches/{batch_id}")
        counts = batch.get("request_counts") or {}
        files = tuple(file for name in ("output_file_id", "error_file_id") if (file := batch.get(name)))
        errors = (batch.get("errors") or {}).get("data") or []
        return State(
            _PHASES.get(batch.get("status"), "running"),
            counts.get("completed", 0) + counts.get("failed", 0),
            counts.get("total", 0),
            "; ".join(str(error.get("message")) for error in errors),
            files,
        )

    async def results(self, batch_id: str, state: State) -> AsyncGenerator[Result]:
        """See `Endpoint`."""
        for file in state.files:
            async for line in self.provider.lines(f"/files/{file}/content"):
                answer, error = line.get("response") or {}, line.get("error") or {}
                is_good = answer.get("status_code") == 200 and isinstance(answer.get("body"), dict)
                yield Result(
                    str(line.get("custom_id")),
                    answer["body"] if is_good else None,
                    error.get("code") == "batch_cancelled",
                )

    async def cancel(self, batch_id: str) -> None:
        """See `Endpoint`."""
        await self.provider.call(f"/batches/{batch_id}/cancel", b"{}")

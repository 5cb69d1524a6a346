"""Gemini's batches, with inline requests. Sources, read in November 2026:

- https://ai.google.dev/gemini-api/docs/batch-api: inline requests up to 20 MB in total; states; batches expire after
  48 hours
- https://ai.google.dev/api/batch-api: the objects; answers come in the order of the requests
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence, Set
from typing import Any

from nbagent.batch.endpoints.endpoint import BatchRequest, Endpoint, Result, State, joined

#: How many of the latest batches to search.
_LISTED = 100
#: The states of a batch that is over. Some responses have `JOB_STATE_…` instead of `BATCH_STATE_…`.
_PHASES = {"SUCCEEDED": "ended", "EXPIRED": "ended", "CANCELLED": "cancelled", "FAILED": "failed"}


class GeminiEndpoint(Endpoint):
    """Gemini's batch endpoint: `:batchGenerateContent` and `/batches`."""

    #: Gemini sets no limit, but returns all answers in one body.
    max_requests = 10_000
    #: Slightly below Gemini's limit, because the list around the requests also counts.
    max_bytes = 19 * 10**6

    async def submit(self, tag: str, requests: Sequence[BatchRequest]) -> str:
        """See `Endpoint`."""
        pieces = (b'{"request":%s,"metadata":{"key":"%s"}}' % (body, key.encode()) for key, body in requests)
        before = b'{"batch":{"displayName":"nbagent-%s","inputConfig":{"requests":{"requests":[' % tag.encode()
        path = f"/models/{self.provider.model_name.removeprefix('models/')}:batchGenerateContent"
        batch = await self.provider.call(path, joined(pieces, before, b"]}}}}"), is_repeatable=False)
        return str(batch["name"])

    async def find(self, tag: str, submitted_at: float, count: int, known: Set[str]) -> str | None:
        """See `Endpoint`."""
        listed = await self.provider.call(f"/batches?pageSize={_LISTED}")
        for batch in listed.get("operations") or []:
            if (batch.get("metadata") or {}).get("displayName") == f"nbagent-{tag}":
                return str(batch["name"])
        return None

    async def state(self, batch_id: str) -> State:
        """See `Endpoint`."""
        return _state(await self.provider.call(f"/{batch_id}"))

    async def results(self, batch_id: str, state: State) -> AsyncGenerator[Result]:
        """See `Endpoint`."""
        operation = await self.provider.call(f"/{batch_id}")
        output = operation.get("response") or {}
        output = output.get("output") or output  # some responses omit this level
        for item in (output.get("inlinedResponses") or {}).get("inlinedResponses") or []:
            body = item.get("response")
            yield Result(str((item.get("metadata") or {}).get("key")), body if isinstance(body, dict) else None)

    async def cancel(self, batch_id: str) -> None:
        """See `Endpoint`."""
        await self.provider.call(f"/{batch_id}:cancel", b"{}")


def _state(operation: dict[str, Any]) -> State:
    metadata = operation.get("metadata") or {}
    counts = {name: int(number) for name, number in (metadata.get("batchStats") or {}).items() if "Count" in name}
    name = str(metadata.get("state", "")).rpartition("STATE_")[2]
    phase: Any = _PHASES.get(name, "running")
    if operation.get("error"):
        phase = "cancelled" if phase == "cancelled" else "failed"
    total = counts.get("requestCount", 0)
    done = total - counts.get("pendingRequestCount", 0) if phase == "running" else total
    return State(phase, done, total, str((operation.get("error") or {}).get("message") or ""))

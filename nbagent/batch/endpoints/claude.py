"""Claude's Message Batches. Sources, read in November 2026:

- https://platform.claude.com/docs/en/build-with-claude/batch-processing: at most 100,000 requests or 256 MB per batch;
  ids of 1 to 64 letters, digits, hyphens and underscores; results in any order, kept for 29 days; requests expire
  after 24 hours
- https://platform.claude.com/docs/en/api/messages/batches: the objects
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence, Set
from datetime import datetime

from nbagent.batch.endpoints.endpoint import BatchRequest, Endpoint, Phase, Result, State, joined

_PATH = "/v1/messages/batches"
#: How many of the latest batches to search, and how much our clock may differ from Claude's (seconds).
_LISTED, _CLOCK_SKEW = 100, 60.0


class ClaudeEndpoint(Endpoint):
    """Claude's batch endpoint: `/v1/messages/batches`."""

    max_requests = 100_000

    async def submit(self, tag: str, requests: Sequence[BatchRequest]) -> str:
        """See `Endpoint`."""
        pieces = (b'{"custom_id":"%s","params":%s}' % (key.encode(), body) for key, body in requests)
        body = joined(pieces, b'{"requests":[', b"]}")
        batch = await self.provider.call(_PATH, body, is_repeatable=False, betas=self.betas)
        return str(batch["id"])

    async def find(self, tag: str, submitted_at: float, count: int, known: Set[str]) -> str | None:
        """See `Endpoint`.

        Claude stores no tag, so this finds the first unknown batch that was created after `submitted_at` and has
        `count` requests. If that batch is the wrong one, its results don't belong to these rows, and these rows are
        sent live.
        """
        listed = await self.provider.call(f"{_PATH}?limit={_LISTED}")
        for batch in reversed(listed["data"]):  # the latest comes first
            created = datetime.fromisoformat(batch["created_at"]).timestamp()
            is_ours = created > submitted_at - _CLOCK_SKEW and sum(batch["request_counts"].values()) == count
            if is_ours and batch["id"] not in known:
                return str(batch["id"])
        return None

    async def state(self, batch_id: str) -> State:
        """See `Endpoint`. Until a batch ends, Claude reports all its requests as processing."""
        batch = await self.provider.call(f"{_PATH}/{batch_id}")
        counts = batch["request_counts"]
        total = sum(counts.values())
        if batch["processing_status"] != "ended":
            phase: Phase = "running"
        else:
            phase = "cancelled" if batch.get("cancel_initiated_at") else "ended"
        return State(phase, total - counts["processing"], total)

    async def results(self, batch_id: str, state: State) -> AsyncGenerator[Result]:
        """See `Endpoint`. The batch's `results_url` has the path used here, but may name another server."""
        async for line in self.provider.lines(f"{_PATH}/{batch_id}/results"):
            result = line.get("result") or {}
            kind, message = result.get("type"), result.get("message")
            is_good = kind == "succeeded" and isinstance(message, dict)
            yield Result(str(line.get("custom_id")), message if is_good else None, kind == "canceled")

    async def cancel(self, batch_id: str) -> None:
        """See `Endpoint`."""
        await self.provider.call(f"{_PATH}/{batch_id}/cancel", b"{}")

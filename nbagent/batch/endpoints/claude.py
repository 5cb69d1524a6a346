"""Claude's Message Batches.

- https://platform.claude.com/docs/en/build-with-claude/batch-processing: 100,000 requests or 256 MB a batch; ids of
  1 to 64 letters, digits, hyphens and underscores; results come in any order and are kept for 29 days; requests that
  are not answered within 24 hours expire
- https://platform.claude.com/docs/en/api/messages/batches: the objects (read in November 2026)
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence, Set
from datetime import datetime

from nbagent.batch.endpoints.endpoint import BatchRequest, Endpoint, Phase, Result, State, joined

_PATH = "/v1/messages/batches"
#: How many of the latest batches to search, and how far our clock and theirs may differ (seconds).
_LISTED, _CLOCKS_APART = 100, 60.0


class ClaudeEndpoint(Endpoint):
    """`/v1/messages/batches`."""

    max_requests = 100_000

    async def submit(self, tag: str, requests: Sequence[BatchRequest]) -> str:
        """See `Endpoint`."""
        pieces = (b'{"custom_id":"%s","params":%s}' % (key.encode(), body) for key, body in requests)
        body = joined(pieces, b'{"requests":[', b"]}")
        made = await self.provider.call(_PATH, body, is_repeatable=False, betas=self.betas)
        return str(made["id"])

    async def find(self, tag: str, submitted_at: float, count: int, known: Set[str]) -> str | None:
        """See `Endpoint`. A batch can't carry our name, so it is the first unknown one since then with as many
        requests.

        If that one is wrong, its results name other rows, and ours are sent live.
        """
        listed = await self.provider.call(f"{_PATH}?limit={_LISTED}")
        for each in reversed(listed["data"]):  # the latest comes first
            created = datetime.fromisoformat(each["created_at"]).timestamp()
            is_ours = created > submitted_at - _CLOCKS_APART and sum(each["request_counts"].values()) == count
            if is_ours and each["id"] not in known:
                return str(each["id"])
        return None

    async def state(self, batch_id: str) -> State:
        """See `Endpoint`. While a batch is processed, Claude counts all of its requests as such."""
        batch = await self.provider.call(f"{_PATH}/{batch_id}")
        counts = batch["request_counts"]
        total = sum(counts.values())
        if batch["processing_status"] != "ended":
            phase: Phase = "running"
        else:
            phase = "cancelled" if batch.get("cancel_initiated_at") else "ended"
        return State(phase, total - counts["processing"], total)

    async def results(self, batch_id: str, state: State) -> AsyncGenerator[Result]:
        """See `Endpoint`. `results_url` names the same path, but perhaps another server."""
        async for line in self.provider.lines(f"{_PATH}/{batch_id}/results"):
            result = line.get("result") or {}
            is_good = result.get("type") == "succeeded" and isinstance(result.get("message"), dict)
            yield Result(
                str(line.get("custom_id")), result["message"] if is_good else None, result.get("type") == "canceled"
            )

    async def cancel(self, batch_id: str) -> None:
        """See `Endpoint`."""
        await self.provider.call(f"{_PATH}/{batch_id}/cancel", b"{}")

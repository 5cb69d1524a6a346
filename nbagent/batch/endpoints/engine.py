"""The engine for `engine="batch"`: the provider's batch endpoint answers within a day, at half price.

It works in two passes. The first builds each row's request, as a live run would, and submits the requests in batches
within the provider's limits. No run waits for the answers, so only one batch is in memory at a time. When a batch is
over, the second pass runs its rows in the usual loop, where the batch supplies the answer to each row's first request.
Traces, costs, checks and corrections therefore work as in any run. Unanswered rows, and a row's further requests, are
sent live.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from nbagent.batch.answer import Answer
from nbagent.batch.checkpoint import Checkpoint
from nbagent.batch.endpoints.choice import endpoint_for
from nbagent.batch.endpoints.endpoint import BatchRequest, Endpoint, State
from nbagent.batch.endpoints.provider import BatchedProvider
from nbagent.batch.endpoints.submitted import Sent, Submitted
from nbagent.batch.engine import Batch, Keep, RowAgent
from nbagent.batch.live import LiveEngine
from nbagent.batch.rows import Row
from nbagent.core.async_iterators import YieldPoint
from nbagent.errors import ConfigurationError, InvalidResponseError, ProviderError
from nbagent.providers.http.retry import wait_s

log = logging.getLogger("nbagent")

#: Seconds between two checks of the batches: the first wait, the growth factor, and the longest wait.
FIRST_WAIT_S = 2.0
GROWTH = 1.5
LONGEST_WAIT_S = 60.0


class BatchEngine:
    """Sends rows to a provider's batch endpoint. The checkpoint records the submitted batches.

    If the engine is cancelled, the batches continue at the provider. Repeat the call later to read their answers.
    Raises `ConfigurationError` if there is no checkpoint.
    """

    def __init__(self, checkpoint: Path | None) -> None:
        if checkpoint is None:
            raise ConfigurationError(
                "engine='batch' requires a checkpoint, because the answers may take a day and would be lost with the "
                "kernel. Pass checkpoint=path."
            )
        self._path = checkpoint

    async def ask_rows(self, batch: Batch, rows: Sequence[Row], keep: Keep) -> None:
        """See `Engine`."""
        endpoint = endpoint_for(batch.provider)
        if not rows:
            return
        with Checkpoint(self._path) as kept:
            work = _Work(batch, {row.key: row for row in rows}, endpoint, Submitted(kept))
            try:
                await work.submit()
                await work.read(keep)
            except BaseException as error:
                if work.waiting:
                    error.add_note(_left(work.waiting, batch.provider.provider_name))
                raise


class _Work:
    """One call of the engine."""

    def __init__(self, batch: Batch, rows: Mapping[str, Row], endpoint: Endpoint, submitted: Submitted) -> None:
        self.batch, self.rows, self.endpoint, self.submitted = batch, rows, endpoint, submitted
        self.provider_name = batch.provider.provider_name
        self.provider = BatchedProvider(endpoint.provider, submitted.result)
        #: Unfinished batches.
        self.waiting: list[Sent] = []

    def new_agent(self) -> RowAgent:
        """Return an agent for rows, with answers from the batches."""
        agent = self.batch.new_agent()
        agent.provider = self.provider
        return agent

    async def submit(self) -> None:
        """Find the batches that the provider already has, and submit the other rows."""
        for sent in self.submitted.holding(self.rows):
            if sent.batch_id is None:
                batch_id = await self._find(sent)
                if batch_id is None:
                    self.submitted.forget(sent.tag)
                    continue
                self.submitted.accept(sent.tag, batch_id)
                self.waiting.append(replace(sent, batch_id=batch_id))
            else:
                self.waiting.append(sent)
        known = set().union(*(self.submitted.keys_of(sent.tag) for sent in self.waiting))
        missing = [row for key, row in self.rows.items() if key not in known]
        async with aclosing(self._batches(missing)) as batches:
            async for requests in batches:
                if self.batch.budget.is_spent:
                    return
                await self._send(requests)

    async def _batches(self, rows: Sequence[Row]) -> AsyncGenerator[list[BatchRequest]]:
        """Yield the requests of these rows, as many at once as the provider accepts."""
        agent, yield_point = self.new_agent(), YieldPoint()
        requests: list[BatchRequest] = []
        size = 0
        for row in rows:
            agent.clear_history()
            agent.chat_stream(list(row.messages), **self.batch.options).preview()
            assert self.provider.latest is not None
            body = self.endpoint.provider.encoded(self.provider.latest)
            self.endpoint.betas = self.provider.latest.resolved.betas  # all rows have the same tools and options
            length = len(body) + _REQUEST_OVERHEAD
            if requests and (len(requests) == self.endpoint.max_requests or size + length > self.endpoint.max_bytes):
                yield requests
                requests, size = [], 0
            requests.append(BatchRequest(row.key, body))
            size += length
            await yield_point.pass_on()
        if requests:
            yield requests

    async def _send(self, requests: Sequence[BatchRequest]) -> None:
        """Submit one batch exactly once. If the response is lost, first check whether the batch arrived."""
        sent = self.submitted.announce(self.batch.provider.provider_name, [request.key for request in requests])
        self.waiting.append(sent)
        attempt, batch_id = 0, None
        while batch_id is None:
            try:
                batch_id = await self.endpoint.submit(sent.tag, requests)
            except ProviderError as error:
                attempt += 1
                if not error.retryable or attempt > self.endpoint.provider.max_retries:
                    self.waiting.remove(sent)
                    if not error.retryable:
                        self.submitted.forget(sent.tag)
                    raise
                await asyncio.sleep(wait_s(error, attempt))
                batch_id = await self._find(sent)
        self.submitted.accept(sent.tag, batch_id)
        self.waiting[-1] = replace(sent, batch_id=batch_id)

    async def _find(self, sent: Sent) -> str | None:
        """Return the provider's id of a batch, or None if it did not arrive."""
        return await self.endpoint.find(sent.tag, sent.sent_at, sent.count, self.submitted.batch_ids())

    async def read(self, keep: Keep) -> None:
        """Save the answers of each batch once it is over."""
        wait = FIRST_WAIT_S
        while self.waiting:
            done = total = 0
            for sent in list(self.waiting):
                state = State("ended") if sent.is_read else await self._state(sent)
                if state.phase == "running":
                    done, total = done + state.done, total + max(state.total, sent.count)
                    continue
                await self._answer(sent, state, keep)
                self.waiting.remove(sent)
                self.batch.note("")
            if self.waiting:
                self.batch.note(f"{done:,} of {total:,} answered at {self.provider_name}")
                await asyncio.sleep(wait)
                wait = min(wait * GROWTH, LONGEST_WAIT_S)

    async def _state(self, sent: Sent) -> State:
        """Return a batch's state. A lost batch counts as failed, and an unreachable one as running."""
        try:
            return await self.endpoint.state(sent.batch_id or "")
        except ProviderError as error:
            if error.status == 404:
                return State("failed", reason="the provider doesn't know this batch, or has deleted it")
            if not error.retryable:
                raise
            log.warning("batch %s: %s", sent.batch_id, error)
            return State("running")

    async def _answer(self, sent: Sent, state: State, keep: Keep) -> None:
        """Answer the rows of a finished batch, each in a run with the batch's answer."""
        if not sent.is_read:
            async with aclosing(self.endpoint.results(sent.batch_id or "", state)) as results:
                async for result in results:
                    self.submitted.keep(sent.tag, *result)
            if state.phase == "ended":
                self.submitted.finish_reading(sent.tag)
        ours = self.submitted.keys_of(sent.tag) & self.rows.keys()
        stopped = self.submitted.cancelled(sent.tag) & ours
        if state.phase != "ended":
            stopped = {key for key in ours if self.submitted.result(key) is None}
        error = f"The batch {sent.batch_id} failed: {state.reason or 'the provider gives no reason'}"
        if state.phase == "failed" and stopped and self.batch.raises:
            self.submitted.forget(sent.tag)
            raise InvalidResponseError(error, provider=self.batch.provider.provider_name)
        for key in stopped:
            self.submitted.forget_row(key)
            keep(Answer(key, "error", error=error) if state.phase == "failed" else Answer(key, "left"))

        def keep_and_forget(answer: Answer) -> None:
            keep(answer)
            if answer.status != "left":
                self.submitted.forget_row(answer.key)

        rows = [row for key, row in self.rows.items() if key in ours - stopped]
        await LiveEngine().ask_rows(replace(self.batch, new_agent=self.new_agent), rows, keep_and_forget)
        if not self.submitted.keys_of(sent.tag):
            self.submitted.forget(sent.tag)


#: The most bytes that a batch adds to each request.
_REQUEST_OVERHEAD = 200


def _left(waiting: Sequence[Sent], provider: str) -> str:
    ids = ", ".join(sent.batch_id or "not confirmed yet" for sent in waiting)
    return (
        f"{len(waiting)} batch{'es' if len(waiting) > 1 else ''} at {provider} ({ids}) will continue. To read "
        "the answers, repeat the call with the same checkpoint. To cancel the batches, call "
        "nbagent.batch.endpoints.cancel(agent, checkpoint)."
    )

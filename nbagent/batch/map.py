"""`Agent.map`: sends a prompt for each row of a table, and returns a table of answers with the same index."""

from __future__ import annotations

import logging
import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import pandas as pd

from nbagent.batch.answer import Answer
from nbagent.batch.checkpoint import Checkpoint
from nbagent.batch.engine import Batch, Engine, RowAgent
from nbagent.batch.fields import read_row
from nbagent.batch.frame import to_frame
from nbagent.batch.live import LiveEngine
from nbagent.batch.preview import SAMPLES, Estimate, MapPreview
from nbagent.batch.progress import map_progress
from nbagent.batch.rows import Row, check_data, rows_of
from nbagent.checks import check_choice, check_number, check_type, checked_path, invalid
from nbagent.core.background import heartbeat
from nbagent.core.budget import Budget
from nbagent.core.history.history import estimate_tokens
from nbagent.core.history.preview import Preview
from nbagent.core.limits import Limits
from nbagent.core.messages import Usage
from nbagent.core.output import output_of
from nbagent.core.request_options import RequestOptions
from nbagent.errors import ConfigurationError, StoreError
from nbagent.functions.elicitation import agrees
from nbagent.functions.executor import ToolExecutor
from nbagent.pricing import price_at

if TYPE_CHECKING:
    from nbagent.providers.base import LLMProvider

log = logging.getLogger("nbagent")

#: The assumed length of an answer in tokens until one is known.
ANSWER_TOKENS = 200


class MapAgent(Protocol):
    """The parts of an agent that `Map` uses."""

    budget: Budget | None
    bar_watchers: list[Callable[[str], None]]
    provider: LLMProvider
    tool_executor: ToolExecutor

    @property
    def unfinished(self) -> Unfinished:
        """See `Agent.unfinished`."""

    def row_agent(self, tools: bool) -> RowAgent:
        """See `Agent.row_agent`."""

    def row_settings(self, tools: bool) -> dict[str, Any]:
        """See `Agent.row_settings`."""


class Unfinished(dict[str, Answer]):
    """An in-memory checkpoint: the answers from unfinished maps."""

    def answers(self, keys: Iterable[str]) -> dict[str, Answer]:
        """Return the saved answers, by key."""
        return {key: self[key] for key in keys if key in self}

    def add(self, answer: Answer, prompt: str = "") -> None:
        """Save an answer. The prompt is ignored: only `Checkpoint` stores it."""
        self[answer.key] = answer

    def forget(self, keys: Iterable[str]) -> None:
        """Delete these answers."""
        for key in keys:
            self.pop(key, None)


class Map:
    """One call to `Agent.map`: its arguments, its rows and the answers so far.

    In an evaluation, `repeat` is the number of the repetition.
    """

    def __init__(
        self,
        agent: MapAgent,
        data: pd.Series[Any] | pd.DataFrame,
        prompt: str | None,
        output: Any,
        *,
        concurrency: int,
        limits: Limits | None,
        budget: Budget | float | None,
        checkpoint: str | os.PathLike[str] | None,
        engine: Any,
        on_error: str,
        tools: bool,
        explode: str | None,
        rpm: float | None,
        tpm: float | None,
        allow_partial: bool,
        progress: bool,
        options: Mapping[str, Any],
        repeat: int = 1,
    ) -> None:
        check_data(data)
        check_number("concurrency", concurrency, whole=True, minimum=1)
        check_type("limits", limits, Limits, optional=True, fix="Pass Limits(...).")
        check_choice("on_error", on_error, ("keep", "raise"))
        for name, flag in (("tools", tools), ("allow_partial", allow_partial), ("progress", progress)):
            check_type(name, flag, bool)
        for name, rate in (("rpm", rpm), ("tpm", tpm)):
            check_number(name, rate, above=0, optional=True)
        if explode is not None and output is None:
            raise ConfigurationError(f"explode={explode!r} requires an output type with a list field of that name.")
        self._path = None if checkpoint is None else checked_path(checkpoint)
        self._engine, self._is_batch = chosen_engine(engine, self._path), engine == "batch"
        self._agent, self._progress, self._allow_partial = agent, progress, allow_partial
        self._max_cost = limits.max_cost if limits else None
        self._output, self._explode, self._index = output, explode, data.index
        self._batch = Batch(
            new_agent=lambda: agent.row_agent(tools),
            provider=agent.provider,
            concurrency=concurrency,
            options={**options, "limits": limits, "output": output},
            budget=_budget(budget, agent.budget),
            output=output,
            raises=on_error == "raise",
            rpm=rpm,
            tpm=tpm,
        )
        self._probe = self._preview("…")
        settings = settings_of(agent, tools, options, output)
        if repeat > 1:  # each repetition has its own answers
            settings["repeat"] = repeat
        self._rows = rows_of(data, prompt, settings)
        #: By key: the answers so far, and why some rows are never sent.
        self._answers = {row.key: Answer(row.key, row.status, error=row.problem) for row in self._rows if row.problem}
        to_frame(data.index[:0], [], {}, output, explode)  # raises for an invalid output or explode
        if self._batch.raises and (failed := [row.problem for row in self._rows if row.status == "error"]):
            raise ConfigurationError(f"{len(failed)} rows can't be sent. The first problem: {failed[0]}")

    def _preview(self, content: Any) -> Preview:
        """Return the request for a row. Raises `ConfigurationError` for invalid options, tools and budgets."""
        agent = self._batch.new_agent()
        agent.budget = self._batch.budget
        return agent.chat_stream(content, **self._batch.options).preview()

    def frame(self) -> pd.DataFrame:
        """Return the answers so far, with the data's index."""
        return self.frames([len(self._rows)])[0]

    def frames(self, lengths: Iterable[int]) -> list[pd.DataFrame]:
        """Return the answers so far as frames of these lengths."""
        keys = [row.key for row in self._rows]
        return [
            to_frame(self._index[start:end], keys[start:end], self._answers, self._output, self._explode)
            for start, end in pairwise(accumulate(lengths, initial=0))
        ]

    def preview(self) -> MapPreview:
        """Return a preview of the requests."""
        with self._kept() as kept:
            missing = self._missing(kept)
        statuses = [self._answers[row.key].status if row.key in self._answers else "left" for row in self._rows]
        return MapPreview(
            samples=[self._preview(row.content) for row in missing[:SAMPLES]],
            rows=len(self._rows),
            requests=len(missing),
            answered=len(statuses) - sum(map(statuses.count, ("left", "skipped", "error"))),
            skipped=statuses.count("skipped"),
            failed=statuses.count("error"),
            estimate=self._estimate(missing),
            budget=self._batch.budget,
        )

    async def run(self) -> pd.DataFrame:
        """Send the rows without an answer, and return the frame. Answers are kept until `forget` is called.

        Raises `ConfigurationError` if the rows may cost more than the budget and nobody approves this.
        """
        with self._kept() as kept:
            missing = self._missing(kept)
            await self._check_cost(missing)
            by_key = {row.key: row for row in missing}
            equal_rows, watchers = Counter(row.key for row in self._rows), self._agent.bar_watchers
            done = len(self._rows) - sum(equal_rows[row.key] for row in missing)
            try:
                with map_progress(len(self._rows), done, self._progress, watchers) as (show, note):

                    def keep(answer: Answer) -> None:
                        self._answers[answer.key] = answer
                        if answer.is_final:
                            kept.add(answer, by_key[answer.key].messages[-1].text)
                        show(answer, equal_rows[answer.key])

                    async with heartbeat():
                        await self._engine.ask_rows(replace(self._batch, note=note), missing, keep)
            except BaseException as error:
                error.add_note(self._how_to_continue())
                if isinstance(error, StoreError):  # the answers are not lost, even if they can't be saved
                    error.partial = self.frame()
                raise
        if self._left():
            budget = self._batch.budget
            cause = f"the budget is spent ({budget!r})" if budget.is_spent else "a batch was cancelled"
            warnings.warn(f"The map ended: {cause}. {self._how_to_continue()}", stacklevel=3)
        return self.frame()

    def forget(self) -> None:
        """Delete the answers kept in memory, unless some rows must be sent again.

        Call this when the answers can be returned.
        """
        failed = sum(answer.status == "error" for answer in self._answers.values())
        if self._path is None and not self._left() and not failed:
            self._agent.unfinished.forget(row.key for row in self._rows)

    def _kept(self) -> AbstractContextManager[Checkpoint | Unfinished]:
        if self._path is None:
            return nullcontext(self._agent.unfinished)
        provider = self._batch.provider
        return Checkpoint(self._path, f"{provider.provider_name}:{provider.model_name}")

    def _missing(self, kept: Checkpoint | Unfinished) -> list[Row]:
        """Return the rows to send, each once. Reads the other rows' answers."""
        found = kept.answers(row.key for row in self._rows).values()
        self._answers |= {answer.key: answer for answer in map(self._read, found) if answer is not None}
        return list({row.key: row for row in self._rows if row.key not in self._answers}.values())

    def _read(self, answer: Answer) -> Answer | None:
        """Return a saved answer with its values, or None if the type no longer accepts it."""
        if self._output is None or answer.values is not None or answer.status != "ok":
            return answer
        try:
            return replace(answer, values=read_row(self._output, answer.text))
        except Exception:  # raised by the user's validators, which may have changed; the row is sent again
            log.info("a saved answer no longer fits the output type", exc_info=True)
            return None

    def _left(self) -> int:
        """Return how many rows were not sent or not completed."""
        return sum(row.key not in self._answers or self._answers[row.key].status == "left" for row in self._rows)

    def _how_to_continue(self) -> str:
        left, rows = self._left(), len(self._rows)
        spent = " with a larger budget" if self._batch.budget.is_spent else ""
        return (
            f"{rows - left:,} of {rows:,} rows are done, {left:,} are left. agent.last_map has the answers so far, and "
            f"the same call{spent} continues."
        )

    def _estimate(self, rows: list[Row]) -> Estimate:
        """Return an estimate for these rows. New answers are assumed to be as long as the existing ones."""
        provider, probe = self._batch.provider, self._probe
        shared = max(0, probe.tokens - estimate_tokens(probe.messages[-1]))
        tokens_in = sum(shared + sum(map(estimate_tokens, row.messages)) for row in rows)
        known = [answer.output_tokens for answer in self._answers.values() if answer.output_tokens]
        longest = self._batch.options.get("max_tokens")
        if known:
            tokens_out, assumption = math.ceil(sum(known) / len(known)), f"as in {len(known):,} answers so far"
        elif longest:
            tokens_out, assumption = longest, f"at most {longest:,} a row"
        else:
            tokens_out, assumption = ANSWER_TOKENS, f"if an answer has {ANSWER_TOKENS} tokens"
        one = Usage(math.ceil(tokens_in / (len(rows) or 1)), tokens_out)
        prices = [price_at(one, member.model_name, member, None, self._is_batch) for member in provider.members]
        known_prices = [dollars for dollars in prices if dollars is not None]
        cost = max(known_prices) * len(rows) if len(known_prices) == len(prices) else None  # any of them may answer
        return Estimate(tokens_in, tokens_out * len(rows), cost, assumption)

    async def _check_cost(self, rows: list[Row]) -> None:
        """Ask for approval if the estimate exceeds the budget. Raises `ConfigurationError` if it is denied."""
        left = min(budget.left for budget in (self._batch.budget, self._agent.budget) if budget is not None)
        has_cap = left < math.inf or self._max_cost is not None
        if self._allow_partial or not rows or not has_cap or (estimate := self._estimate(rows)).cost is None:
            return
        if estimate.cost > left:
            cap = f"${left:,.2f} of the budget is left"
        elif self._max_cost is not None and estimate.cost > self._max_cost * len(rows):
            cap = f"limits.max_cost is ${self._max_cost:,.4g} a row"
        else:
            return
        text = f"{len(rows):,} rows may cost about ${estimate.cost:,.2f} ({estimate.assumption}), and {cap}"
        rest = "Rows beyond that are not sent until you repeat the call"
        if not await agrees("map", f"{text}. {rest}. Start?", self._agent.tool_executor.approver):
            raise ConfigurationError(f"{text}. Nothing was sent. Raise this limit, or pass allow_partial=True. {rest}.")


async def gathered(data: Any, engine: Any) -> tuple[Any, Callable[[Map], Any] | None]:
    """Return the data as pandas data and, for Dask data, a function that returns the answers as a Dask DataFrame."""
    if type(data).__module__.partition(".")[0] != "dask":
        return data, None
    from nbagent.batch.dask_frames import as_dask, partitions_of

    parts = await partitions_of(data, engine)
    lengths = [len(part) for part in parts]
    return pd.concat(parts), lambda task: as_dask(task.frames(lengths), data.divisions)


def settings_of(agent: MapAgent, tools: bool, options: Mapping[str, Any], output: Any) -> dict[str, Any]:
    """Return everything that determines the answers besides the rows: agent settings, models, request options."""
    requested = {name: options[name] for name in options if name in RequestOptions.__optional_keys__}
    return {
        **agent.row_settings(tools),
        "models": [_model_settings(member, requested) for member in agent.provider.members],
        "schema": None if output is None else output_of(output).schema,
    }


def _model_settings(provider: LLMProvider, requested: Mapping[str, Any]) -> list[Any]:
    defaults = getattr(provider, "options", {})
    address = "" if provider.provider_name == "local" else getattr(provider, "base_url", "")  # a temporary port
    return [provider.provider_name, address, provider.model_name, {**defaults, **requested}]


def chosen_engine(engine: Any, checkpoint: Path | None) -> Engine:
    """Return the engine that `engine` selects. Raises `ConfigurationError` for an invalid value."""
    if engine is None:
        return LiveEngine()
    if isinstance(engine, str) and engine == "batch":
        from nbagent.batch.endpoints.engine import BatchEngine

        return BatchEngine(checkpoint)
    if type(engine).__module__.startswith("distributed."):
        from nbagent.batch.dask import DaskEngine

        return DaskEngine(engine)
    if hasattr(engine, "ask_rows"):
        return cast(Engine, engine)
    raise invalid("engine", engine, "None, 'batch' or a distributed.Client")


def _budget(budget: Budget | float | None, of_agent: Budget | None) -> Budget:
    if isinstance(budget, Budget):
        return budget
    check_number("budget", budget, minimum=0, optional=True, fix="Pass US dollars, or a Budget(...).")
    return of_agent or Budget() if budget is None else Budget(max_cost=budget)

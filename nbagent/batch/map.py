"""`Agent.map`: send a prompt for each row of a table, and get a table of answers with the same index."""

from __future__ import annotations

import logging
import math
import os
import warnings
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
from nbagent.pricing import price_at

if TYPE_CHECKING:
    from nbagent.providers.base import LLMProvider

log = logging.getLogger("nbagent")

#: Assumed tokens of an answer until one is known.
ANSWER_TOKENS = 200


class MapAgent(Protocol):
    """`Agent.map`'s interface to an agent."""

    budget: Budget | None
    bar_watchers: list[Callable[[str], None]]

    @property
    def unfinished(self) -> Unfinished:
        """Keeps answers until a map without a checkpoint is complete."""
        ...

    @property
    def provider(self) -> LLMProvider:
        """The provider."""
        ...

    async def agrees(self, asker: str, text: str) -> bool:
        """See `Agent.agrees`."""
        ...

    def row_agent(self, tools: bool) -> RowAgent:
        """See `RowAgent`."""
        ...

    def row_settings(self, tools: bool) -> dict[str, Any]:
        """The agent's settings that decide the answers of its `row_agent`."""
        ...


class Unfinished(dict[str, Answer]):
    """Replaces a missing checkpoint: the answers of unfinished maps, in memory."""

    def answers(self, keys: Iterable[str]) -> dict[str, Answer]:
        """All saved answers, by key."""
        return {key: self[key] for key in keys if key in self}

    def add(self, answer: Answer, question: str = "") -> None:
        """Save an answer; only files use the question."""
        self[answer.key] = answer

    def forget(self, keys: Iterable[str]) -> None:
        """Delete these answers."""
        for key in keys:
            self.pop(key, None)


class Map:
    """One call of `Agent.map`, with its arguments: the rows, their settings and the answers so far.

    `repeat` counts an evaluation's repetitions.
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
            raise invalid("explode", explode, "None without output=", "Name a field of output= that is a list.")
        self._path = None if checkpoint is None else checked_path(checkpoint)
        self._engine, self._is_batch = chosen_engine(engine, self._path), engine == "batch"
        self._agent, self._progress, self._allow_partial = agent, progress, allow_partial
        self._max_cost = limits.max_cost if limits else None
        self._output, self._explode, self._index = output, explode, data.index
        self._batch = Batch(
            new_agent=lambda: agent.row_agent(tools),
            provider=agent.provider,
            concurrency=concurrency,
            options=_run_options(options, limits, output),
            budget=_budget(budget, agent.budget),
            output=output,
            raises=on_error == "raise",
            rpm=rpm,
            tpm=tpm,
        )
        self._probe = self._preview("…")
        again = {"repeat": repeat} if repeat > 1 else {}  # answers of other repetitions don't count for these
        self._rows = rows_of(data, prompt, settings_of(agent, tools, options, output) | again)
        #: By key: why rows are never sent, and the others' answers so far.
        self._answers = {row.key: Answer(row.key, row.status, error=row.problem) for row in self._rows if row.problem}
        to_frame(data.index[:0], [], {}, output, explode)  # raises for a wrong type or a wrong name of a list
        if self._batch.raises and (failed := [row.problem for row in self._rows if row.status == "error"]):
            raise ConfigurationError(f"{len(failed)} rows can't be sent. The first one: {failed[0]}")

    def _preview(self, content: Any) -> Preview:
        """The request for a row. Raises `ConfigurationError` for options, tools and budgets that rows can't have."""
        agent = self._batch.new_agent()
        agent.budget = self._batch.budget
        return agent.chat_stream(content, **self._batch.options).preview()

    def frame(self) -> pd.DataFrame:
        """The answers so far, with the data's index."""
        return self.frames([len(self._rows)])[0]

    def frames(self, lengths: Iterable[int]) -> list[pd.DataFrame]:
        """The same in pieces of `sizes` rows."""
        ends = list(accumulate(lengths))
        keys = [row.key for row in self._rows]
        return [
            to_frame(self._index[begin:end], keys[begin:end], self._answers, self._output, self._explode)
            for begin, end in pairwise([0, *ends])
        ]

    def preview(self) -> MapPreview:
        """A preview of the requests."""
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
        """Send the rows without an answer. Answers are kept until `forget` is called, even if this is interrupted.

        Raises `ConfigurationError` if they may cost more than is left, and nobody approves that.
        """
        with self._kept() as kept:
            missing = self._missing(kept)
            await self._check_the_cost(missing)
            questions = {row.key: row for row in missing}
            total, watchers = len({row.key for row in self._rows}), self._agent.bar_watchers
            try:
                with map_progress(total, total - len(missing), self._progress, watchers) as (show, note):

                    def keep(answer: Answer) -> None:
                        self._answers[answer.key] = answer
                        if answer.is_final:
                            kept.add(answer, questions[answer.key].messages[-1].text)
                        show(answer)

                    async with heartbeat():
                        await self._engine.ask_rows(replace(self._batch, note=note), missing, keep)
            except BaseException as error:
                error.add_note(self._how_to_go_on())
                if isinstance(error, StoreError):  # an answer is not lost, even if it can't be saved
                    error.partial = self.frame()
                raise
        if self._left():
            budget = self._batch.budget
            cause = f"the budget is spent ({budget!r})" if budget.is_spent else "a batch was cancelled"
            _warn(f"The map ended: {cause}. {self._how_to_go_on()}")
        return self.frame()

    def forget(self) -> None:
        """Delete the kept answers once they are delivered, unless rows must be sent again."""
        failed = sum(answer.status == "error" for answer in self._answers.values())
        if self._path is None and not self._left() and not failed:
            self._agent.unfinished.forget(row.key for row in self._rows)

    def _kept(self) -> AbstractContextManager[Checkpoint | Unfinished]:
        if self._path is None:
            return nullcontext(self._agent.unfinished)
        provider = self._batch.provider
        return Checkpoint(self._path, f"{provider.provider_name}:{provider.model_name}")

    def _missing(self, kept: Checkpoint | Unfinished) -> list[Row]:
        """The rows to send, each once; the others' answers are recorded."""
        found = kept.answers(row.key for row in self._rows).values()
        self._answers |= {answer.key: answer for answer in map(self._read, found) if answer is not None}
        return list({row.key: row for row in self._rows if row.key not in self._answers}.values())

    def _read(self, answer: Answer) -> Answer | None:
        """A saved answer with its values; None if the type no longer accepts it, since validators may have changed."""
        if self._output is None or answer.values is not None or answer.status != "ok":
            return answer
        try:
            return replace(answer, values=read_row(self._output, answer.text))
        except Exception:  # the user's own validators; the row is sent again
            log.info("a saved answer no longer fits the output type", exc_info=True)
            return None

    def _left(self) -> int:
        """How many rows were not sent, or not completed."""
        return sum(row.key not in self._answers or self._answers[row.key].status == "left" for row in self._rows)

    def _how_to_go_on(self) -> str:
        left, rows = self._left(), len(self._rows)
        spent = " with a larger budget" if self._batch.budget.is_spent else ""
        return (
            f"{rows - left:,} of {rows:,} rows are done, {left:,} are left: agent.last_map has what is done, and the "
            f"same call{spent} continues."
        )

    def _estimate(self, rows: list[Row]) -> Estimate:
        """An estimate for these rows. Answers are assumed to be as long as the existing ones."""
        provider, probe = self._batch.provider, self._probe
        shared = max(0, probe.tokens - estimate_tokens(probe.messages[-1]))
        tokens_in = sum(shared + sum(map(estimate_tokens, row.messages)) for row in rows)
        known = [answer.output_tokens for answer in self._answers.values() if answer.output_tokens]
        longest = self._batch.options.get("max_tokens")
        if known:
            each, assumption = math.ceil(sum(known) / len(known)), f"as in {len(known):,} answers so far"
        elif longest:
            each, assumption = longest, f"at most {longest:,} a row"
        else:
            each, assumption = ANSWER_TOKENS, f"if an answer has {ANSWER_TOKENS} tokens"
        one = Usage(math.ceil(tokens_in / (len(rows) or 1)), each)
        prices = [price_at(one, member.model_name, member, None, self._is_batch) for member in provider.members]
        known_prices = [dollars for dollars in prices if dollars is not None]
        cost = max(known_prices) * len(rows) if len(known_prices) == len(prices) else None  # any of them may answer
        return Estimate(tokens_in, each * len(rows), cost, assumption)

    async def _check_the_cost(self, rows: list[Row]) -> None:
        """Ask before spending may exceed the budget. Without approval, nothing is sent."""
        budgets = [each for each in (self._batch.budget, self._agent.budget) if each is not None]
        left = min(each.left for each in budgets)
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
        ends = "what this does not pay for is left, and the same call continues with it"
        if not await self._agent.agrees("map", f"{text}: {ends}. Begin?"):
            raise ConfigurationError(f"{text}. Nothing was sent. Allow more, or pass allow_partial=True: {ends}.")


async def gathered(data: Any, engine: Any) -> tuple[Any, Callable[[Map], Any] | None]:
    """The data in memory. For Dask data, also a function that makes a Dask DataFrame of the answers; else None."""
    if type(data).__module__.partition(".")[0] != "dask":
        return data, None
    from nbagent.batch.dask_frames import as_dask, partitions_of

    parts = await partitions_of(data, engine)
    lengths = [len(part) for part in parts]
    return pd.concat(parts), lambda task: as_dask(task.frames(lengths), data.divisions)


def settings_of(agent: MapAgent, tools: bool, options: Mapping[str, Any], output: Any) -> dict[str, Any]:
    """Everything besides the rows that decides the answers: agent settings, models and request options."""
    given = {name: options[name] for name in options if name in RequestOptions.__optional_keys__}
    return {
        **agent.row_settings(tools),
        "models": [_model_settings(each, given) for each in agent.provider.members],
        "schema": None if output is None else output_of(output).schema,
    }


def _model_settings(provider: LLMProvider, given: Mapping[str, Any]) -> list[Any]:
    own = getattr(provider, "options", {})  # defaults of each request
    address = "" if provider.provider_name == "local" else getattr(provider, "base_url", "")  # a temporary port
    return [provider.provider_name, address, provider.model_name, {**own, **given}]


def chosen_engine(engine: Any, checkpoint: Path | None) -> Engine:
    """The engine that `Agent.map`'s argument names, imported here. Raises `ConfigurationError`."""
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


def _budget(given: Budget | float | None, of_agent: Budget | None) -> Budget:
    if isinstance(given, Budget):
        return given
    check_number("budget", given, minimum=0, optional=True, fix="Pass US dollars, or a Budget(...).")
    return of_agent or Budget() if given is None else Budget(max_cost=given)


def _run_options(options: Mapping[str, Any], limits: Limits | None, output: Any) -> dict[str, Any]:
    """The arguments of each row's `chat`."""
    own = {"limits": limits, "output": output}
    return {**options, **{name: value for name, value in own.items() if value is not None}}


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)

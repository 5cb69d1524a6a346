"""`SideTasks`: what an agent does beside its conversation: `extract`, `parse_message`, `map`.

They ask with the agent's provider and record into its trace; the conversation does not change.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from nbagent.core.background import run_sync
from nbagent.core.budget import Budget
from nbagent.core.inputs import MessageInput
from nbagent.core.limits import Limits
from nbagent.core.request_options import RequestOptions, RunOptions
from nbagent.errors import ConfigurationError

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from nbagent.batch.engine import RowAgent
    from nbagent.batch.map import Map, Unfinished
    from nbagent.batch.options import MapOptions
    from nbagent.batch.preview import MapPreview
    from nbagent.extract import Records, SideAgent
    from nbagent.providers.base import LLMProvider

T = TypeVar("T")


def offer_accessor() -> None:
    """Add `df.agent` to pandas where that is loaded; nothing loads it for this."""
    if "pandas" in sys.modules:
        import nbagent.batch.accessor  # noqa: F401  imported for its effect


class SideTasks(ABC):
    """The part of `Agent` that asks beside the conversation."""

    budget: Budget | None
    _last_map: Map | None = None

    @property
    @abstractmethod
    def provider(self) -> LLMProvider:
        """See `Agent.provider`."""

    @property
    @abstractmethod
    def system_prompt(self) -> str | None:
        """See `Agent.system_prompt`."""

    @abstractmethod
    def side_agent(self, system_prompt: str, tools: bool = False) -> SideAgent:
        """See `Agent.side_agent`."""

    @abstractmethod
    async def agrees(self, asker: str, text: str) -> bool:
        """See `Agent.agrees`."""

    @abstractmethod
    def row_agent(self, tools: bool) -> RowAgent:
        """See `Agent.row_agent`."""

    @abstractmethod
    def row_settings(self, tools: bool) -> dict[str, Any]:
        """See `Agent.row_settings`."""

    @overload
    async def extract(
        self,
        message: MessageInput,
        shape: type[list[T]],
        *,
        max_iterations: int | None = None,
        **options: Unpack[RunOptions],
    ) -> Records[T]: ...
    @overload
    async def extract(
        self, message: MessageInput, shape: type[T], *, max_iterations: int | None = None, **options: Unpack[RunOptions]
    ) -> T: ...
    @overload  # a union, a Literal, an Annotated: type checkers have no word for their values yet
    async def extract(
        self, message: MessageInput, shape: object, *, max_iterations: int | None = None, **options: Unpack[RunOptions]
    ) -> Any: ...
    async def extract(
        self, message: MessageInput, shape: object, *, max_iterations: int | None = None, **options: Unpack[RunOptions]
    ) -> Any:
        """What a message says, as a `shape`: a pydantic model, `list[Model]`, or another type that pydantic supports.

        `message` is a text, an image or a list of both, as for `chat`, of which `options` are, too. The conversation
        does not change, and the system prompt is another. The agent's tools are offered if `tools` or `use_tools` says
        so. It is one run, with the limits and the budget of one, corrections included: see `output` of `chat_stream`.
        Raises `ExtractionError` if the answer stays wrong or is not whole.

        A list has `.to_frame()`, `.run_id` and `.cost`. For these of a single value, and for the conversation and the
        system prompt to count, use `chat(message, output=shape)`.

        >>> people = await agent.extract(page, list[Person])                # doctest: +SKIP
        >>> people.to_frame()                                               # doctest: +SKIP
        """
        from nbagent.extract import EXTRACT, extract

        if "output" in options:
            raise ConfigurationError("extract() takes no output: its second argument is the type.")
        has_tools = options.get("use_tools", options.get("tools") is not None)
        return await extract(
            self.side_agent(EXTRACT, has_tools), message, shape, max_iterations=max_iterations, **options
        )

    @overload
    async def map(
        self,
        data: Series[Any] | DataFrame,
        prompt: str | None = None,
        output: Any = None,
        *,
        preview: Literal[False] = False,
        **options: Unpack[MapOptions],
    ) -> DataFrame: ...
    @overload
    async def map(
        self,
        data: Series[Any] | DataFrame,
        prompt: str | None = None,
        output: Any = None,
        *,
        preview: Literal[True],
        **options: Unpack[MapOptions],
    ) -> MapPreview: ...
    async def map(
        self,
        data: Series[Any] | DataFrame,
        prompt: str | None = None,
        output: Any = None,
        *,
        concurrency: int = 16,
        limits: Limits | None = None,
        budget: Budget | float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        engine: Any = None,
        on_error: Literal["keep", "raise"] = "keep",
        tools: bool = False,
        explode: str | None = None,
        rpm: float | None = None,
        tpm: float | None = None,
        allow_partial: bool = False,
        preview: bool = False,
        progress: bool = True,
        tags: Iterable[str] | None = None,
        user: str | None = None,
        session: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        **options: Unpack[RequestOptions],
    ) -> DataFrame | MapPreview:
        """Ask about each row of a Series or DataFrame, and get a DataFrame of answers with the same index.

        - `prompt`: the question, with columns in braces; without one, the values are the questions: texts, images
          (PIL images, figures, bytes, paths), paths to PDFs, lists of messages. A row without a value is skipped.
        - `output`: a pydantic model, whose fields become typed columns (`address.city`), or another type. `explode`
          names a list in it: each item becomes a row.
        - `concurrency`: rows that are asked at the same time; `rpm` and `tpm`: requests and tokens a minute, at most
        - `limits` hold for each row, `budget` (US dollars, or a `Budget`) for all. When it is spent, rows are left.
          If the estimate is higher than either, the map asks the person before it begins, in a notebook or a terminal.
          Without a yes it raises `ConfigurationError` and sends nothing; `allow_partial=True` begins without asking.
        - `checkpoint`: a file that keeps the answers, so that the same call goes on after any end. Without one, the
          agent keeps them in memory until all rows have their answer.
        - `engine`: None asks now; "batch" takes the vendor's batch endpoint; a `distributed.Client` asks on a cluster
        - `on_error`: "keep" puts a row's error into its row, "raise" ends the map
        - `tools`: whether the model may use the agent's tools
        - `preview`: show what would be sent and cost, and send nothing
        - `tags`, `user`, `session`, `metadata`: see `tagged`; `options`: see `RequestOptions`

        The answer comes first, then `status`, `error`, `input_tokens`, `output_tokens`, `cost`, `seconds`, `run_id`.
        Of a Dask DataFrame it is one too, in the same partitions, asked when it is awaited.

        Equal rows are asked once: the first has the tokens and the cost, the others have 0. Errors that each row would
        have, such as a wrong key, are raised. The conversation does not change. Whatever ends a map, `last_map` has
        what is done.

        >>> await agent.map(reviews, "Is this review positive? {text}")             # doctest: +SKIP
        """
        from nbagent.batch.map import Map, gathered

        data, in_parts = await gathered(data, engine)
        given: dict[str, Any] = {"concurrency": concurrency, "limits": limits, "budget": budget, "engine": engine}
        given |= {"checkpoint": checkpoint, "on_error": on_error, "tools": tools, "explode": explode}
        given |= {"allow_partial": allow_partial}
        labels = {"tags": tags, "user": user, "session": session, "metadata": metadata}
        given["options"] = {**options, **{name: value for name, value in labels.items() if value is not None}}
        task = Map(self, data, prompt, output, rpm=rpm, tpm=tpm, progress=progress, **given)
        if preview:
            return task.preview()
        self._last_map = task
        answers = await task.run()
        answers = answers if in_parts is None else in_parts(task)
        task.forget()
        return answers

    @overload
    def map_sync(
        self,
        data: Series[Any] | DataFrame,
        prompt: str | None = None,
        output: Any = None,
        *,
        preview: Literal[False] = False,
        **options: Unpack[MapOptions],
    ) -> DataFrame: ...
    @overload
    def map_sync(
        self,
        data: Series[Any] | DataFrame,
        prompt: str | None = None,
        output: Any = None,
        *,
        preview: Literal[True],
        **options: Unpack[MapOptions],
    ) -> MapPreview: ...
    def map_sync(
        self,
        data: Series[Any] | DataFrame,
        prompt: str | None = None,
        output: Any = None,
        *,
        preview: bool = False,
        **options: Unpack[MapOptions],
    ) -> DataFrame | MapPreview:
        """Blocking twin of `map`, for scripts and for cells without `await`."""
        if preview:
            return run_sync(self.map(data, prompt, output, preview=True, **options))
        return run_sync(self.map(data, prompt, output, **options))

    @property
    def last_map(self) -> DataFrame | None:
        """The frame of the latest `map` as far as it has come, also while it runs and after it was stopped.

        Rows that were not asked have the status "left". None before the first map.
        """
        return None if self._last_map is None else self._last_map.frame()

    @cached_property
    def unfinished(self) -> Unfinished:
        """The answers of maps that had no checkpoint and did not end, for the same call to go on with."""
        from nbagent.batch.map import Unfinished

        return Unfinished()

    async def parse_message(self, sender: str, timestamp: Any, content: str) -> list[dict[str, Any]]:
        """The records in an unstructured message, as a list of dicts. Describe a record in the `system_prompt`.

        The conversation does not change. Raises `ExtractionError` if the model returns no JSON array of objects.
        """
        from nbagent.extract import RECORDS, parse_message

        prompt = "\n\n".join(filter(None, (self.system_prompt, RECORDS)))
        return await parse_message(self.side_agent(prompt), sender, timestamp, content)

"""`SideTasks`: what an agent does beside its conversation: `extract`, `parse_message`, `map`.

They ask with the agent's provider and record into its trace; the conversation does not change.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from nbagent.core.budget import Budget
from nbagent.core.limits import Limits, shared_limits
from nbagent.core.request_options import RunOptions, StreamOptions

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from nbagent.batch.engine import RowAgent
    from nbagent.extract import Records, SideAgent
    from nbagent.providers.base import LLMProvider

T = TypeVar("T")


class SideTasks(ABC):
    """The part of `Agent` that asks beside the conversation."""

    limits: Limits

    @property
    @abstractmethod
    def provider(self) -> LLMProvider:
        """See `Agent.provider`."""

    @property
    @abstractmethod
    def system_prompt(self) -> str | None:
        """See `Agent.system_prompt`."""

    @abstractmethod
    def side_agent(self, system_prompt: str) -> SideAgent:
        """See `Agent.side_agent`."""

    @abstractmethod
    def row_agent(self, tools: bool) -> RowAgent:
        """See `Agent.row_agent`."""

    @abstractmethod
    def row_settings(self, tools: bool) -> dict[str, Any]:
        """See `Agent.row_settings`."""

    @abstractmethod
    def _limits_of_run(self, limits: Limits | None, max_iterations: int | None) -> Limits:
        """The limits of a run: these, and the agent's where these are None."""

    @overload
    async def extract(
        self, text: str, shape: type[list[T]], *, max_iterations: int | None = None, **options: Unpack[RunOptions]
    ) -> Records[T]: ...
    @overload
    async def extract(
        self, text: str, shape: type[T], *, max_iterations: int | None = None, **options: Unpack[RunOptions]
    ) -> T: ...
    @overload  # a union, a Literal, an Annotated: type checkers have no word for their values yet
    async def extract(
        self, text: str, shape: object, *, max_iterations: int | None = None, **options: Unpack[RunOptions]
    ) -> Any: ...
    async def extract(
        self, text: str, shape: object, *, max_iterations: int | None = None, **options: Unpack[RunOptions]
    ) -> Any:
        """What a text says, as an object of type `shape`: a pydantic model, `list[Model]`, or a type pydantic supports.

        The conversation does not change. The answer is validated; the model may correct it twice, then
        `ExtractionError` is raised. Its requests together have the limits of one run, `limits` and `max_iterations`
        too. A list has `.to_frame()`. `options` are those of `chat`.

        >>> people = await agent.extract(page, list[Person])                # doctest: +SKIP
        >>> people.to_frame()                                               # doctest: +SKIP
        """
        from nbagent.extract import extract

        limits = options["limits"] = self._limits_of_run(options.get("limits"), max_iterations)
        with shared_limits(limits):
            return await extract(self.side_agent, self.provider, text, shape, **options)

    async def map(
        self,
        data: Series[Any] | DataFrame,
        prompt: str | None = None,
        *,
        concurrency: int = 16,
        checkpoint: str | os.PathLike[str] | None = None,
        budget: Budget | float | None = None,
        tools: bool = False,
        on_error: Literal["keep", "raise"] = "keep",
        **options: Unpack[StreamOptions],
    ) -> DataFrame:
        """Ask about each row of a Series or DataFrame, and get a DataFrame of answers with the same index.

        >>> await agent.map(reviews, "Is this review positive? {text}")             # doctest: +SKIP
        """
        from nbagent.batch.map import map_rows

        return await map_rows(
            self,
            data,
            prompt,
            concurrency=concurrency,
            checkpoint=checkpoint,
            budget=budget,
            tools=tools,
            on_error=on_error,
            options=options,
        )

    async def parse_message(self, sender: str, timestamp: Any, content: str) -> list[dict[str, Any]]:
        """The records in an unstructured message, as a list of dicts. Describe a record in the `system_prompt`.

        The conversation does not change. Raises `ExtractionError` if the model returns no JSON array of objects.
        """
        from nbagent.extract import parse_message

        with shared_limits(self.limits):
            return await parse_message(self.side_agent, self.system_prompt, sender, timestamp, content)

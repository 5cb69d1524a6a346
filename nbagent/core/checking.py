"""Checks of the answer that would end a run. An answer that fails one goes back to the model with the reason."""

from __future__ import annotations

from collections.abc import Callable

from nbagent.core.results import AgentResult

#: How often the model may correct its answer within a run.
CORRECTIONS = 2


class AnswerRejectedError(Exception):
    """An answer fails a check. The text tells the model why; `error` ends the run once it had its corrections."""

    def __init__(self, text: str, error: Exception) -> None:
        super().__init__(text)
        self.error = error


#: Accepts the answer of a run, and may set `result.data`, or raises `AnswerRejectedError`.
AnswerCheck = Callable[[AgentResult], None]

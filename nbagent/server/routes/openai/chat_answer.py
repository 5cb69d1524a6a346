"""The events of a run as chat completions: chunks of a stream, or one whole answer.

Tools ran on the server: the answer has no word of them, since clients run whatever `tool_calls` announce. The texts of
several turns become one, a blank line between them. Thinking is `reasoning_content`, as DeepSeek and most servers of
open models have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import time
from typing import Any

from nbagent.core.events import AnyEvent, Done, Retry, RunStarted, Text, Thinking, TurnDone
from nbagent.core.messages import Usage
from nbagent.core.results import AgentResult
from nbagent.server.problems import HTTPProblem
from nbagent.server.routes.openai.errors import answer_restarted, envelope

#: How a run ended -> why the answer ends. All other runs end with "stop".
_FINISH_REASONS = {"truncated": "length", "limit": "length", "blocked": "content_filter"}
_PARAGRAPH = "\n\n"


class ChatAnswer:
    """Collects the events of one run. `feed` returns the chunks that each event adds to a stream; see `reply`.

    >>> answer = ChatAnswer("nbagent")
    >>> [chunk["choices"][0]["delta"] for chunk in answer.feed(Text("Hello"))]
    [{'role': 'assistant', 'content': ''}, {'content': 'Hello'}]
    """

    def __init__(self, model: str, *, reports_usage: bool = False) -> None:
        self._head = {"id": "chatcmpl", "created": int(time()), "model": model}
        self._reports_usage = reports_usage
        self._has_begun = False
        self._result = AgentResult()
        self._texts, self._thinking = _Texts(), _Texts()

    def feed(self, event: AnyEvent) -> Iterator[dict[str, Any]]:
        """The chunks of one event. Raises `RefusedError` if text that was sent would be sent again."""
        match event:
            case RunStarted():
                self._head["id"] = f"chatcmpl_{event.metadata['run_id']}"
            case Thinking():
                yield from self._delta("reasoning_content", self._thinking.add(event.content))
            case Text():
                yield from self._delta("content", self._texts.add(event.content))
            case Retry() if self._texts.start < len(self._texts.pieces):
                raise answer_restarted()
            case TurnDone():
                for each in (self._texts, self._thinking):
                    each.start = len(each.pieces)
            case Done():
                yield from self._finish(event.result)

    def fail(self, problem: HTTPProblem) -> Iterator[dict[str, Any]]:
        """What ends a stream whose run failed."""
        yield envelope(problem)[1]

    def _finish(self, result: AgentResult) -> Iterator[dict[str, Any]]:
        """The last chunks: what ended the answer and, if asked for, the token counts."""
        self._result = result
        yield from self._begin()
        yield self._chunk({}, _finish_reason(result))
        if self._reports_usage:
            yield {**self._chunk({}), "choices": [], "usage": usage(result.usage)}

    def whole(self) -> dict[str, Any]:
        """The answer as one object, once the run is done."""
        result = self._result
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._texts.pieces), "refusal": None}
        if thinking := "".join(self._thinking.pieces):
            message["reasoning_content"] = thinking
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(result)}
        head = {**self._head, "object": "chat.completion"}
        return {**head, "choices": [choice], "usage": usage(result.usage)}

    def _delta(self, name: str, text: str) -> Iterator[dict[str, Any]]:
        if text:
            yield from self._begin()
            yield self._chunk({name: text})

    def _begin(self) -> Iterator[dict[str, Any]]:
        if not self._has_begun:
            self._has_begun = True
            yield self._chunk({"role": "assistant", "content": ""})

    def _chunk(self, delta: Mapping[str, str], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": dict(delta), "logprobs": None, "finish_reason": finish_reason}
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": [choice]}
        return {**chunk, "usage": None} if self._reports_usage else chunk


class _Texts:
    """The texts of all turns, a blank line between them, in pieces. Those of the last turn begin at `start`."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.start = 0

    def add(self, piece: str) -> str:
        """Returns the piece, after a blank line if it begins a text after others."""
        if piece:
            self.pieces.append(_PARAGRAPH + piece if 0 < self.start == len(self.pieces) else piece)
        return self.pieces[-1] if piece else ""


def usage(counts: Usage) -> dict[str, Any]:
    """The token counts of all turns of a run."""
    return {
        "prompt_tokens": counts.input_tokens,
        "completion_tokens": counts.output_tokens,
        "total_tokens": counts.total_tokens,
        "prompt_tokens_details": {
            "cached_tokens": counts.cache_read_tokens,
            "cache_write_tokens": counts.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": counts.reasoning_tokens},
    }


def _finish_reason(result: AgentResult) -> str:
    return _FINISH_REASONS.get(result.status, "stop")

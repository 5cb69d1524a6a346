"""`POST /v1/chat/completions`. The client keeps the conversation; the server does not.

Tools run on the server. The answer omits the tool calls, because clients try to run every call in `tool_calls`. If the
model wrote text in several turns, the texts are separated by blank lines. Thinking is sent as `reasoning_content`, as
it is by DeepSeek and most servers for open models.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import time
from typing import Any, Literal

from fastapi import APIRouter, Request
from openai.types import chat
from openai.types.chat.completion_create_params import ResponseFormat
from openai.types.shared_params.reasoning_effort import ReasoningEffort
from pydantic import Field
from starlette.responses import Response

from nbagent.core.events import AnyEvent, Done, Retry, RunStarted, Text, Thinking, TurnDone
from nbagent.core.messages import FunctionCall, LLMMessage, Usage, parse_arguments
from nbagent.core.results import AgentResult
from nbagent.server.event_stream import MEDIA_TYPE, sse
from nbagent.server.hosted_run import HostedRun
from nbagent.server.problems import HTTPProblem
from nbagent.server.routes.dependencies import MAX_MESSAGES, Host, Owner
from nbagent.server.routes.openai.body import BodyPart, Part, RequestBody, content_from, run_request, split_prompt
from nbagent.server.routes.openai.errors import answer_restarted, envelope, unsupported
from nbagent.server.routes.openai.writing import reply

router = APIRouter(prefix="/v1")

#: A run's status -> the finish reason. All others are "stop".
_FINISH_REASONS = {"truncated": "length", "limit": "length", "blocked": "content_filter"}


class ChatMessage(BodyPart):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = Field(None, examples=["How warm is it in Berlin?"])
    name: str | None = None
    tool_calls: list[chat.ChatCompletionMessageFunctionToolCallParam] | None = None
    tool_call_id: str | None = None

    def to_message(self, param: str) -> LLMMessage:
        """Convert this to a message for an agent."""
        calls = [
            FunctionCall(call["function"]["name"], arguments, call["id"], raw)
            for call in self.tool_calls or ()
            for arguments, raw in [parse_arguments(call["function"]["arguments"])]
        ]
        role = "system" if self.role == "developer" else self.role
        content = content_from(self.content, f"{param}.content")
        return LLMMessage(role, content, self.name, calls or None, self.tool_call_id)


class ChatCompletionRequest(RequestBody):
    """The body of `POST /v1/chat/completions`."""

    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    max_completion_tokens: int | None = Field(None, ge=1)
    max_tokens: int | None = Field(None, ge=1)
    n: int | None = Field(None, ge=1)
    stop: str | list[str] | None = None
    seed: int | None = None
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    response_format: ResponseFormat | None = None
    reasoning_effort: ReasoningEffort = None
    stream_options: chat.ChatCompletionStreamOptionsParam | None = None
    functions: list[Any] | None = Field(None, description="Not supported. The agent has its own tools.")
    modalities: list[str] | None = None
    logprobs: bool | None = None

    def options(self) -> dict[str, Any]:
        """See `RequestBody.options`."""
        if self.functions:
            raise unsupported("functions", "these are the client's functions, which an agent can't call.")
        if (self.n or 1) > 1:
            raise unsupported("n", "an agent returns one answer. Send the request again for another answer.")
        if "audio" in (self.modalities or ()):
            raise unsupported("modalities", "an agent can only answer with text.")
        if self.logprobs:
            raise unsupported("logprobs", "an agent's answer has no log probabilities.")
        penalties = {"frequency_penalty": self.frequency_penalty, "presence_penalty": self.presence_penalty}
        penalties = {name: value for name, value in penalties.items() if value}  # some models reject them even if 0
        given = {"stop": self.stop, "seed": self.seed, "thinking": self.reasoning_effort, "extra_body": penalties}
        given["max_tokens"] = self.max_completion_tokens or self.max_tokens
        return {**super().options(), **{name: value for name, value in given.items() if value not in (None, {})}}


@router.post("/chat/completions", response_model=None, responses={200: {"content": {MEDIA_TYPE: {}}}})
async def create_completion(request: Request, host: Host, owner: Owner, body: ChatCompletionRequest) -> Response:
    """Send a prompt with its whole conversation. Tools run on the server. The answer omits the tool calls."""
    messages = [message.to_message(f"messages[{index}]") for index, message in enumerate(body.messages)]
    question = split_prompt(messages, f"messages[{len(messages) - 1}].role")
    reports_usage = bool((body.stream_options or {}).get("include_usage"))

    def answer(run: HostedRun) -> ChatAnswer:
        return ChatAnswer(body.model, reports_usage=reports_usage)

    wanted = await run_request(
        host, body, question, body.response_format, "response_format", history=question.history, stored=False
    )
    return await reply(request, host, owner, wanted, answer, sse if body.stream else None, "data: [DONE]\n\n")


class ChatAnswer:
    """Converts the events of a run to chunks of a stream, or to one answer. See `reply`.

    >>> answer = ChatAnswer("nbagent")
    >>> [chunk["choices"][0]["delta"] for chunk in answer.feed(Text("Hello"))]
    [{'role': 'assistant', 'content': ''}, {'content': 'Hello'}]
    """

    def __init__(self, model: str, *, reports_usage: bool = False) -> None:
        self._head = {"id": "chatcmpl", "created": int(time()), "model": model}
        self._reports_usage = reports_usage
        self._has_begun = False
        self._result = AgentResult()
        #: The pieces of each field, and how many of them belong to earlier turns.
        self._pieces: dict[str, list[str]] = {"content": [], "reasoning_content": []}
        self._earlier = dict.fromkeys(self._pieces, 0)

    def feed(self, event: AnyEvent) -> Iterator[dict[str, Any]]:
        """Yield the chunks for an event. Raises `RefusedError` if text that was already sent would have to be
        retracted.
        """
        match event:
            case RunStarted():
                self._head["id"] = f"chatcmpl_{event.metadata['run_id']}"
            case Thinking() if event.content:
                yield from self._add("reasoning_content", event.content)
            case Text() if event.content:
                yield from self._add("content", event.content)
            case Retry() if self._earlier["content"] < len(self._pieces["content"]):
                raise answer_restarted()
            case TurnDone():
                self._earlier = {name: len(pieces) for name, pieces in self._pieces.items()}
            case Done():
                self._result = event.result
                yield from self._begin()
                yield self._chunk({}, _finish_reason(event.result))
                if self._reports_usage:
                    yield {**self._chunk({}), "choices": [], "usage": usage(event.result.usage)}

    def fail(self, problem: HTTPProblem) -> Iterator[dict[str, Any]]:
        """Yield the last chunks of a stream whose run failed."""
        yield envelope(problem)[1]

    def whole(self) -> dict[str, Any]:
        """Return the answer as one object, once the run is done."""
        said, thought = map("".join, self._pieces.values())
        message = {"role": "assistant", "content": said, "refusal": None}
        message |= {"reasoning_content": thought} if thought else {}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(self._result)}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": usage(self._result.usage)}

    def _add(self, name: str, piece: str) -> Iterator[dict[str, Any]]:
        pieces = self._pieces[name]
        pieces.append(f"\n\n{piece}" if 0 < self._earlier[name] == len(pieces) else piece)
        yield from self._begin()
        yield self._chunk({name: pieces[-1]})

    def _begin(self) -> Iterator[dict[str, Any]]:
        if not self._has_begun:
            self._has_begun = True
            yield self._chunk({"role": "assistant", "content": ""})

    def _chunk(self, delta: dict[str, str], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": [choice]}
        return {**chunk, "usage": None} if self._reports_usage else chunk


def usage(counts: Usage) -> dict[str, Any]:
    """Return the token counts of a run."""
    cached = {"cached_tokens": counts.cache_read_tokens, "cache_write_tokens": counts.cache_write_tokens}
    return {
        "prompt_tokens": counts.input_tokens,
        "completion_tokens": counts.output_tokens,
        "total_tokens": counts.total_tokens,
        "prompt_tokens_details": cached,
        "completion_tokens_details": {"reasoning_tokens": counts.reasoning_tokens},
    }


def _finish_reason(result: AgentResult) -> str:
    return _FINISH_REASONS.get(result.status, "stop")

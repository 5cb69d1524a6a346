"""Chat completions as the vendors answer them; `openai_chat_rules` holds what they refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from support.dialects.base import STATUS, Asked, Dialect, bearer, parsed, require
from support.dialects.openai_chat_rules import check_conversation, check_head
from support.dialects.script import Call, Counts, Reply, Said, Thought
from support.loopback import Request

WORDS = {"stop": "stop", "tool_calls": "tool_calls", "length": "length", "content_filter": "content_filter"}


def openai_error(kind: str, message: str) -> dict[str, Any]:
    """OpenAI's form, which most vendors use."""
    types = {"key": "authentication_error", "rate_limit": "rate_limit_error", "overloaded": "server_error"}
    code = {"key": "invalid_api_key", "context": "context_length_exceeded"}.get(kind)
    error = {"message": message, "type": types.get(kind, "invalid_request_error"), "param": None, "code": code}
    return {"error": error}


def numbered_error(kind: str, message: str) -> dict[str, Any]:
    """OpenRouter and vLLM: the HTTP status as code."""
    return {"error": {"message": message, "code": STATUS[kind]}}


def zhipu_error(kind: str, message: str) -> dict[str, Any]:
    """Codes of its own, as strings, and nothing else."""
    codes = {"invalid": "1214", "key": "1000", "rate_limit": "1302", "overloaded": "1305", "context": "1261"}
    return {"error": {"code": codes[kind], "message": message}}


TEXTS = {
    "key": "Incorrect API key provided",
    "rate_limit": "Rate limit reached for requests",
    "overloaded": "The server is currently overloaded",
    "context": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
}


@dataclass(frozen=True)
class ChatDialect(Dialect):
    """Chat completions as one vendor speaks them."""

    #: The field in which thinking comes; "<think>": inside the text; "": never.
    thinking: str = "reasoning_content"
    #: The field in which it has to come back; "": it may not.
    returned: str = ""
    #: That field is mandatory in all answers of the model, once tools were called.
    mandatory: bool = False
    #: The fields of a body; None where strange ones are ignored.
    fields: frozenset[str] | None = None
    #: The names of the output limit.
    limits: frozenset[str] = frozenset({"max_tokens"})
    #: Prefixes of models that refuse a temperature.
    cool: tuple[str, ...] = ()
    longest_id: int = 1000
    #: A message has no further fields than the documented ones, no part is empty, a user has spoken.
    pedantic: bool = False
    #: Token counts without being asked.
    usage_unasked: bool = False
    #: How cached tokens are counted: in the details, or as DeepSeek does.
    cached_by: str = "details"
    written_as: str = ""
    #: Further pieces of a call repeat its id as an empty text (Qwen); a call comes in one piece (Ollama).
    empty_ids: bool = False
    one_piece: bool = False
    sees: bool = True
    error: Callable[[str, str], dict[str, Any]] = openai_error
    texts: Mapping[str, str] = field(default_factory=lambda: TEXTS)
    words: Mapping[str, str] = field(default_factory=lambda: WORDS)

    base_path: ClassVar[str] = "/v1"

    @property
    def thinks(self) -> bool:  # type: ignore[override]
        return bool(self.thinking)

    @property
    def wants_thinking_back(self) -> bool:  # type: ignore[override]
        return bool(self.returned)

    @property
    def counts_written(self) -> bool:  # type: ignore[override]
        return bool(self.written_as)

    @property
    def careless(self) -> bool:  # type: ignore[override]
        return self.fields is None

    @property
    def takes_temperature(self) -> bool:  # type: ignore[override]
        return not self.cool

    # ------------------------------------------------------------------ the answer

    def beginning(self, reply: Reply, asked: Asked) -> list[Any]:
        """The pieces, after one with the role only; token counts so far, if they come in between."""
        pieces: list[dict[str, Any]] = [{"role": "assistant", "content": "", "refusal": None}]
        index = -1
        for part in reply.parts:
            if isinstance(part, Call):
                index += 1
                pieces += self._call_pieces(part, index)
            elif isinstance(part, Said):
                pieces += [{"content": piece} for piece in part.pieces]
            else:
                pieces += self._thought_pieces(part)
        so_far = [self._usage_chunk(Counts(reply.counts.input, 1), asked)] if self._counted(asked) else []
        return [self._chunk(delta, asked) for delta in pieces] + so_far

    def ending(self, reply: Reply, asked: Asked) -> list[Any]:
        """The finish reason, the counts, `[DONE]`."""
        last = self._chunk({}, asked, self._word(reply))
        counts = [self._usage_chunk(reply.counts, asked)] if self._counted(asked) else []
        return [last, *counts, "[DONE]"]

    def whole(self, reply: Reply, asked: Asked) -> dict[str, Any]:
        """One body with one message."""
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        for thought in reply.thoughts:
            if self.thinking == "<think>":
                message["content"] = f"<think>{thought.text}</think>\n{reply.text}"
            else:
                message |= self._thought_field(thought.text, thought.signature)
        if calls := [{**self._call(call), "index": n} for n, call in enumerate(reply.calls)]:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": self._word(reply)}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked.model}
        return {**head, "choices": [choice], "usage": self._usage(reply.counts)}

    def issued(self, reply: Reply, asked: Asked) -> Any:
        """The text, the ids of the calls, and the thinking as it has to come back."""
        back = {}
        for thought in reply.thoughts:
            back = self._thought_field(thought.text, thought.signature)
        ids = [call.id for call in reply.calls]
        return {"text": reply.text, "ids": ids, "back": back.get(self.returned) if self.returned else None}

    def error_event(self) -> Any:
        return self.error_body("overloaded", self.texts["overloaded"])

    def noise(self) -> list[Any]:
        """Chunks without choices, a strange object, a list."""
        return [{"object": "chat.completion.heartbeat"}, {"id": "chatcmpl-1", "choices": [], "news": {"x": 1}}, "[]"]

    def error_body(self, kind: str, message: str) -> dict[str, Any]:
        return self.error(kind, message)

    def _word(self, reply: Reply) -> str:
        return reply.word or self.words[reply.finish]

    def _chunk(self, delta: dict[str, Any], asked: Asked, finish: str | None = None) -> dict[str, Any]:
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": asked.model}
        usage = {"usage": None} if self._counted(asked) else {}
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **usage}

    def _call(self, call: Call) -> dict[str, Any]:
        function = {"name": call.name, "arguments": call.arguments}
        return {**({"id": call.id} if call.id else {}), "type": "function", "function": function}

    def _call_pieces(self, call: Call, index: int) -> list[dict[str, Any]]:
        if self.one_piece:
            return [{"content": "", "tool_calls": [{"index": index, **self._call(call)}]}]
        opening = self._call(call) | {"function": {"name": call.name, "arguments": ""}}
        later = {"index": index, **({"id": "", "type": "function"} if self.empty_ids else {})}
        deltas = [{"index": index, **opening}]
        deltas += [{**later, "function": {"arguments": piece}} for piece in call.pieces]
        return [{"tool_calls": [delta]} for delta in deltas]

    def _thought_field(self, text: str, signature: str = "") -> dict[str, Any]:
        if self.thinking != "reasoning_details":
            return {self.thinking: text} if self.thinking else {}
        detail = {"type": "reasoning.text", "text": text, "format": "anthropic-claude-v1", "index": 0}
        return {"reasoning": text, "reasoning_details": [detail | ({"signature": signature} if signature else {})]}

    def _thought_pieces(self, thought: Thought) -> list[dict[str, Any]]:
        if self.thinking == "<think>":
            return [{"content": piece} for piece in ("<thi", "nk>", *thought.pieces, "</th", "ink>", "\n")]
        pieces = [{"content": None, **self._thought_field(piece)} for piece in thought.pieces]
        if self.thinking == "reasoning_details":
            signed = {"type": "reasoning.text", "signature": thought.signature, "index": 0}
            pieces.append({"content": "", "reasoning": None, "reasoning_details": [signed]})
        return pieces

    def _counted(self, asked: Asked) -> bool:
        return self.usage_unasked or bool((asked.body.get("stream_options") or {}).get("include_usage"))

    def _usage_chunk(self, counts: Counts, asked: Asked) -> dict[str, Any]:
        return {**self._chunk({}, asked), "choices": [], "usage": self._usage(counts)}

    def _usage(self, counts: Counts) -> dict[str, Any]:
        total = counts.input + counts.output
        usage = {"prompt_tokens": counts.input, "completion_tokens": counts.output, "total_tokens": total}
        usage["completion_tokens_details"] = {"reasoning_tokens": counts.reasoning}
        if self.cached_by == "details":
            written = {self.written_as: counts.written} if self.written_as else {}
            return usage | {"prompt_tokens_details": {"cached_tokens": counts.cached, **written}}
        return usage | {
            "prompt_cache_hit_tokens": counts.cached,
            "prompt_cache_miss_tokens": counts.input - counts.cached,
        }

    # ------------------------------------------------------------------ the request

    def key(self, headers: Mapping[str, str]) -> str | None:
        return bearer(headers)

    def read(self, request: Request) -> Asked:
        """The system prompt may be any message with that role, images stand in users' messages."""
        require(request.path == f"{self.base_path}/chat/completions", f"Invalid URL (POST {request.path})", "missing")
        body = parsed(request)
        turns = body.get("messages")
        require(isinstance(turns, list) and turns, "'messages' is a required property")
        parts = [part for turn in turns if isinstance(turn.get("content"), list) for part in turn["content"]]
        urls = [part["image_url"]["url"] for part in parts if part.get("type") == "image_url"]
        return Asked(
            raw=request.body,
            body=body,
            stream=body.get("stream") is True,
            model=str(body.get("model", "")),
            turns=turns,
            system="".join(turn["content"] for turn in turns if turn["role"] == "system"),
            limit=body.get("max_completion_tokens", body.get("max_tokens")),
            temperature=body.get("temperature"),
            images=[url.removeprefix("data:image/png;base64,") for url in urls],
        )

    def check(self, asked: Asked, issued: Sequence[Any]) -> None:
        check_head(self, asked)
        check_conversation(self, asked.turns, issued)

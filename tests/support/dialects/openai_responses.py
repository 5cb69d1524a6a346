"""OpenAI Responses as OpenAI answers; `openai_responses_rules` holds what it refuses."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from support.dialects.base import Asked, Dialect, bearer, parsed, require
from support.dialects.openai_chat import TEXTS, openai_error
from support.dialects.openai_responses_rules import check_conversation, check_head
from support.dialects.script import Call, Reply, Said
from support.loopback import Request

WORDS = {"stop": "completed", "length": "max_output_tokens", "content_filter": "content_filter"}
CONTEXT = "Your input exceeds the context window of this model. Please adjust your input and try again."


@dataclass(frozen=True)
class ResponsesDialect(Dialect):
    """The Responses API without any state on the server."""

    #: Prefixes of models that refuse a temperature.
    cool: tuple[str, ...] = ("gpt-5", "o1", "o3", "o4")
    texts: Mapping[str, str] = field(default_factory=lambda: TEXTS | {"context": CONTEXT})
    words: Mapping[str, str] = field(default_factory=lambda: WORDS)

    base_path: ClassVar[str] = "/v1"
    conversation: ClassVar[str] = "input"
    counts_written: ClassVar[bool] = True

    @property
    def takes_temperature(self) -> bool:  # type: ignore[override]
        return not self.cool

    # ------------------------------------------------------------------ the answer

    def beginning(self, reply: Reply, asked: Asked) -> list[Any]:
        """Each item as it is added, its pieces, and its end, where its encrypted content counts."""
        opening = self._response(reply, asked) | {"output": [], "usage": None, "status": "in_progress"}
        events = [{"type": kind, "response": opening} for kind in ("response.created", "response.in_progress")]
        for index, (part, item) in enumerate(zip(reply.parts, self._items(reply, asked), strict=True)):
            events.append({"type": "response.output_item.added", "output_index": index, "item": self._opened(item)})
            events += [{"output_index": index, "item_id": item["id"], **event} for event in self._pieces(part)]
            if not (reply.finish == "length" and isinstance(part, Call)):  # the limit cuts the last item
                events.append({"type": "response.output_item.done", "output_index": index, "item": item})
        return events

    def ending(self, reply: Reply, asked: Asked) -> list[Any]:
        """The whole response once more, with reasoning that is encrypted differently."""
        response = self._response(reply, asked)
        again = [item | {"encrypted_content": "other"} if "summary" in item else item for item in response["output"]]
        return [{"type": f"response.{response['status']}", "response": response | {"output": again}}]

    def whole(self, reply: Reply, asked: Asked) -> dict[str, Any]:
        return self._response(reply, asked)

    def issued(self, reply: Reply, asked: Asked) -> Any:
        """The items, all of which have to come back, one after the other."""
        return self._items(reply, asked)

    def error_event(self) -> Any:
        error = self.error_body("overloaded", self.texts["overloaded"])["error"]
        return {"type": "error", **error, "error": error}

    def noise(self) -> list[Any]:
        """Events of new kinds, some about unknown items."""
        return [{"type": "response.rate_limits.updated"}, {"type": "response.dream.delta", "output_index": 99}]

    def error_body(self, kind: str, message: str) -> dict[str, Any]:
        return openai_error(kind, message)

    def _response(self, reply: Reply, asked: Asked) -> dict[str, Any]:
        word = reply.word or self.words[reply.finish if reply.finish in self.words else "stop"]
        done = word == "completed"
        counts = reply.counts
        return {
            "id": "resp_1",
            "object": "response",
            "model": asked.model,
            "status": "completed" if done else "incomplete",
            "incomplete_details": None if done else {"reason": word},
            "error": None,
            "output": self._items(reply, asked),
            "usage": {
                "input_tokens": counts.input,
                "input_tokens_details": {"cached_tokens": counts.cached, "cache_write_tokens": counts.written},
                "output_tokens": counts.output,
                "output_tokens_details": {"reasoning_tokens": counts.reasoning},
            },
        }

    def _items(self, reply: Reply, asked: Asked) -> list[dict[str, Any]]:
        return [self._item(part, n, reply, asked) for n, part in enumerate(reply.parts)]

    def _item(self, part: Any, n: int, reply: Reply, asked: Asked) -> dict[str, Any]:
        """One item. The request that it answers makes its id unique."""
        name = f"{zlib.crc32(asked.raw):08x}{n:08x}"
        if isinstance(part, Said):
            content = [{"type": "output_text", "text": part.text, "annotations": []}]
            head = {"id": f"msg_{name}", "type": "message", "role": "assistant", "status": "completed"}
            return {**head, "content": content}
        if isinstance(part, Call):
            status = "incomplete" if reply.finish == "length" else "completed"
            called = {"name": part.name, "arguments": part.arguments, "status": status}
            return {"id": f"fc_{name}", "type": "function_call", "call_id": part.id, **called}
        summary = [{"type": "summary_text", "text": part.text}]
        return {"id": f"rs_{name}", "type": "reasoning", "summary": summary, "encrypted_content": part.signature}

    def _opened(self, item: dict[str, Any]) -> dict[str, Any]:
        empty = {"message": {"content": []}, "function_call": {"arguments": ""}, "reasoning": {"summary": []}}
        early = {"encrypted_content": "early"} if item["type"] == "reasoning" else {"status": "in_progress"}
        return item | empty[item["type"]] | early

    def _pieces(self, part: Any) -> list[dict[str, Any]]:
        if isinstance(part, Said):
            return [{"type": "response.output_text.delta", "content_index": 0, "delta": d} for d in part.pieces]
        if isinstance(part, Call):
            return [{"type": "response.function_call_arguments.delta", "delta": piece} for piece in part.pieces]
        kind = "response.reasoning_summary_text.delta"
        return [{"type": kind, "summary_index": 0, "delta": piece} for piece in part.pieces]

    # ------------------------------------------------------------------ the request

    def key(self, headers: Mapping[str, str]) -> str | None:
        return bearer(headers)

    def read(self, request: Request) -> Asked:
        """The system prompt is an item, images stand in users' messages and in results."""
        require(request.path == "/v1/responses", f"Invalid URL (POST {request.path})", "missing")
        body = parsed(request)
        turns = body.get("input")
        require(isinstance(turns, list) and turns, "Missing required parameter: 'input'.")
        lists = [value for item in turns for value in (item.get("content"), item.get("output"))]
        parts = [part for value in lists if isinstance(value, list) for part in value]
        urls = [part["image_url"] for part in parts if part["type"] == "input_image"]
        return Asked(
            raw=request.body,
            body=body,
            stream=body.get("stream") is True,
            model=str(body.get("model", "")),
            turns=turns,
            system="".join(item["content"] for item in turns if item.get("role") == "system"),
            limit=body.get("max_output_tokens"),
            temperature=body.get("temperature"),
            images=[url.removeprefix("data:image/png;base64,") for url in urls],
        )

    def check(self, asked: Asked, issued: Sequence[Any]) -> None:
        check_head(self, asked)
        check_conversation(asked.turns, issued)

"""Gemini's own API as it answers; `gemini_rules` holds what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from support.dialects.base import STATUS, Asked, Dialect, parsed, require
from support.dialects.gemini_rules import check_conversation, check_head
from support.dialects.script import Call, Counts, Reply, Said, Thought
from support.loopback import Request

WORDS = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
TEXTS = {
    "key": "API key not valid. Please pass a valid API key.",
    "rate_limit": "You exceeded your current quota, please check your plan and billing details.",
    "overloaded": "The model is overloaded. Please try again later.",
    "context": "The input token count (9001) exceeds the maximum number of tokens allowed (8192).",
}
_STATUSES = {"key": "INVALID_ARGUMENT", "rate_limit": "RESOURCE_EXHAUSTED", "overloaded": "UNAVAILABLE"}
_PATH = re.compile(r"/v1beta/models/([^/:]+):(streamGenerateContent\?alt=sse|generateContent)")


@dataclass(frozen=True)
class GeminiDialect(Dialect):
    """generateContent."""

    texts: Mapping[str, str] = field(default_factory=lambda: TEXTS)
    words: Mapping[str, str] = field(default_factory=lambda: WORDS)

    base_path: ClassVar[str] = "/v1beta"
    conversation: ClassVar[str] = "contents"
    extra: ClassVar[tuple[str, Any]] = ("labels", {"team": "a"})

    # ------------------------------------------------------------------ the answer

    def beginning(self, reply: Reply, asked: Asked) -> list[Any]:
        """One chunk for each piece, and counts in each; a call comes whole, unless the limit cuts it."""
        chunks = []
        for part in reply.parts:
            if isinstance(part, Call):
                chunks += self._call_parts(part, reply)
            else:
                chunks += self._text_parts(part)
        return [self._chunk([part], asked, Counts(reply.counts.input, 1)) for part in chunks]

    def ending(self, reply: Reply, asked: Asked) -> list[Any]:
        """The finish reason, in a chunk with an empty text, and the last counts."""
        last = self._chunk([{"text": "", **self._last_signature(reply)}], asked, reply.counts)
        last["candidates"][0]["finishReason"] = self._word(reply)
        return [last]

    def whole(self, reply: Reply, asked: Asked) -> dict[str, Any]:
        """One body with all parts."""
        body = self._chunk(self.issued(reply, asked, thoughts=True), asked, reply.counts)
        body["candidates"][0]["finishReason"] = self._word(reply)
        return body

    def issued(self, reply: Reply, asked: Asked, thoughts: bool = False) -> Any:
        """The parts, each with its signature. The thinking that is shown need not come back."""
        parts = []
        for part in reply.parts:
            if isinstance(part, Said):
                parts.append({"text": part.text})
            elif isinstance(part, Call):
                parts += [self._signed(part, reply)] if reply.finish != "length" else []
            elif thoughts:
                parts.append({"text": part.text, "thought": True})
        return [*parts, {"text": "", **signature}] if (signature := self._last_signature(reply)) else parts

    def error_event(self) -> Any:
        return self.error_body("overloaded", self.texts["overloaded"])

    def noise(self) -> list[Any]:
        """Chunks without candidates, another candidate's text, an unknown field."""
        other = {"index": 1, "content": {"role": "model", "parts": [{"text": "not mine"}]}}
        return [{"usageMetadata": {}}, {"candidates": [other]}, {"dreams": [{"of": "sheep"}]}]

    def error_body(self, kind: str, message: str) -> dict[str, Any]:
        status = _STATUSES.get(kind, "INVALID_ARGUMENT")
        return {"error": {"code": self.status(kind), "message": message, "status": status}}

    def status(self, kind: str) -> int:
        """A wrong key is a bad request, like any bad argument."""
        return 400 if kind == "key" else STATUS[kind]

    def _word(self, reply: Reply) -> str:
        """Gemini has no finish reason for calls."""
        return reply.word or self.words[reply.finish if reply.finish in self.words else "stop"]

    def _chunk(self, parts: list[Any], asked: Asked, counts: Counts) -> dict[str, Any]:
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
        usage = {
            "promptTokenCount": counts.input,
            "cachedContentTokenCount": counts.cached,
            "candidatesTokenCount": counts.output - counts.reasoning,
            "thoughtsTokenCount": counts.reasoning,
            "totalTokenCount": counts.input + counts.output,
        }
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": asked.model, "responseId": "r1"}

    def _signed(self, call: Call, reply: Reply) -> dict[str, Any]:
        """A whole call; of several, only the first has the signature of the thinking before them."""
        known = {"id": call.id} if call.id else {}
        part = {"functionCall": {**known, "name": call.name, "args": json.loads(call.arguments or "{}")}}
        first = {"thoughtSignature": reply.thoughts[0].signature if reply.thoughts else "b3RoZXI="}
        return part | (first if call is reply.calls[0] else {})

    def _last_signature(self, reply: Reply) -> dict[str, str]:
        """An answer without calls has its signature at its end."""
        return {"thoughtSignature": reply.thoughts[0].signature} if reply.thoughts and not reply.calls else {}

    def _call_parts(self, call: Call, reply: Reply) -> list[dict[str, Any]]:
        if reply.finish != "length":
            return [self._signed(call, reply)]
        value = {"jsonPath": "$.path", "stringValue": "/", "willContinue": True}
        opening = {"functionCall": {"name": call.name, "willContinue": True}, "thoughtSignature": "b3RoZXI="}
        return [opening, {"functionCall": {"partialArgs": [value], "willContinue": True}}]

    def _text_parts(self, part: Said | Thought) -> list[dict[str, Any]]:
        mark = {"thought": True} if isinstance(part, Thought) else {}
        return [{"text": piece, **mark} for piece in part.pieces]

    # ------------------------------------------------------------------ the request

    def key(self, headers: Mapping[str, str]) -> str | None:
        return headers.get("x-goog-api-key")

    def read(self, request: Request) -> Asked:
        """The path names the model and says whether to stream."""
        found = _PATH.fullmatch(request.path)
        require(found, "Not Found", "missing")
        body = parsed(request)
        turns = body.get("contents")
        require(isinstance(turns, list) and turns, "* GenerateContentRequest.contents: contents is not specified")
        parts = [part for turn in turns for part in turn["parts"]]
        config = body.get("generationConfig", {})
        return Asked(
            raw=request.body,
            body=body | config,
            stream=found[2].startswith("stream"),
            model=found[1],
            turns=turns,
            system="".join(part["text"] for part in body.get("systemInstruction", {}).get("parts", ())),
            limit=config.get("maxOutputTokens"),
            temperature=config.get("temperature"),
            images=[part["inlineData"]["data"] for part in parts if "inlineData" in part],
        )

    def check(self, asked: Asked, issued: Sequence[Any]) -> None:
        check_head(json.loads(asked.raw))
        check_conversation(asked.turns, issued)

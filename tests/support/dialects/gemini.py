"""Gemini's own API: its answers, and its refusals, in its own words where known."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from support.dialects.base import STATUS, Asked, Dialect, is_known, known_fields, loads, require
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


class GeminiDialect(Dialect):
    base_path, conversation = "/v1beta", "contents"
    texts, words = TEXTS, WORDS
    extra = ("labels", {"team": "a"})

    def beginning(self, reply: Reply, asked: Asked) -> list[Any]:
        """One chunk for each piece, with counts in each. A call comes whole, or not at all."""
        pieces = [piece for part in reply.parts for piece in self._pieces(part, reply)]
        return [self._chunk([piece], asked, Counts(reply.counts.input, 1)) for piece in pieces]

    def ending(self, reply: Reply, asked: Asked) -> list[Any]:
        """The finish reason, in a chunk with an empty text, and the last counts."""
        last = self._chunk([{"text": "", **self._last_signature(reply)}], asked, reply.counts)
        last["candidates"][0]["finishReason"] = self.word(reply)
        return [last]

    def whole(self, reply: Reply, asked: Asked) -> dict[str, Any]:
        body = self._chunk(self.issued(reply, asked, thoughts=True), asked, reply.counts)
        body["candidates"][0]["finishReason"] = self.word(reply)
        return body

    def issued(self, reply: Reply, asked: Asked, thoughts: bool = False) -> Any:
        parts = []
        for part in reply.parts:
            if isinstance(part, Said):
                parts.append({"text": part.text})
            elif isinstance(part, Call):
                parts += [self._signed(part, reply)] if reply.finish != "length" else []
            elif thoughts:
                parts.append({"text": part.text, "thought": True})
        return [*parts, {"text": "", **signature}] if (signature := self._last_signature(reply)) else parts

    def noise(self) -> list[Any]:
        other = {"index": 1, "content": {"role": "model", "parts": [{"text": "not mine"}]}}
        return [{"usageMetadata": {}}, {"candidates": [other]}, {"dreams": [{"of": "sheep"}]}]

    def error_body(self, kind: str, message: str) -> dict[str, Any]:
        status = _STATUSES.get(kind, "INVALID_ARGUMENT")
        return {"error": {"code": self.status(kind), "message": message, "status": status}}

    def status(self, kind: str) -> int:
        """A wrong key is a bad request, like any bad argument."""
        return 400 if kind == "key" else STATUS[kind]

    def word(self, reply: Reply) -> str:
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
        """A whole call. Only the first of several has the signature of the thinking before them."""
        known = {"id": call.id} if call.id else {}
        part = {"functionCall": {**known, "name": call.name, "args": json.loads(call.text or "{}")}}
        first = {"thoughtSignature": reply.thoughts[0].signature if reply.thoughts else "b3RoZXI="}
        return part | (first if call is reply.calls[0] else {})

    def _last_signature(self, reply: Reply) -> dict[str, str]:
        """An answer without calls has its signature at its end."""
        return {"thoughtSignature": reply.thoughts[0].signature} if reply.thoughts and not reply.calls else {}

    def _pieces(self, part: Any, reply: Reply) -> list[dict[str, Any]]:
        if not isinstance(part, Call):
            mark = {"thought": True} if isinstance(part, Thought) else {}
            return [{"text": piece, **mark} for piece in part.pieces]
        return [] if reply.finish == "length" else [self._signed(part, reply)]

    def key(self, headers: Mapping[str, str]) -> str | None:
        return headers.get("x-goog-api-key")

    def read(self, request: Request) -> Asked:
        """The path names the model and says whether to stream."""
        found = _PATH.fullmatch(request.path)
        require(found, "Not Found", "missing")
        body = loads(request.body)
        body |= body.get("generationConfig", {})
        return self.asked(request, body, body["contents"], found[1], found[2].startswith("stream"))

    def details(self, body: dict[str, Any], turns: list[Any]) -> dict[str, Any]:
        parts = [part for turn in turns for part in turn["parts"]]
        return {
            "system": "".join(part["text"] for part in body.get("systemInstruction", {}).get("parts", ())),
            "limit": body.get("maxOutputTokens"),
            "images": [part["inlineData"]["data"] for part in parts if "inlineData" in part],
        }

    def check(self, asked: Asked, issued: Sequence[Any]) -> None:
        _check_head(json.loads(asked.raw))
        _check_conversation(asked.turns, issued)


# -- what is refused -----------------------------------------------------------------------------------------------

_UNKNOWN = 'Invalid JSON payload received. Unknown name "{}": Cannot find field.'
_FIELDS = str.split("contents systemInstruction generationConfig tools toolConfig safetySettings cachedContent labels")
_CONFIG = (
    *str.split("temperature topP topK maxOutputTokens stopSequences candidateCount seed responseMimeType"),
    *str.split("responseSchema responseJsonSchema thinkingConfig presencePenalty frequencyPenalty"),
)
_SCHEMA = (
    *str.split("type format title description enum items prefixItems minItems maxItems minimum maximum anyOf oneOf"),
    *str.split("properties additionalProperties required propertyOrdering"),
)
_DATA = {"text", "functionCall", "functionResponse", "inlineData", "executableCode", "codeExecutionResult"}
_NAME = r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"
#: Placeholders for a missing signature, and for a call made by another model.
_UNSIGNED = {"", "skip_thought_signature_validator", "context_engineering_is_the_way_to_go"}


def _check_head(body: Mapping[str, Any]) -> None:
    known_fields(body, _FIELDS, _UNKNOWN)
    known_fields(body.get("generationConfig", {}), _CONFIG, _UNKNOWN)
    useless = "toolConfig" in body and "tools" not in body
    require(not useless, "Function calling config is set without function_declarations.")
    for tool in body.get("tools", ()):
        known_fields(tool, ("functionDeclarations",), _UNKNOWN)
        for item in tool["functionDeclarations"]:
            known_fields(item, ("name", "description", "parametersJsonSchema"), _UNKNOWN)
            require(re.fullmatch(_NAME, item["name"]), f"Invalid function name {item['name']!r}")
            if "parametersJsonSchema" in item:
                require(item["parametersJsonSchema"].get("properties"), "should be non-empty for OBJECT type")
                _check_schema(item["parametersJsonSchema"])


def _check_schema(schema: Mapping[str, Any]) -> None:
    known_fields(schema, _SCHEMA, _UNKNOWN)
    require(all(isinstance(each, str | int | float) for each in schema.get("enum", ())), "enum: no such value")
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *schema.get("prefixItems", ())]
    inner += [schema[name] for name in ("items", "additionalProperties") if name in schema]
    for item in inner:
        if isinstance(item, Mapping):
            _check_schema(item)


def _check_conversation(contents: Sequence[Mapping[str, Any]], issued: Sequence[Any]) -> None:
    """Check that the sides alternate, each call has a response, and each signature is on its part."""
    require(contents[-1]["role"] == "user", "Please ensure that the last turn is a user turn")
    called: list[Mapping[str, Any]] = []
    for n, content in enumerate(contents):
        known_fields(content, {"role", "parts"}, _UNKNOWN)
        role, parts = ("user", "model")[n % 2], content["parts"]
        require(content["role"] == role, "Please ensure that multiturn requests alternate between user and model")
        require(parts, f"contents[{n}].parts must not be empty")
        for part in parts:
            _check_part(part, role, f"contents[{n}].parts")
        given = [part["functionResponse"] for part in parts if "functionResponse" in part]
        for name in ("name", "id"):
            same = [call.get(name) for call in called] == [response.get(name) for response in given]
            require(same, f"Please ensure that each function response matches its function call: {name}")
        calls = [part for part in parts if "functionCall" in part]
        called = [part["functionCall"] for part in calls]
        if role == "model":
            known = is_known(parts, issued, _outline, lambda part: part.get("thoughtSignature", "") not in _UNSIGNED)
            require(known, "Thought signature is not valid.")
            signed = not calls or "thoughtSignature" in calls[0]
            require(signed, f"Function call is missing a thought_signature in functionCall parts, position {n}.")


def _check_part(part: Mapping[str, Any], role: str, where: str) -> None:
    require(len(_DATA & part.keys()) == 1, f"{where}: must have one initialized data field")
    known_fields(part, {*_DATA, "thought", "thoughtSignature"}, _UNKNOWN)
    foreign = "functionCall" if role == "user" else "functionResponse"
    require(foreign not in part, f"{where}: {foreign} parts must not be in a {role} turn")
    require(part.get("text") != "" or "thoughtSignature" in part, f"{where}: text is empty")
    if "functionCall" in part:
        require(re.fullmatch(_NAME, part["functionCall"]["name"]), f"{where}: function name is invalid")
    if "functionResponse" in part:
        require(part["functionResponse"]["response"].keys() <= {"output", "error"}, f"{where}: response is no struct")


def _outline(parts: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The text and calls that identify an answer."""
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    text = "".join(part.get("text", "") for part in parts)
    return [text, *((call.get("id"), call["name"], call.get("args")) for call in calls)]

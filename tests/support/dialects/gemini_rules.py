"""What Gemini refuses, in its own words where these are known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from support.dialects.base import known_fields, require, without_whole

_UNKNOWN = 'Invalid JSON payload received. Unknown name "{}": Cannot find field.'
_FIELDS = str.split("contents systemInstruction generationConfig tools toolConfig safetySettings cachedContent labels")
_CONFIG = str.split(
    "temperature topP topK maxOutputTokens stopSequences candidateCount seed responseMimeType responseSchema"
    " responseJsonSchema thinkingConfig presencePenalty frequencyPenalty"
)
_SCHEMA = str.split(
    "type format title description nullable enum maxItems minItems properties required minProperties maxProperties"
    " minLength maxLength pattern example anyOf propertyOrdering default items minimum maximum"
)
_DATA = {"text", "functionCall", "functionResponse", "inlineData", "executableCode", "codeExecutionResult"}
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
#: Stands for the signature of a call that another model made.
_SKIP = {"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"}


def check_head(body: Mapping[str, Any]) -> None:
    """Everything but the contents."""
    known_fields(body, _FIELDS, _UNKNOWN)
    known_fields(body.get("generationConfig", {}), _CONFIG, _UNKNOWN)
    require(
        "tools" in body or "toolConfig" not in body, "Function calling config is set without function_declarations."
    )
    for tool in body.get("tools", ()):
        known_fields(tool, ("functionDeclarations",), _UNKNOWN)
        for item in tool["functionDeclarations"]:
            known_fields(item, ("name", "description", "parameters"), _UNKNOWN)
            require(_NAME.fullmatch(item["name"]), f"Invalid function name {item['name']!r}")
            if "parameters" in item:
                require(item["parameters"].get("properties"), "should be non-empty for OBJECT type")
                _check_schema(item["parameters"])


def _check_schema(schema: Mapping[str, Any]) -> None:
    known_fields(schema, _SCHEMA, _UNKNOWN)
    require("anyOf" not in schema or schema.keys() == {"anyOf"}, "anyOf must stand alone")
    require("enum" not in schema or schema["type"].lower() == "string", "only allowed for STRING type")
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    for item in [*inner, *([schema["items"]] if "items" in schema else [])]:
        _check_schema(item)


def check_conversation(contents: Sequence[Mapping[str, Any]], issued: Sequence[Any]) -> None:
    """The two sides alternate, each call has a response, each signature is on its part."""
    require(contents[0]["role"] == "user", "Please ensure that multiturn requests begin with a user turn")
    require(contents[-1]["role"] == "user", "Please ensure that the last turn is a user turn")
    called: list[Mapping[str, Any]] = []
    for n, content in enumerate(contents):
        require(content.keys() == {"role", "parts"}, _UNKNOWN.format(*content.keys() - {"role", "parts"}, "?"))
        expected = ("user", "model")[n % 2]
        require(content["role"] == expected, "Please ensure that multiturn requests alternate between user and model")
        parts = content["parts"]
        require(parts, f"contents[{n}].parts must not be empty")
        for part in parts:
            _check_part(part, content["role"], n)
        _check_responses(called, [part["functionResponse"] for part in parts if "functionResponse" in part])
        called = [part["functionCall"] for part in parts if "functionCall" in part]
        if content["role"] == "model":
            _check_mine(parts, issued)
            _check_signature(parts, n)


def _check_part(part: Mapping[str, Any], role: str, n: int) -> None:
    require(len(_DATA & part.keys()) == 1, f"contents[{n}].parts: must have one initialized data field")
    known_fields(part, {*_DATA, "thought", "thoughtSignature"}, _UNKNOWN)
    require(role == "model" or "functionCall" not in part, "functionCall parts must be in a model turn")
    require(role == "user" or "functionResponse" not in part, "functionResponse parts must be in a user turn")
    require(part.get("text") != "" or "thoughtSignature" in part, f"contents[{n}].parts: text is empty")
    if "functionCall" in part:
        require(_NAME.fullmatch(part["functionCall"].get("name", "")), f"contents[{n}]: function name is invalid")
    if "functionResponse" in part:
        require(isinstance(part["functionResponse"].get("response"), dict), f"contents[{n}]: response is not a struct")


def _check_responses(called: Sequence[Mapping[str, Any]], responses: Sequence[Mapping[str, Any]]) -> None:
    """As many as there were calls, of the same names, and with the same ids where calls had any."""
    require(
        len(called) == len(responses),
        "Please ensure that the number of function response parts is equal to the number of function call parts of the "
        "function call turn.",
    )
    require([c["name"] for c in called] == [r.get("name") for r in responses], "function response names do not match")
    require([c.get("id") for c in called] == [r.get("id") for r in responses], "function response ids do not match")


def _check_mine(parts: Sequence[Mapping[str, Any]], issued: Sequence[Any]) -> None:
    """What this server said comes back part by part; unknown signatures are refused."""
    mine = next((item for item in issued if _outline(item) == _outline(parts)), None)
    if mine is not None:
        require(list(parts) == mine, "Thought signature is not valid: parts were modified")
    else:
        rest = without_whole(parts, issued)
        strange = [part for part in rest if part.get("thoughtSignature", "") not in {"", *_SKIP}]
        require(not strange, "Thought signature is not valid.")


def _check_signature(parts: Sequence[Mapping[str, Any]], n: int) -> None:
    """The first call of each step carries one."""
    calls = [part for part in parts if "functionCall" in part]
    require(
        not calls or "thoughtSignature" in calls[0],
        f"Function call is missing a thought_signature in functionCall parts, position {n}.",
    )


def _outline(parts: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The text and calls by which an answer is recognized."""
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    text = "".join(part.get("text", "") for part in parts)
    return [text, *((call.get("id"), call["name"], call.get("args")) for call in calls)]

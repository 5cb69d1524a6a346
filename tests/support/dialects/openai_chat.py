"""Chat completions: the providers' answers, and their refusals, in their own words where known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from support.dialects.base import (
    STATUS,
    Asked,
    Dialect,
    answered_once,
    check_function,
    check_strict,
    known_fields,
    loads,
    require,
)
from support.dialects.script import Call, Counts, Reply, Said, Thought

WORDS = {"stop": "stop", "tool_calls": "tool_calls", "length": "length", "content_filter": "content_filter"}


def openai_error(kind: str, message: str) -> dict[str, Any]:
    """OpenAI's form, which most providers use."""
    types = {"key": "authentication_error", "rate_limit": "rate_limit_error", "overloaded": "server_error"}
    code = {"key": "invalid_api_key", "context": "context_length_exceeded"}.get(kind)
    error = {"message": message, "type": types.get(kind, "invalid_request_error"), "param": None, "code": code}
    return {"error": error}


TEXTS = {
    "key": "Incorrect API key provided",
    "rate_limit": "Rate limit reached for requests",
    "overloaded": "The server is currently overloaded",
    "context": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
}


class ChatDialect(Dialect):
    """Chat completions as one provider speaks them."""

    #: The field in which thinking comes; "<think>": inside the text; "": never.
    thinking: str = "reasoning_content"
    #: The field in which it has to come back; "": it must not.
    returned: str = ""
    #: Whether that field is required in all answers once tools were called.
    mandatory: bool = False
    #: The allowed fields of a body; None if unknown ones are ignored.
    fields: frozenset[str] | None = None
    #: The names of the output limit.
    limits: frozenset[str] = frozenset({"max_tokens"})
    id_pattern: str = ".*"
    #: A message has no further fields than the documented ones, no part is empty, a user has spoken.
    pedantic: bool = False
    #: The template of Mistral's models: the user begins, and each side speaks in turn.
    alternates: bool = False
    #: The HTTP status is the code of an error, which has no type.
    numbered: bool = False
    #: Whether token counts are sent unasked.
    usage_unasked: bool = False
    base_path, path = "/v1", "/v1/chat/completions"
    texts, words = TEXTS, WORDS

    thinks = property(lambda self: bool(self.thinking))
    wants_thinking_back = property(lambda self: bool(self.returned))
    careless = property(lambda self: self.fields is None)

    def beginning(self, reply: Reply, asked: Asked) -> list[Any]:
        """The pieces, after one with only the role, and token counts in between, if the provider sends them."""
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
        last = self._chunk({}, asked, self.word(reply))
        counts = [self._usage_chunk(reply.counts, asked)] if self._counted(asked) else []
        return [last, *counts, "[DONE]"]

    def whole(self, reply: Reply, asked: Asked) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        for thought in reply.thoughts:
            if self.thinking == "<think>":
                message["content"] = f"<think>{thought.text}</think>\n{reply.text}"
            else:
                message |= self._thought_field(thought.text, thought.signature)
        if calls := [{**self._call(call), "index": n} for n, call in enumerate(reply.calls)]:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": self.word(reply)}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked.model}
        return {**head, "choices": [choice], "usage": self._usage(reply.counts)}

    def issued(self, reply: Reply, asked: Asked) -> Any:
        """The text, the ids of the calls, and the thinking in the form in which it has to come back."""
        back = {}
        for thought in reply.thoughts:
            back = self._thought_field(thought.text, thought.signature)
        ids = [call.id for call in reply.calls]
        return {"text": reply.text, "ids": ids, "back": back.get(self.returned) if self.returned else None}

    def noise(self) -> list[Any]:
        return [{"object": "chat.completion.heartbeat"}, {"id": "chatcmpl-1", "choices": [], "news": {"x": 1}}, "[]"]

    def error_body(self, kind: str, message: str) -> dict[str, Any]:
        return {"error": {"message": message, "code": STATUS[kind]}} if self.numbered else openai_error(kind, message)

    def _chunk(self, delta: dict[str, Any], asked: Asked, finish: str | None = None) -> dict[str, Any]:
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": asked.model}
        usage = {"usage": None} if self._counted(asked) else {}
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **usage}

    def _call(self, call: Call) -> dict[str, Any]:
        function = {"name": call.name, "arguments": call.text}
        return {**({"id": call.id} if call.id else {}), "type": "function", "function": function}

    def _call_pieces(self, call: Call, index: int) -> list[dict[str, Any]]:
        opening = self._call(call) | {"function": {"name": call.name, "arguments": ""}}
        deltas = [opening, *({"function": {"arguments": piece}} for piece in call.pieces)]
        return [{"tool_calls": [{"index": index, **delta}]} for delta in deltas]

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
        written = {"cache_write_tokens": counts.written} if self.counts_written else {}
        return {
            "prompt_tokens": counts.input,
            "completion_tokens": counts.output,
            "total_tokens": counts.input + counts.output,
            "prompt_tokens_details": {"cached_tokens": counts.cached, **written},
            "completion_tokens_details": {"reasoning_tokens": counts.reasoning},
        }

    def details(self, body: dict[str, Any], turns: list[Any]) -> dict[str, Any]:
        parts = [part for turn in turns if isinstance(turn.get("content"), list) for part in turn["content"]]
        urls = [part["image_url"]["url"] for part in parts if part.get("type") == "image_url"]
        return {
            "system": "".join(turn["content"] for turn in turns if turn["role"] == "system"),
            "limit": body.get("max_completion_tokens", body.get("max_tokens")),
            "images": [url.removeprefix("data:image/png;base64,") for url in urls],
        }

    def check(self, asked: Asked, issued: Sequence[Any]) -> None:
        _check_head(self, asked)
        _check_conversation(self, asked.turns, issued)


# -- what is refused -----------------------------------------------------------------------------------------------

OPENAI_FIELDS = frozenset(
    str.split("model messages stream stream_options tools tool_choice parallel_tool_calls temperature top_p stop seed")
    + str.split("max_completion_tokens max_tokens reasoning_effort response_format frequency_penalty presence_penalty")
    + str.split("user metadata store verbosity logprobs top_logprobs service_tier prompt_cache_key logit_bias n")
)
ZHIPU_FIELDS = frozenset(
    str.split("model messages stream tools tool_choice tool_stream temperature top_p do_sample max_tokens stop")
    + str.split("thinking reasoning_effort response_format request_id user_id")
)
MISTRAL_FIELDS = frozenset(
    str.split("model messages stream tools tool_choice parallel_tool_calls temperature top_p max_tokens stop top_k")
    + str.split("reasoning_effort response_format random_seed frequency_penalty presence_penalty")
)
_REASONING = {"reasoning", "reasoning_content", "reasoning_details"}
_MESSAGE_FIELDS = {
    "system": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls", "refusal", *_REASONING},
    "tool": {"role", "content", "tool_call_id"},
}
_NAME = r"[a-zA-Z0-9_-]{1,64}"
#: The only other field of each type of part, and a check of its value.
_PARTS = {
    "text": ("text", lambda text: isinstance(text, str)),
    "image_url": ("image_url", lambda image: image["url"].startswith("data:image/")),
    "file": ("file", lambda file: file["filename"] and file["file_data"].startswith("data:application/pdf;base64,")),
}


def _check_head(provider: ChatDialect, asked: Asked) -> None:
    body = asked.body
    known_fields(body, provider.fields, "Unrecognized request argument supplied: {}")
    require(asked.stream or "stream_options" not in body, "stream_options is only allowed when stream is enabled")
    for name in {"max_tokens", "max_completion_tokens"} - provider.limits:
        require(name not in body, f"Unsupported parameter: '{name}' is not supported with this model.")
    require(provider.takes(asked), "Unsupported parameter: 'temperature' is not supported with this model.")
    wanted = body.get("response_format", {}).get("json_schema", {})
    if wanted.get("strict"):
        check_strict(wanted["schema"])
    tools = body.get("tools", ())
    require(tools or "tools" not in body, "[] is too short - 'tools'")
    for n, tool in enumerate(tools):
        require(tool.keys() == {"type", "function"} and tool["type"] == "function", f"tools[{n}] is not a function")
        fields = {"name", "description", "parameters"}
        known_fields(tool["function"], fields, f"tools[{n}].function: strange field {{}}")
        check_function(tool["function"], "parameters", _NAME, f"tools[{n}].function")
    names = {tool["function"]["name"] for tool in tools}
    require(len(names) == len(tools), "tool names must be unique")


def _check_conversation(provider: ChatDialect, messages: Sequence[Mapping[str, Any]], issued: Sequence[Any]) -> None:
    """Check each message, each call's result, and the thinking that comes back."""
    require(any(m["role"] == "user" for m in messages) or not provider.pedantic, "messages 参数非法。请检查文档。")
    for before, after in pairwise([{"role": "system"}, *messages] if provider.alternates else ()):
        pair = (before["role"], after["role"])
        require(pair != ("user", "user"), "conversation roles must alternate user and assistant roles")
        of_history = pair in {("tool", "user"), ("system", "assistant"), ("assistant", "assistant")}
        require(not of_history, f"Unexpected role '{pair[1]}' after role '{pair[0]}'", "roles")
    after_tools = any(message["role"] == "tool" for message in messages)
    waiting = list(enumerate(messages))
    ids: list[str] = []
    while waiting:
        n, message = waiting.pop(0)
        require(message["role"] != "tool", f"{n}: role 'tool' must be a response to a preceding 'tool_calls'")
        _check_message(provider, message, f"messages[{n}]")
        if message["role"] == "assistant":
            _check_thinking(provider, message, issued, after_tools)
            called = [call["id"] for call in message.get("tool_calls", ())]
            results = []
            while called and waiting and waiting[0][1]["role"] == "tool":
                n, result = waiting.pop(0)
                _check_message(provider, result, f"messages[{n}]")
                results.append(result["tool_call_id"])
            answered_once(called, results, f"messages[{n}]")
            ids += called
    require(len(set(ids)) == len(ids), "messages: tool call ids must be unique")


def _check_message(provider: ChatDialect, message: Mapping[str, Any], where: str) -> None:
    role, content = message["role"], message["content"]
    known_fields(message, _MESSAGE_FIELDS[role], f"'{{}}' was unexpected - '{where}'")
    if isinstance(content, list):
        require(role == "user" and content, f"{where}.content must be a string, or is empty")
        for part in content:
            name, is_right = _PARTS[part["type"]]
            require(part.keys() == {"type", name} and is_right(part[name]), f"{where}: invalid {name}")
    else:
        require(isinstance(content, str), f"{where}.content: invalid type")
        spoken = content or message.get("tool_calls") or role in ("tool", "system")
        require(spoken or not provider.pedantic, f"{where}: content和tool_calls不能同时为空")
    for n, call in enumerate(message.get("tool_calls", ())):
        place, function = f"{where}.tool_calls[{n}]", call["function"]
        known_fields(call, {"id", "type", "function", "extra_content"}, f"{place}: strange field {{}}")
        require(call["id"] and call["type"] == "function", f"{place}.id is missing, or type")
        require(re.fullmatch(provider.id_pattern, call["id"]), f"Invalid '{place}.id': not like {provider.id_pattern}.")
        require(function.keys() == {"name", "arguments"}, f"{place}.function: name and arguments are wanted")
        require(re.fullmatch(_NAME, function["name"]), f"Invalid '{place}.function.name': string does not match")
        arguments = loads(function["arguments"])
        require(isinstance(arguments, dict), f"{place}.function.arguments is not a JSON object")


def _check_thinking(
    provider: ChatDialect, message: Mapping[str, Any], issued: Sequence[Any], after_tools: bool
) -> None:
    """Check that thinking comes back unmodified in its own field, without thinking from elsewhere."""
    ids = [call["id"] for call in message.get("tool_calls", ())]
    back = next((each["back"] for each in issued if (each["text"], each["ids"]) == (message["content"], ids)), None)
    given = {name: message[name] for name in _REASONING if name in message}
    if provider.mandatory:
        absent = after_tools and provider.returned not in given
        require(not absent, f"The `{provider.returned}` in the thinking mode must be passed back to the API.")
        given = {name: value for name, value in given.items() if value}
    wanted = {provider.returned: back} if back else {}
    require(given == wanted, f"messages: thinking must come back as it was given: {wanted!r}, got {given!r}")

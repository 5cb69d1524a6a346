"""What vendors of chat completions refuse, in their own words where these are known."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from support.dialects.base import Asked, answered_once, known_fields, require, schema_is_plain

if TYPE_CHECKING:
    from support.dialects.openai_chat import ChatDialect

OPENAI_FIELDS = frozenset(
    str.split("model messages stream stream_options tools tool_choice parallel_tool_calls temperature top_p stop seed")
    + str.split("max_completion_tokens max_tokens reasoning_effort response_format frequency_penalty presence_penalty")
    + str.split("user metadata store verbosity logprobs top_logprobs service_tier prompt_cache_key logit_bias n")
)
ZHIPU_FIELDS = frozenset(
    str.split("model messages stream tools tool_choice tool_stream temperature top_p do_sample max_tokens stop")
    + str.split("thinking reasoning_effort response_format request_id user_id")
)
_MESSAGE_FIELDS = {
    "system": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls", "refusal"},
    "tool": {"role", "content", "tool_call_id"},
}
_REASONING = {"reasoning", "reasoning_content", "reasoning_details"}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_head(dialect: ChatDialect, asked: Asked) -> None:
    """Everything but the messages."""
    body = asked.body
    known_fields(body, dialect.fields, "Unrecognized request argument supplied: {}")
    require(asked.model, "you must provide a model parameter")
    require(isinstance(body.get("stream", False), bool), "'stream' must be a boolean")
    require(asked.stream or "stream_options" not in body, "stream_options is only allowed when stream is enabled")
    for name in {"max_tokens", "max_completion_tokens"} - dialect.limits:
        require(name not in body, f"Unsupported parameter: '{name}' is not supported with this model.")
    cool = asked.temperature is not None and asked.model.startswith(dialect.cool or ("\0",))
    require(not cool, "Unsupported parameter: 'temperature' is not supported with this model.")
    if "tools" in body:
        check_tools(body["tools"])


def check_tools(tools: Any) -> None:
    """Functions in OpenAI's nested form."""
    require(isinstance(tools, list) and tools, "[] is too short - 'tools'")
    for n, tool in enumerate(tools):
        require(tool.keys() == {"type", "function"} and tool["type"] == "function", f"tools[{n}] is not a function")
        function = tool["function"]
        known_fields(function, {"name", "description", "parameters"}, f"tools[{n}].function: strange field {{}}")
        require(_NAME.fullmatch(function.get("name", "")), f"Invalid 'tools[{n}].function.name'")
        require(isinstance(function.get("description", ""), str), f"tools[{n}].function.description is not a string")
        schema_is_plain(function.get("parameters"), f"tools[{n}].function.parameters")
    names = [tool["function"]["name"] for tool in tools]
    require(len(set(names)) == len(names), "tool names must be unique")


def check_conversation(dialect: ChatDialect, messages: Sequence[Mapping[str, Any]], issued: Sequence[Any]) -> None:
    """Each message by itself, each call with its result, and thinking as the vendor wants it back."""
    require(any(m["role"] == "user" for m in messages) or not dialect.pedantic, "messages 参数非法。请检查文档。")
    after_tools = any(message["role"] == "tool" for message in messages)
    index, ids = 0, []
    while index < len(messages):
        message = messages[index]
        where = f"messages[{index}]"
        require(message.get("role") in _MESSAGE_FIELDS, f"Invalid value: {message.get('role')!r} at '{where}.role'")
        require(message["role"] != "tool", f"{where}: role 'tool' must be a response to a preceding 'tool_calls'")
        _check_message(dialect, message, where)
        index += 1
        if message["role"] == "assistant":
            _check_thinking(dialect, message, issued, after_tools)
            called = [call["id"] for call in message.get("tool_calls", ())]
            results = []
            while called and index < len(messages) and messages[index]["role"] == "tool":
                _check_message(dialect, messages[index], f"messages[{index}]")
                results.append(messages[index]["tool_call_id"])
                index += 1
            answered_once(called, results, where)
            ids += called
    require(len(set(ids)) == len(ids), "messages: tool call ids must be unique")


def _check_message(dialect: ChatDialect, message: Mapping[str, Any], where: str) -> None:
    role = message["role"]
    known = _MESSAGE_FIELDS[role] | (_REASONING if role == "assistant" else set())
    known_fields(message, known, f"Additional properties are not allowed ('{{}}' was unexpected) - '{where}'")
    require("content" in message, f"'content' is a required property - '{where}'")
    content = message["content"]
    if isinstance(content, list):
        require(role == "user", f"{where}.content must be a string")
        require(content, f"{where}.content is empty")
        for part in content:
            _check_part(part, where)
    else:
        require(isinstance(content, str), f"{where}.content: invalid type")
        spoken = content or message.get("tool_calls") or role in ("tool", "system")
        require(spoken or not dialect.pedantic, f"{where}: content和tool_calls不能同时为空")
    for n, call in enumerate(message.get("tool_calls", ())):
        _check_call(dialect, call, f"{where}.tool_calls[{n}]")


def _check_part(part: Mapping[str, Any], where: str) -> None:
    kind = part.get("type")
    if kind == "text":
        require(part.keys() == {"type", "text"} and isinstance(part["text"], str), f"{where}: invalid text part")
        return
    if kind == "file":  # PDFs only
        require(part["file"].keys() == {"filename", "file_data"}, f"{where}: unknown file field")
        require(part["file"]["file_data"].startswith("data:application/pdf;base64,"), f"{where}: invalid file")
        return
    require(kind == "image_url" and part.keys() == {"type", "image_url"}, f"{where}: unknown variant {kind!r}")
    require(part["image_url"]["url"].startswith("data:image/"), f"{where}: invalid image URL")


def _check_call(dialect: ChatDialect, call: Mapping[str, Any], where: str) -> None:
    known_fields(call, {"id", "type", "function", "extra_content"}, f"{where}: strange field {{}}")
    require(call.get("type") == "function", f"{where}.type must be 'function'")
    require(call.get("id"), f"{where}.id is missing")
    length = len(call["id"])
    most = dialect.longest_id
    require(
        length <= most,
        f"Invalid '{where}.id': string too long. Expected a string with maximum length {most}, but got a string with "
        f"length {length} instead.",
    )
    function = call["function"]
    require(function.keys() == {"name", "arguments"}, f"{where}.function: name and arguments are wanted")
    pattern = f"Invalid '{where}.function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'"
    require(_NAME.fullmatch(function["name"]), pattern)
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        arguments = None
    require(isinstance(arguments, dict), f"{where}.function.arguments is not a JSON object")


def _check_thinking(dialect: ChatDialect, message: Mapping[str, Any], issued: Sequence[Any], after_tools: bool) -> None:
    """Thinking comes back unmodified in its own field, and no thinking from elsewhere comes."""
    ids = [call["id"] for call in message.get("tool_calls", ())]
    mine = next((item for item in issued if item["text"] == message["content"] and item["ids"] == ids), {})
    given = {name: message[name] for name in _REASONING if name in message}
    back = mine.get("back")
    if dialect.mandatory:
        absent = after_tools and dialect.returned not in given
        require(not absent, f"The `{dialect.returned}` in the thinking mode must be passed back to the API.")
        given = {name: value for name, value in given.items() if value}
    wanted = {dialect.returned: back} if back else {}
    require(given == wanted, f"messages: thinking must come back as it was given: {wanted!r}, got {given!r}")

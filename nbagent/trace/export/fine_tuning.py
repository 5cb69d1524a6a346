"""Runs as examples for fine-tuning, in OpenAI's chat format, for `Trace.export`.

Each line is an example: `{"messages": [...], "tools": [...]}`, with messages and tools in the format of chat
completions. https://developers.openai.com/api/docs/guides/supervised-fine-tuning
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from nbagent.core.content.documents import document_note, is_document
from nbagent.core.content.images import content_as_text, image_url
from nbagent.core.history.repair import is_blank
from nbagent.core.messages import FunctionCall, LLMMessage
from nbagent.core.model_request import Functions
from nbagent.trace.requests import Requests, messages_of, missing_rows_reported
from nbagent.trace.rows import Row, as_json

#: Valid tool names.
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def examples(tables: Mapping[str, Sequence[Row]], run_ids: Collection[str] | None) -> Iterator[dict[str, Any]]:
    """Yield one example per run: its last request and the answer. Runs that would be bad examples are omitted."""
    requests = Requests(tables)
    last_calls = {call["run_id"]: call["call_id"] for call in tables["calls"]}
    answers = {row["call_id"]: row for row in tables["messages"] if row["role"] == "assistant" and row["call_id"]}
    for run in tables["runs"]:
        answer = answers.get(last_calls.get(run["run_id"]))
        if run["status"] != "ok" or answer is None or (run_ids is not None and run["run_id"] not in run_ids):
            continue
        request = requests.get(answer["call_id"])
        with missing_rows_reported(answer["call_id"]):
            example = _example([*request.messages, *messages_of([answer])], request.tools)
        if example is not None:
            yield example


def _example(messages: list[LLMMessage], tools: Functions | None) -> dict[str, Any] | None:
    """An example, or None if it has a call that could not run or an empty answer."""
    calls = [call for message in messages for call in message.tool_calls or ()]
    if not all(call.raw is None and _NAME.fullmatch(call.name) for call in calls) or not _has_content(messages[-1]):
        return None
    example: dict[str, Any] = {"messages": list(map(_message, filter(_has_content, messages)))}
    if tools:
        example["tools"] = [{"type": "function", "function": _function(tool)} for tool in tools]
    return example


def _has_content(message: LLMMessage) -> bool:
    return bool(message.tool_calls) or not is_blank(message)


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tool[key] for key in ("name", "description", "parameters", "strict") if key in tool}


def _message(message: LLMMessage) -> dict[str, Any]:
    """A message in OpenAI's format. Images outside prompts become short descriptions."""
    if message.role == "user" and not isinstance(message.content, str):
        return {"role": "user", "content": list(map(_part, message.content))}
    data = {"role": message.role, "content": content_as_text(message.content)}
    if message.role == "tool":
        return {"tool_call_id": message.tool_call_id, **data}
    return data | ({"tool_calls": list(map(_call, message.tool_calls))} if message.tool_calls else {})


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part.get("type") == "image":
        return {"type": "image_url", "image_url": {"url": image_url(part)}}
    if is_document(part):
        return {"type": "text", "text": document_note(part)}
    return dict(part)


def _call(call: FunctionCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": as_json(call.arguments)}}

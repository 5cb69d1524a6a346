"""Recorded requests of every format as neutral messages, with the assistant's turns in them as answers."""

import json
from dataclasses import dataclass, field
from itertools import groupby

from nbagent.core.messages import LLMMessage, LLMResponse
from support.recordings import CODECS


@dataclass
class Answered:
    """What the assistant said in one turn, as the recorded request repeats it."""

    responses: list[LLMResponse]
    calls: list = field(init=False)
    text: str = field(init=False)

    def __post_init__(self):
        self.calls = [call for response in self.responses for call in response.function_calls or []]
        self.text = "".join(response.content for response in self.responses)

    def is_of(self, message: LLMMessage) -> bool:
        """Whether these are the calls of an answer, or its text if it makes none."""
        made = [(call.name, call.arguments) for call in message.tool_calls or []]
        if made or self.calls:
            return made == [(call.name, call.arguments) for call in self.calls]
        return self.text.strip() == message.text.strip()

    def messages(self) -> list[LLMMessage]:
        """The turn as it was repeated."""
        return [as_message(response) for response in self.responses]


def as_message(response: LLMResponse) -> LLMMessage:
    """An answer as the agent keeps it."""
    return LLMMessage(
        "assistant", response.content, tool_calls=response.function_calls, provider_extras=response.raw_response
    )


def read_request(record) -> list[LLMMessage | Answered]:
    """A recorded request's conversation."""
    return _READERS[record["api"]](record["request"])


def _chat(request) -> list:
    found = []
    for mine, group in groupby(request["messages"], lambda message: message["role"] == "assistant"):
        if mine:
            bodies = [{"choices": [{"message": message, "finish_reason": "stop"}]} for message in group]
            found.append(Answered([CODECS["openai.chat"].decode_body(body) for body in bodies]))
            continue
        for message in group:
            content = message.get("content") or ""
            if message["role"] == "tool" and not isinstance(content, str):
                content = "".join(part["text"] for part in content)
            found.append(LLMMessage(message["role"], content, tool_call_id=message.get("tool_call_id")))
    return found


def _messages(request) -> list:
    found = []
    for message in request["messages"]:
        blocks = message["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        if message["role"] == "assistant":
            body = {"content": blocks, "stop_reason": "end_turn"}
            found.append(Answered([CODECS["anthropic.messages"].decode_body(body)]))
            continue
        others = []
        for block in blocks:
            if block["type"] == "tool_result":
                content = block.get("content") or ""
                failed = bool(block.get("is_error"))
                found.append(LLMMessage("tool", content, tool_call_id=block["tool_use_id"], is_error=failed))
            else:
                others.append(block)
        found += [LLMMessage("user", others)] if others else []
    return found


#: Some of the recording clients write Gemini's names in snake case.
_CAMEL = {
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "thought_signature": "thoughtSignature",
}


def _gemini(request) -> list:
    found = []
    for content in request["contents"]:
        parts = [
            {_CAMEL.get(key, key): value for key, value in part.items() if value is not None}
            for part in content["parts"]
        ]
        if content.get("role") == "model":
            body = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
            found.append(Answered([CODECS["gemini.generateContent"].decode_body(body)]))
            continue
        others = []
        for part in parts:
            if response := part.get("functionResponse"):
                text = json.dumps(response["response"])
                found.append(LLMMessage("tool", text, response["name"], tool_call_id=response.get("id")))
            else:
                others.append({"type": "text", "text": part["text"]} if "text" in part else part)
        found += [LLMMessage("user", others)] if others else []
    return found


def _speaker(item) -> str:
    if item.get("type") in ("function_call_output", "tool_search_output"):
        return "tool"
    return item.get("role", "user") if item.get("type", "message") == "message" else "assistant"


def _responses(request) -> list:
    given = request["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    found = []
    for who, group in groupby(items, _speaker):
        if who == "assistant":
            output = [_as_output(item) for item in group]
            body = {"output": output, "status": "completed"}
            found.append(Answered([CODECS["openai.responses"].decode_body(body)]))
            continue
        for item in group:
            if item.get("type") != "tool_search_output":
                content = item.get("output", item.get("content"))
                content = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
                found.append(LLMMessage(who, content, tool_call_id=item.get("call_id")))
    return found


def _as_output(item) -> dict:
    """An assistant's message as the API itself would write it."""
    if item.get("type", "message") != "message":
        return item
    content = item["content"]
    parts = [{"type": "output_text", "text": content, "annotations": []}] if isinstance(content, str) else content
    return {**item, "type": "message", "content": parts}


_READERS = {
    "openai.chat": _chat,
    "ollama.chat": _chat,
    "anthropic.messages": _messages,
    "gemini.generateContent": _gemini,
    "openai.responses": _responses,
}

"""Recorded requests of every format as neutral messages, with the assistant's turns in them as answers."""

import json
from itertools import groupby

from nbagent.core.messages import LLMMessage, LLMResponse
from support.recordings import CODECS


class Answered:
    """What the assistant said in one turn, as the recorded request repeats it: the bodies of one or more answers."""

    def __init__(self, api: str, bodies: list[dict]):
        self.responses = [CODECS[api].decode_body(body) for body in bodies]
        self.calls = [call for response in self.responses for call in response.function_calls or []]
        self.text = "".join(response.content for response in self.responses)

    def is_of(self, message: LLMMessage) -> bool:
        """Whether these are the calls of an answer, or its text if it makes none."""
        made = [(call.name, call.arguments) for call in message.tool_calls or []]
        if made or self.calls:
            return made == [(call.name, call.arguments) for call in self.calls]
        return self.text.strip() == message.text.strip()

    def messages(self) -> list[LLMMessage]:
        return list(map(as_message, self.responses))


def as_message(response: LLMResponse) -> LLMMessage:
    """An answer as the agent keeps it."""
    return LLMMessage(
        "assistant", response.content, tool_calls=response.function_calls, provider_extras=response.raw_response
    )


def read_request(record) -> list[LLMMessage | Answered]:
    readers = {"anthropic.messages": _messages, "gemini.generateContent": _gemini, "openai.responses": _responses}
    return list(readers.get(record["api"], _chat)(record["request"]))


def _text(content) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


def _chat(request):
    for mine, group in groupby(request["messages"], lambda message: message["role"] == "assistant"):
        if mine:
            bodies = [{"choices": [{"message": message, "finish_reason": "stop"}]} for message in group]
            yield Answered("openai.chat", bodies)
            continue
        for message in group:
            content = message.get("content") or ""
            content = _text(content) if message["role"] == "tool" else content
            yield LLMMessage(message["role"], content, tool_call_id=message.get("tool_call_id"))


def _messages(request):
    for message in request["messages"]:
        blocks = message["content"]
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
        if message["role"] == "assistant":
            yield Answered("anthropic.messages", [{"content": blocks, "stop_reason": "end_turn"}])
            continue
        results = [block for block in blocks if block["type"] == "tool_result"]
        for block in results:
            content, failed = block.get("content") or "", bool(block.get("is_error"))
            yield LLMMessage("tool", content, tool_call_id=block["tool_use_id"], is_error=failed)
        if others := [block for block in blocks if block not in results]:
            yield LLMMessage("user", others)


#: Some of the recording clients write Gemini's names in snake case.
_CAMEL = {
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "thought_signature": "thoughtSignature",
}


def _gemini(request):
    for content in request["contents"]:
        parts = [
            {_CAMEL.get(key, key): value for key, value in part.items() if value is not None}
            for part in content["parts"]
        ]
        if content.get("role") == "model":
            body = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
            yield Answered("gemini.generateContent", [body])
            continue
        for result in (part["functionResponse"] for part in parts if "functionResponse" in part):
            text = json.dumps(result["response"])
            yield LLMMessage("tool", text, result["name"], tool_call_id=result.get("id"))
        if others := [part for part in parts if "functionResponse" not in part]:
            texts = [{"type": "text", "text": part["text"]} if "text" in part else part for part in others]
            yield LLMMessage("user", texts)


def _speaker(item) -> str:
    kind = item.get("type", "message")
    if kind in ("function_call_output", "tool_search_output"):
        return "tool"
    return item.get("role", "user") if kind == "message" else "assistant"


def _responses(request):
    given = request["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    for who, group in groupby(items, _speaker):
        if who == "assistant":
            output = [_as_output(item) for item in group]
            yield Answered("openai.responses", [{"output": output, "status": "completed"}])
            continue
        for item in group:
            if item.get("type") != "tool_search_output":
                content = item.get("output", item.get("content"))
                yield LLMMessage(who, _text(content), tool_call_id=item.get("call_id"))


def _as_output(item) -> dict:
    """An assistant's message as the API itself would write it."""
    if item.get("type", "message") != "message":
        return item
    content = item["content"]
    parts = [{"type": "output_text", "text": content, "annotations": []}] if isinstance(content, str) else content
    return {**item, "type": "message", "content": parts}

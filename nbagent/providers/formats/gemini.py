"""Gemini's own format, `generateContent`.

An answer's parts are kept and sent back to Gemini unchanged, including their signatures. All other answers are
rebuilt from their text and tool calls. Format: https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from nbagent.core.events import Event, Text, Thinking, ToolCallDelta
from nbagent.core.messages import FunctionCall, LLMMessage, LLMResponse, Usage, parse_arguments
from nbagent.errors import IncompleteStreamError, ServerError
from nbagent.providers.formats import gemini_tools
from nbagent.providers.formats.codec import Call, Codec, Decoder, Messages, new_call_id, token_count
from nbagent.providers.formats.errors import error_in_answer
from nbagent.providers.formats.gemini_schema import gemini_schema
from nbagent.providers.formats.images import AnswerImages
from nbagent.providers.formats.refused import Changes
from nbagent.providers.formats.role_groups import RoleGroup, group_by_role
from nbagent.providers.formats.sse import DONE
from nbagent.providers.formats.tool_schema import declared
from nbagent.providers.options.resolved import ResolvedOptions
from nbagent.providers.tool_names import fitting_name

#: The body's fields. Every other option is a field of its `generationConfig`.
_BODY_FIELDS = {
    *str.split("cachedContent generationConfig labels safetySettings serviceTier store systemInstruction"),
    *("toolConfig", "tools"),
}
#: Gemini's names for options that all providers share.
_SPELLING = {"stop": "stopSequences", "top_p": "topP"}
#: Gemini's names for `extra_body` fields that nbagent's server passes to any provider.
_SERVED = {"frequency_penalty": "frequencyPenalty", "presence_penalty": "presencePenalty"}
#: Newer models refuse a call without a signature. Calls from other models are sent with this one.
#: https://ai.google.dev/gemini-api/docs/thought-signatures
_FOREIGN = {"thoughtSignature": "skip_thought_signature_validator"}
_ROLES = {"user": b"user", "assistant": b"model"}
#: The prefix of our ids for calls without one. Gemini never sees them.
OWN_ID_PREFIX = "gemini_call_"
_FILTERED = (
    *str.split("SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII MODEL_ARMOR IMAGE_SAFETY"),
    *("IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
)
#: https://ai.google.dev/api/generate-content#FinishReason. STOP also ends an answer with calls. Others become None.
FINISH_REASONS = {"STOP": "stop", "MAX_TOKENS": "length", **dict.fromkeys(_FILTERED, "content_filter")}
#: The model garbled its answer and Gemini dropped it, so there is nothing to continue from.
_GARBLED = {"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"}
#: A candidate's fields about Google's own tools.
_GROUNDING = ("groundingMetadata", "urlContextMetadata")
#: Prefixes of model names. The last is for Vertex.
_COLLECTION = re.compile(r"(models|tunedModels|publishers/google/models)/")


class GeminiDecoder(Decoder):
    """Decodes one answer."""

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._parts: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []
        self._plain: list[str] = []  # pieces of text not yet in a part
        self._text: list[str] = []
        self._answer_images = AnswerImages()
        self._thinking: list[str] = []
        self._grounding: dict[str, Any] = {}
        self._finish: str | None = None
        self._blocked: str | None = None
        self._explanation = ""

    @property
    def complete(self) -> bool:
        """Whether the prompt was blocked or a finish reason has arrived. More text may follow a finish reason."""
        return self._finish is not None or self._blocked is not None

    def feed(self, event: dict[str, Any]) -> list[Event]:
        """See `Decoder`."""
        if event is DONE:  # from gateways
            self.done = True
            return []
        if event.get("error"):
            raise error_in_answer(event)
        self._take_usage(event.get("usageMetadata"))
        self._model = event.get("modelVersion") or self._model
        self._id = event.get("responseId") or self._id
        if feedback := event.get("promptFeedback"):  # the candidate may contain only ratings
            self._blocked = feedback.get("blockReason", self._blocked)
            self._explanation = feedback.get("blockReasonMessage") or self._explanation
        events: list[Event] = []
        for candidate in event.get("candidates") or ():
            if not candidate.get("index"):  # other candidates can't have been requested
                self._candidate(candidate, events)
        return events

    def finish(self) -> LLMResponse:
        """See `Decoder`."""
        if self._finish in _GARBLED:
            reason = ": ".join(filter(None, (self._finish, self._explanation)))
            raise ServerError(f"the model garbled its answer ({reason})", should_retry=True)
        if not self.complete:
            raise IncompleteStreamError("the stream ended without a finishReason")
        self._flush()
        text = "".join(self._text)
        return self._response(
            text,
            [_function_call(call) for call in self._calls],
            "content_filter" if self._finish is None else FINISH_REASONS.get(self._finish),
            usage_of(self._usage),
            {"parts": self._parts},
            word=self._blocked if self._finish is None else self._finish,
            thinking="".join(self._thinking),
            citations=gemini_tools.citations_of(self._grounding, text),
            stop_details=self._explanation,
            parts=self._answer_images.parts(text),
        )

    def _candidate(self, candidate: Mapping[str, Any], events: list[Event]) -> None:
        for part in (candidate.get("content") or {}).get("parts") or ():
            if "functionCall" in part:
                self._call(part, events)
            elif part.get("thought"):
                self._thought(part, events)
            else:
                self._text_or_image(part, events)
            self._own_tool(part, events)
        self._grounding |= {name: candidate[name] for name in _GROUNDING if candidate.get(name)}
        if candidate.get("finishReason"):
            self._finish = candidate["finishReason"]
            self._explanation = candidate.get("finishMessage") or self._explanation
            known = {call.name for call in self._provider_calls.values()}
            for call in gemini_tools.calls_at_end(self._grounding):
                if call.name not in known:
                    events += self._tool_ended(call)

    def _own_tool(self, part: Mapping[str, Any], events: list[Event]) -> None:
        """A call or result of one of Google's own tools."""
        if call := gemini_tools.call_in(part, len(self._provider_calls)):
            events += self._tool_started(call)
        elif result := gemini_tools.result_in(part, len(self._provider_calls) - 1):
            events += self._tool_ended(result)

    def _text_or_image(self, part: dict[str, Any], events: list[Event]) -> None:
        """Text or an image. Pieces of text become one part; a part with more than text is kept unchanged."""
        if inline := part.get("inlineData"):
            self._answer_images.add(sum(map(len, self._text)), inline.get("data"))
        if text := part.get("text"):
            self._text.append(text)
            events.append(Text(text))
        if part.keys() - {"text", "thought"}:
            self._keep(part)
        elif text:
            self._plain.append(text)

    def _thought(self, part: dict[str, Any], events: list[Event]) -> None:
        """Thinking. Only parts with a signature are sent back."""
        if text := part.get("text"):
            self._thinking.append(text)
            events.append(Thinking(text))
        if part.get("thoughtSignature"):
            self._keep(part)

    def _call(self, part: dict[str, Any], events: list[Event]) -> None:
        """A call, which arrives whole because requests don't ask for pieces."""
        self._keep(part)
        self._calls.append(part["functionCall"])
        call = part["functionCall"]
        text = json.dumps(call.get("args") or {}, ensure_ascii=False)
        events.append(ToolCallDelta(text, call.get("name"), metadata={"index": len(self._calls) - 1}))

    def _keep(self, part: dict[str, Any]) -> None:
        self._flush()
        self._parts.append(part)

    def _flush(self) -> None:
        if self._plain:
            self._parts.append({"text": "".join(self._plain)})
            self._plain = []


def _function_call(call: dict[str, Any]) -> FunctionCall:
    """The call in a part. Unreadable arguments are also removed from the part, which is sent back."""
    arguments, raw = parse_arguments(call.get("args"))
    if raw is not None:
        call["args"] = arguments
    return FunctionCall(call.get("name") or "", arguments, call.get("id") or new_call_id(OWN_ID_PREFIX), raw)


def usage_of(raw: Mapping[str, Any]) -> Usage:
    """The token counts of a `usageMetadata`, which counts thinking separately.

    `toolUsePromptTokenCount` counts the results from Google's own tools. These are not part of the prompt and not
    counted here. The number stays in `usage_raw`, and `pricing.price` charges it as input, as Google does.
    """
    thoughts = token_count(raw.get("thoughtsTokenCount"))
    return Usage(
        input_tokens=token_count(raw.get("promptTokenCount")),
        output_tokens=token_count(raw.get("candidatesTokenCount")) + thoughts,
        cache_read_tokens=token_count(raw.get("cachedContentTokenCount")),
        reasoning_tokens=thoughts,
    )


class GeminiCodec(Codec):
    """The codec for `generateContent`, configured by one provider's facts."""

    format = "gemini"
    decoder_class = GeminiDecoder
    conversation, native = "contents", "parts"
    models_path = "/models?pageSize=1000"

    def path(self, model: str, stream: bool) -> str:
        """See `Codec`. The model's name is quoted as a single path segment, which follows a collection such as
        `tunedModels/`.
        """
        found = _COLLECTION.match(model)
        collection, name = (found[0], model[found.end() :]) if found else ("models/", model)
        return f"/{collection}{quote(name, safe='')}:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"

    def output_options(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """See `Codec`."""
        return {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": schema}}

    def _head(self, model: str, options: ResolvedOptions, system: str) -> dict[str, Any]:
        """See `Codec`. Gemini's own tools, from the user's `tools`, are added to the functions."""
        head: dict[str, Any] = {"systemInstruction": {"parts": [{"text": system}]}} if system else {}
        config = self._common_fields(options)
        for name, value in options.extra.items():
            (head if name in _BODY_FIELDS else config)[_SPELLING.get(name, name)] = value
        if isinstance(stop := config.get("stopSequences"), str):
            config["stopSequences"] = [stop]
        if "max_tokens" in config:
            config[self.facts.max_tokens_name] = config.pop("max_tokens")
        if config := config | head.pop("generationConfig", {}):
            head["generationConfig"] = config
        if options.tools:
            declaration = {"functionDeclarations": [_function(item) for item in options.tools]}
            head["tools"] = [declaration, *head.get("tools", ())]
        if not head.get("tools"):
            head.pop("toolConfig", None)  # refused without tools
        return head

    def _fragments(self, messages: Messages, reminder: Messages, head: dict[str, Any], changes: Changes) -> list[bytes]:
        if served := {own: head.pop(name) for name, own in _SERVED.items() if name in head}:
            head["generationConfig"] = served | head.get("generationConfig", {})
        return [_encode(group) for group in group_by_role([*_named(messages), *reminder], self.encode_message)]

    def _input_pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        return _content(message.content)

    def _result_pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        """A tool result: its text as the function's response, followed by its images."""
        response = {"error" if message.is_error else "output": message.text}
        result = {**_id(message.tool_call_id), "name": fitting_name(message.name), "response": response}
        images = [] if isinstance(message.content, str) else [p for p in message.content if p.get("type") != "text"]
        note = [{"text": f"Images returned by {message.name}:"}] if images else []
        return [{"functionResponse": result}, *note, *_content(images)]

    def _answer_pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = [{"functionCall": _call(call)} for call in message.tool_calls or ()]
        if calls:
            calls[0] |= _FOREIGN  # only the first of parallel calls has a signature
        return _content(message.text) + calls

    def _text_and_calls(self, pieces: list[dict[str, Any]]) -> tuple[str, list[Call]]:
        text = "".join(part.get("text") or "" for part in pieces if not part.get("thought"))
        calls = [part["functionCall"] for part in pieces if "functionCall" in part]
        return text, [(call.get("id"), call.get("name"), call.get("args") or {}) for call in calls]

    def _sendable(self, pieces: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return list(map(_fitting, pieces))


def _encode(group: RoleGroup) -> bytes:
    return b'{"role":"' + _ROLES[group.role] + b'","parts":[' + b",".join(group.fragments) + b"]}"


def _fitting(part: dict[str, Any]) -> dict[str, Any]:
    """The part, with a valid name for its call. Models make up names that Gemini refuses."""
    call = part.get("functionCall")
    return part if call is None else {**part, "functionCall": {**call, "name": fitting_name(call.get("name"))}}


def _call(call: FunctionCall) -> dict[str, Any]:
    return {**_id(call.id), "name": fitting_name(call.name), "args": call.arguments}


def _id(call_id: str | None) -> dict[str, str]:
    """The id of a call, if Gemini gave it one. Otherwise Gemini matches results by name and order."""
    return {"id": call_id} if call_id and not call_id.startswith(OWN_ID_PREFIX) else {}


def _named(messages: Messages) -> Messages:
    """The messages, with the function name in each tool result, which Gemini requires."""
    if all(message.name for message in messages if message.role == "tool"):
        return messages
    names = {call.id: call.name for message in messages for call in message.tool_calls or ()}
    return [
        message.replace(name=names.get(message.tool_call_id, "unknown"))
        if message.role == "tool" and not message.name
        else message
        for message in messages
    ]


def _content(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts of a text or of content parts. Parts of unknown kinds are sent unchanged."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return [_part(part) for part in content if part.get("type") != "text" or part.get("text")]


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part.get("type") == "text":
        return {"text": part["text"]}
    if part.get("type") in ("image", "document") and "data" in part:
        return {"inlineData": {"mimeType": part["media_type"], "data": part["data"]}}
    if part.get("type") == "image" and "url" in part:
        kind = {"mimeType": part["media_type"]} if "media_type" in part else {}
        return {"fileData": {**kind, "fileUri": part["url"]}}
    return dict(part)


def _function(item: Mapping[str, Any]) -> dict[str, Any]:
    """A function's declaration. Gemini refuses an object without properties, so that is omitted."""
    declaration = declared(item)
    schema = declaration.pop("parameters")
    return declaration | ({"parametersJsonSchema": gemini_schema(schema)} if schema["properties"] else {})

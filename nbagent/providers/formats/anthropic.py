"""The Anthropic Messages format of Claude and MiniMax.

An answer's content blocks are kept and sent back to the same provider unchanged, including thinking and signatures.
All other answers are rebuilt from their text and tool calls. Format:
https://platform.claude.com/docs/en/api/messages/create

A request may have up to four prompt-cache breakpoints, and none may last longer than an earlier one. Breakpoints that
the user set in a content part or a tool stay unchanged. nbagent sets the remaining ones, in this order: the last group
of user messages (whose breakpoint reads earlier content from the cache and writes new content), the system prompt, the
group before the last, the tools. Breakpoints: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from nbagent.core.events import Context, Event, Text, Thinking, ToolCallDelta
from nbagent.core.messages import FunctionCall, LLMMessage, LLMResponse, Usage, parse_arguments
from nbagent.errors import IncompleteStreamError, InvalidResponseError
from nbagent.providers.formats import anthropic_tools
from nbagent.providers.formats.codec import (
    COMPACTED,
    NOT_COMPACTED,
    Call,
    Codec,
    Decoder,
    Messages,
    dumps,
    fitting_id,
    new_call_id,
    token_count,
)
from nbagent.providers.formats.errors import error_in_answer
from nbagent.providers.formats.refused import Changes
from nbagent.providers.formats.role_groups import RoleGroup, group_by_role
from nbagent.providers.formats.strict_schema import strict_schema
from nbagent.providers.formats.tool_schema import declared, plain_schema
from nbagent.providers.options.resolved import ResolvedOptions
from nbagent.providers.provider_facts import ProviderFacts
from nbagent.providers.tool_names import fitting_name

#: Keywords that a schema for a whole answer must not contain.
_UNCHECKED = (
    *str.split("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength"),
    *str.split("minItems maxItems uniqueItems"),
)
#: https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons
FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "pause",
    "refusal": "refusal",
}
MAX_BREAKPOINTS = 4
#: How a message of each role starts.
_OPENINGS = {role: f'{{"role":"{role}","content":['.encode() for role in ("user", "assistant")}


class MessagesDecoder(Decoder):
    """Decodes one answer."""

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        #: The pieces of growing fields, by block and field, joined at the end.
        self._pieces: dict[tuple[int, str], list[str]] = {}

    def feed(self, event: dict[str, Any]) -> list[Event]:
        """See `Decoder`. Events of unknown types are ignored."""
        kind = event.get("type")
        if kind == "content_block_delta":
            return self._delta(event["index"], event["delta"])
        if kind == "content_block_start":
            return self._start(event["index"], event["content_block"])
        if kind == "content_block_stop":
            return self._stop(event["index"])
        if kind == "message_start":
            self._message |= event["message"]
            self._take_usage(event["message"].get("usage"))
        elif kind == "message_delta":
            self._message |= {key: value for key, value in event["delta"].items() if value is not None}
            self._take_usage(event.get("usage"))
        elif kind == "message_stop":
            self.done = True
        elif kind == "error" or event.get("error"):
            raise error_in_answer(event)
        return []

    def feed_body(self, body: dict[str, Any]) -> None:
        """See `Decoder`. The body contains the complete blocks that a stream would deliver in pieces."""
        if body.get("type") == "error" or body.get("error") or (body.get("base_resp") or {}).get("status_code"):
            raise error_in_answer(body)
        if not isinstance(body.get("content"), list):
            raise InvalidResponseError("the answer has no content")
        self._message |= body
        self._take_usage(body.get("usage"))
        for index, block in enumerate(body["content"]):
            self._start(index, block)
            self._stop(index)
        self.done = True

    def finish(self) -> LLMResponse:
        """See `Decoder`."""
        if not self.done:
            raise IncompleteStreamError("the stream ended without message_stop")
        blocks = self._whole_blocks()
        word = self._message.get("stop_reason")
        reason = FINISH_REASONS.get(word or "")
        uses = [block for block in blocks if block.get("type") == "tool_use"]
        # the container of executed code, if any: the next request continues in it, with the code's files
        container = {"container": found} if (found := self._message.get("container")) else {}
        self._model, self._id = self._message.get("model"), self._message.get("id")
        return self._response(
            text_of(blocks),
            [_function_call(block, reason == "length" and block is blocks[-1]) for block in uses],
            reason,
            usage_of(self._usage),
            {"blocks": blocks, **container},
            word=word,
            thinking="".join(block.get("thinking") or "" for block in blocks if block.get("type") == "thinking"),
            citations=anthropic_tools.citations_of(blocks),
            stop_details=self._message.get("stop_details"),
        )

    def _start(self, index: int, block: dict[str, Any]) -> list[Event]:
        """A block starts. Its content so far is its first piece."""
        self._blocks[index] = dict(block)
        kind = block.get("type")
        if kind == "text" and block.get("text"):
            return [Text(block["text"])]
        if kind == "thinking" and block.get("thinking"):
            return [Thinking(block["thinking"])]
        if kind == "tool_use":
            return [ToolCallDelta("", block.get("name"), metadata={"index": index})]
        return self._tool_ended(anthropic_tools.result_of(block)) if anthropic_tools.is_result(block) else []

    def _stop(self, index: int) -> list[Event]:
        """A block is complete. If it calls one of the provider's own tools, the call is now known."""
        block = self._blocks.get(index, {})
        if block.get("type") == "compaction":
            return [Context(COMPACTED if block.get("content") else NOT_COMPACTED)]
        if block.get("type") not in anthropic_tools.CALLS:
            return []
        text = "".join(self._pieces.get((index, "input"), ()))
        return self._tool_started(anthropic_tools.call_of(block, parse_arguments(text or block.get("input"))[0]))

    def _delta(self, index: int, delta: dict[str, Any]) -> list[Event]:
        kind = delta.get("type", "")
        if kind == "text_delta":
            self._grow(index, "text", delta["text"])
            return [Text(delta["text"])]
        if kind == "thinking_delta":
            self._grow(index, "thinking", delta["thinking"])
            return [Thinking(delta["thinking"])] if delta["thinking"] else []
        if kind == "input_json_delta":
            self._grow(index, "input", delta["partial_json"])
            block = self._blocks[index]
            if block.get("type") == "tool_use":
                return [ToolCallDelta(delta["partial_json"], block.get("name"), metadata={"index": index})]
        elif kind == "citations_delta":
            block = self._blocks[index]
            block["citations"] = block.get("citations") or []
            block["citations"].append(delta["citation"])
        elif kind == "signature_delta":
            self._grow(index, "signature", delta["signature"])
        elif kind.endswith("_delta"):  # such as compaction_delta: its fields replace earlier ones
            self._blocks[index] |= {key: value for key, value in delta.items() if key != "type"}
        return []

    def _grow(self, index: int, name: str, piece: str) -> None:
        self._pieces.setdefault((index, name), []).append(piece)

    def _whole_blocks(self) -> list[dict[str, Any]]:
        """The blocks with their pieces joined. A tool call's input is still text (see `_function_call`)."""
        for (index, name), pieces in self._pieces.items():
            if name != "input":  # from gateways that omit the start of a block
                self._blocks.setdefault(index, {"type": "text" if name == "text" else "thinking"})
            block = self._blocks[index]
            text = "".join(pieces)
            if name != "input":
                block[name] = (block.get(name) or "") + text
            elif text:
                block["input"] = text if block.get("type") == "tool_use" else parse_arguments(text)[0]
        return [self._blocks[index] for index in sorted(self._blocks)]


def text_of(blocks: Iterable[Mapping[str, Any]]) -> str:
    """The text of content blocks."""
    return "".join(block.get("text") or "" for block in blocks if block.get("type") == "text")


def _function_call(block: dict[str, Any], cut: bool) -> FunctionCall:
    """The call in a block. Its id and arguments are also put into the block, which is sent back.

    If the token limit cut a call off before its arguments, they count as unreadable, not as empty.
    """
    arguments, raw = parse_arguments(block.get("input"))
    if cut and not arguments:
        raw = raw or ""
    block["input"] = arguments
    block["id"] = block.get("id") or new_call_id()
    return FunctionCall(block.get("name") or "", arguments, block["id"], raw)


def usage_of(raw: dict[str, Any]) -> Usage:
    """The token counts of a Messages usage object, which counts cached tokens and summaries separately."""
    read = token_count(raw.get("cache_read_input_tokens"))
    written = token_count(raw.get("cache_creation_input_tokens"))
    details = raw.get("output_tokens_details") or {}
    own = Usage(
        input_tokens=token_count(raw.get("input_tokens")) + read + written,
        output_tokens=token_count(raw.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=token_count(details.get("thinking_tokens")),
    )
    others = [each for each in raw.get("iterations") or () if each.get("type") == "compaction"]
    return sum(map(usage_of, others), own)


class MessagesCodec(Codec):
    """The codec for Anthropic Messages, configured by one provider's facts."""

    format = "anthropic_messages"
    native = "blocks"
    decoder_class = MessagesDecoder
    request_path = "/v1/messages"
    models_path = "/v1/models?limit=1000"

    def __init__(self, facts: ProviderFacts, cache: str | bool = True) -> None:
        super().__init__(facts)
        #: How long the provider caches the start of a conversation; empty if it does not.
        self.ttl = cache if isinstance(cache, str) else next(iter(facts.cache_ttls), "") if cache else ""

    def _encoding_facts(self) -> tuple[object, ...]:
        return (self.facts.name, self.facts.unsigned_thinking)

    def output_options(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """See `Codec`."""
        strict = strict_schema(plain_schema(schema), all_required=False, without=_UNCHECKED)
        if strict is None or self.facts.json_output != "schema":
            return {}
        return {"output_config": {"format": {"type": "json_schema", "schema": strict}}}

    def _fragments(self, messages: Messages, reminder: Messages, head: dict[str, Any], changes: Changes) -> list[bytes]:
        """The groups, with breakpoints in them and in the head.

        The messages' cached bytes have no breakpoints, which move while everything else stays the same byte for byte.
        """
        if any(str(tool.get("type")).startswith("code_execution") for tool in head.get("tools", ())):
            head |= {**self._open_container(messages), **head}  # the user's own `container` takes precedence
        groups = group_by_role(self._without_open_calls(messages), self.encode_message)
        places = breakpoints(head, groups, self.ttl) if self.ttl else {}
        for place, ttl in places.items():
            mark = mark_of(ttl)
            if isinstance(place, RoleGroup):
                place.fragments[-1] = place.fragments[-1][:-1] + b',"cache_control":' + dumps(mark) + b"}"
            else:
                *before, last = head[place]
                head[place] = [*before, {**last, "cache_control": mark}]
        if after := [self.encode_message(message) for message in reminder]:
            if not groups or groups[-1].role != "user":
                groups.append(RoleGroup("user", []))
            groups[-1].fragments += after
        return [_OPENINGS[group.role] + b",".join(group.fragments) + b"]}" for group in groups]

    def _head(self, model: str, options: ResolvedOptions, system: str) -> dict[str, Any]:
        head: dict[str, Any] = {"model": model, "stream": options.stream, **self._common_fields(options)}
        if system:
            head["system"] = [{"type": "text", "text": system}]
        head |= options.extra
        if options.tools:
            native = self.facts.profile(model, self.format).native_tools
            tools = [dict(native.get(item.get("native", ""), ())) or _tool(item) for item in options.tools]
            head["tools"] = [*tools, *options.extra.get("tools", ())]
        if stop := head.pop("stop", None):
            head["stop_sequences"] = [stop] if isinstance(stop, str) else stop
        return head

    def _open_container(self, messages: Messages) -> dict[str, Any]:
        """The last answer's container, unless it has expired and would be refused."""
        found = [container for each in messages if (container := self._native(each).get("container"))]
        with suppress(ValueError):  # no container yet, or one without a time
            expires_at = datetime.fromisoformat(str(found[-1].get("expires_at")) if found else "")
            if expires_at.astimezone() > datetime.now(UTC):
                return {"container": found[-1]["id"]}
        return {}

    def _input_pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        return _content(message.content)

    def _result_pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        call_id = fitting_id(message.tool_call_id, self.facts.call_id)
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
        if content := _content(message.content):
            block["content"] = message.content if isinstance(message.content, str) else content
        return [block | ({"is_error": True} if message.is_error else {})]

    def _text_and_calls(self, pieces: list[dict[str, Any]]) -> tuple[str, list[Call]]:
        uses = [block for block in pieces if block.get("type") == "tool_use"]
        return text_of(pieces), [(block.get("id"), block.get("name"), block.get("input")) for block in uses]

    def _sendable(self, pieces: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [self._fitting(block) for block in pieces if self._is_accepted(block)]

    def _answer_pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        uses: list[dict[str, Any]] = [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            for call in message.tool_calls or ()
        ]
        return _content(message.text) + [self._fitting(use) for use in uses]

    def _without_open_calls(self, messages: Messages) -> Messages:
        """The messages without unfinished calls of the provider's own tools, once the user has said something else."""
        open_calls: dict[str, int] = {}
        for index, message in enumerate(messages):
            for block in self._native(message).get("blocks", ()) if message.role == "assistant" else ():
                if block.get("type") in anthropic_tools.CALLS:
                    open_calls[block["id"]] = index
                elif open_calls and anthropic_tools.is_result(block):
                    open_calls.pop(block["tool_use_id"], None)
        if not open_calls:
            return messages
        result, last = list(messages), max((at for at, each in enumerate(messages) if each.opens_turn), default=-1)
        for index in {at for at in open_calls.values() if at < last}:
            native = self._native(result[index])
            kept = [block for block in native["blocks"] if open_calls.get(block.get("id")) != index]
            result[index] = result[index].replace(provider_extras={**native, "blocks": kept})
        return result

    def _fitting(self, block: dict[str, Any]) -> dict[str, Any]:
        """The block with an id and a name that the provider accepts. Models make up invalid names."""
        if block.get("type") != "tool_use":
            return block
        return block | {"id": fitting_id(block["id"], self.facts.call_id), "name": fitting_name(block.get("name"))}

    def _is_accepted(self, block: Mapping[str, Any]) -> bool:
        """Whether the API accepts a block. It refuses empty texts, and Claude refuses thinking without a signature."""
        if block.get("type") == "text":
            return bool(block.get("text", "").strip())
        if block.get("type") == "thinking" and not block.get("signature"):
            return self.facts.unsigned_thinking and bool(block.get("thinking"))
        return True


def _content(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The content blocks of a text or of content parts. Parts of unknown kinds are sent unchanged."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return [_block(part) for part in content if part.get("type") != "text" or part.get("text", "").strip()]


def _block(part: Mapping[str, Any]) -> dict[str, Any]:
    kind = part.get("type")
    if kind in ("image", "document") and "data" in part:
        title = {"title": part["name"]} if kind == "document" else {}
        source = {"type": "base64", "media_type": part["media_type"], "data": part["data"]}
        return {"type": kind, "source": source, **title}
    if kind == "image" and "url" in part:
        return {"type": "image", "source": {"type": "url", "url": part["url"]}}
    return dict(part)  # already in the provider's own form


def _tool(item: Mapping[str, Any]) -> dict[str, Any]:
    tool = declared(item)
    schema = tool.pop("parameters")
    return {**tool, "input_schema": schema, **item.get("provider_fields", {})}


def ttl_of(holder: Mapping[str, Any]) -> str | None:
    """How long to cache the prompt up to and including this block, tool or part; None if the user set no breakpoint
    there.

    >>> ttl_of({"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}})
    '5m'
    """
    mark = holder.get("cache_control")
    return (mark.get("ttl") or "5m") if mark else None


def mark_of(ttl: str) -> dict[str, str]:
    """A breakpoint that lasts this long. Five minutes, the API's default, is omitted."""
    return {"type": "ephemeral"} | ({} if ttl == "5m" else {"ttl": ttl})


def breakpoints(head: Mapping[str, Any], groups: Sequence[RoleGroup], ttl: str) -> dict[Any, str]:
    """The lifetime of each breakpoint that nbagent sets, by its place: `"tools"`, `"system"` or a group.

    >>> breakpoints({"system": [{"type": "text", "text": "Be brief."}]}, [], "1h")
    {'system': '1h'}
    """
    lists = [(name, head.get(name)) for name in ("tools", "system")]
    prompt: list[tuple[Any, Sequence[Mapping[str, Any]]]]
    prompt = [(name, items) for name, items in lists if isinstance(items, list) and items]
    prompt += [(group, group.parts) for group in groups if group.role == "user"]
    prompt.append((None, [head]))
    marks: list[tuple[int, str]] = []  # the user's own, each after its place in the prompt
    free: dict[Any, int] = {}
    for at, (place, holders) in enumerate(prompt):
        if kept := [(at, mark) for holder in holders if (mark := ttl_of(holder))]:
            marks += kept
        else:
            free[place] = at
    users = [place for place in free if isinstance(place, RoleGroup)]
    wanted = [*users[-1:], "system", *users[-2:-1], "tools"]
    chosen = [place for place in wanted if place in free][: max(MAX_BREAKPOINTS - len(marks), 0)]
    return {place: fit for place in chosen if (fit := _fitting(marks, free[place], ttl))}


def _fitting(marks: Sequence[tuple[int, str]], at: int, ttl: str) -> str | None:
    """How long our breakpoint may last: no longer than any before it. None if one after it lasts longer."""
    if any(kept == "5m" for place, kept in marks if place < at):
        ttl = "5m"
    if ttl == "5m" and any(kept == "1h" for place, kept in marks if place > at):
        return None
    return ttl

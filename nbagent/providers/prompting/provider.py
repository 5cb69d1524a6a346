"""`PromptedProvider`: tool calls by prompting, for models that have no tool calling of their own.

The prompt describes the tools and asks for a JSON object, under a schema where the server can decode so. The embedded
model is not asked: `grounding` chooses the tool, and finds its arguments in the question. No call is made if the
arguments do not fit the tool's schema. The embedded model's answers then quote the results.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import replace
from typing import Any

from nbagent.checks import check_choice
from nbagent.core.aclose import aclose_if_possible
from nbagent.core.content.images import has_image
from nbagent.core.events import Event, Text
from nbagent.core.messages import Content, FunctionCall, LLMMessage, LLMResponse, Usage
from nbagent.core.model_request import Functions, ModelRequest
from nbagent.providers.base import LLMProvider, WrapperProvider
from nbagent.providers.formats.documents import sendable_documents
from nbagent.providers.formats.images import without_images
from nbagent.providers.options.vendor_tools import check_available
from nbagent.providers.prompting.grounding import THRESHOLD, best_tool
from nbagent.providers.prompting.json_tool_prompt import ask_for_call, first_json_object
from nbagent.providers.prompting.reading import is_readable
from nbagent.providers.prompting.result_sentences import result_sentence

#: The most tokens of an answer, unless `max_tokens` is given: a small model tends to ramble.
MAX_ANSWER_TOKENS = 300
#: The same for an answer from memory where tools are on offer: it is probably wrong.
MAX_UNAIDED_TOKENS = 120
#: Used if there is no system message: without any, the small model answers far worse.
SYSTEM_MESSAGE = "You are a helpful assistant."
#: What is said instead of an answer to a question in a script that the embedded model can't read.
UNREADABLE = "This small model reads only English. Ask in English, or use a larger model."
#: A rough but safe estimate for English text.
CHARS_PER_TOKEN = 3


class PromptedProvider(WrapperProvider):
    """Makes an `inner` provider without tool calling call tools, by prompting."""

    def __init__(self, inner: LLMProvider) -> None:
        super().__init__(inner)
        #: The size of the embedded model's context window in tokens; other providers don't say theirs.
        self.n_ctx: int | None = getattr(inner, "n_ctx", None)

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """See `LLMProvider.resolve`. The inner provider gets the request for a plain answer, without tools."""
        check_available(request.tools, self.vendor)
        options, tools = dict(request.options), request.tools or ()
        choice, named = options.pop("tool_choice", None), {tool["name"]: tool for tool in tools}
        if choice is not None:
            check_choice("tool_choice", choice, (*dict.fromkeys(("auto", "none", "required", *named)),))
        messages, reminder = request.messages, request.reminder
        if self.n_ctx:  # its prompts are text
            messages = without_images(sendable_documents(messages, False), self.vendor, self.model_name)
            reminder = ""  # such a small model would answer it in place of the question
            limit = MAX_UNAIDED_TOKENS if choice != "none" and answers_unaided(request) else MAX_ANSWER_TOKENS
            given = options.get("max_tokens") or getattr(self.inner, "options", {}).get("max_tokens")
            options["max_tokens"] = given or limit
            shown = recent(messages, self.n_ctx - options["max_tokens"])
        else:
            shown = messages
        resolved = ModelRequest(plain(shown), None, options, timing=request.timing, reminder=reminder)
        inner = self.inner.resolve(resolved)
        return replace(
            request,
            messages=messages,
            reminder=reminder,
            tools=None if choice == "none" else [named[choice]] if choice in named else request.tools,
            effective_options={**inner.effective_options, "tool_choice": choice},
            resolved=inner,
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Event | LLMResponse]:
        """A tool call, an answer from tool results, or a plain answer, depending on the last message."""
        last = request.messages[-1] if request.messages else LLMMessage("user", "")
        calls, usage = list[FunctionCall](), Usage()
        if self.n_ctx and last.role == "tool":
            for item in self._quoted(request.messages):
                yield item
            return
        if request.tools and last.role == "user":
            is_forced = request.effective_options.get("tool_choice") not in (None, "auto")
            if self.n_ctx is None:
                reply = await ask_for_call(self.inner, request.resolved, request.tools, is_forced=is_forced)
                calls, usage = _calls(request.tools, [first_json_object(reply.content)]), reply.usage
            elif len(last.text) > self.n_ctx * CHARS_PER_TOKEN:
                pass  # it could not be shown
            elif best := best_tool(last.text, request.tools, float("-inf") if is_forced else THRESHOLD):
                tool, found = best
                calls = _calls([dict(tool)], [{"name": tool["name"], "arguments": arguments} for arguments in found])
        facts: dict[str, Any] = {"usage": usage, "model": self.model_name}
        if calls:
            facts |= {"usage_estimated": False} if self.n_ctx else {}  # nothing, where no model was asked
            yield LLMResponse("", calls, "tool_calls", facts)
            return
        is_unaided = self.n_ctx is not None and answers_unaided(request)
        if self.n_ctx and not is_readable(last.text):  # the model is not asked
            yield Text(UNREADABLE)
            facts |= {"usage_estimated": False} | ({"no_tool": False} if is_unaided else {})
            yield LLMResponse(UNREADABLE, None, "stop", facts)
            return
        async with aclose_if_possible(self.inner.stream(request.resolved)) as items:
            async for item in items:
                if isinstance(item, LLMResponse):
                    facts = {"no_tool": True} if is_unaided else {}
                    facts |= (item.metadata or {}) | ({"usage": usage + item.usage} if usage != Usage() else {})
                    yield replace(item, metadata=facts)
                else:
                    yield item

    def _quoted(self, messages: list[LLMMessage]) -> Iterator[Event | LLMResponse]:
        """Sentences that quote the tool results at the end of the conversation: a small model would garble them."""
        results = list(itertools.takewhile(lambda message: message.role == "tool", reversed(messages)))[::-1]
        calls = {call.id: call for message in messages for call in message.tool_calls or ()}
        answer = "\n\n".join(result_sentence(calls.get(each.tool_call_id), each) for each in results)
        for piece in re.findall(r"\S+\s*|\s+", answer):
            yield Text(piece)
        facts = {"usage": Usage(), "model": self.model_name, "quoted": True, "usage_estimated": False}
        yield LLMResponse(answer, None, "stop", facts)


def answers_unaided(request: ModelRequest) -> bool:
    """Whether tools are on offer, and none was called since the last question: an answer would be from memory."""
    turn_start = max((i for i, message in enumerate(request.messages) if message.opens_turn), default=0)
    return bool(request.tools) and not any(message.role == "tool" for message in request.messages[turn_start:])


def _calls(tools: Functions, wanted: Sequence[Any]) -> list[FunctionCall]:
    """The calls that are wanted, as `{"name", "arguments"}`; none if one of them does not fit its tool's schema."""
    from nbagent.core.json_schema import jsonschema

    found = []
    for each in wanted:
        name, arguments = (each.get("name"), each.get("arguments") or {}) if isinstance(each, dict) else (None, {})
        tool = next((tool for tool in tools if tool["name"] == name), None)
        if tool is None or not isinstance(arguments, dict):
            return []
        schema = {"type": "object", **(tool.get("parameters") or {})}
        if not jsonschema.validators.validator_for(schema)(schema).is_valid(arguments):
            return []
        found.append(FunctionCall(tool["name"], arguments, f"call_{uuid.uuid4().hex[:12]}"))
    return found


# -- the conversation as the model gets it ----------------------------------------------------------------------------


def plain(messages: Sequence[LLMMessage]) -> list[LLMMessage]:
    """The conversation in roles that every chat template knows, without tool calls, whose form a model would copy.

    A tool's result is left out if an answer follows it, because the answer holds it; else the user says it.
    """
    kept: list[LLMMessage] = []
    for index, message in enumerate(messages):
        if message.role == "tool":
            later = next((m for m in messages[index:] if m.role == "user" or (m.role == "assistant" and m.text)), None)
            if later is None or later.role == "user":
                text = f"The result of {message.name or 'the function'} is: {message.text}"
                kept.append(LLMMessage("user", _with_images(text, message)))
        elif message.text or not message.tool_calls:
            kept.append(LLMMessage(message.role, _with_images(message.text, message)))
    return kept


def _with_images(text: str, message: LLMMessage) -> Content:
    """The text that stands for a message, followed by the images of that message."""
    if isinstance(message.content, str) or not has_image(message.content):
        return text
    return [{"type": "text", "text": text}, *(part for part in message.content if part.get("type") == "image")]


def recent(messages: Sequence[LLMMessage], n_tokens: int) -> list[LLMMessage]:
    """The system message, and as many of the last turns as fit, each of them whole; the last one always stays.

    Earlier turns that used tools are left out: a small model would copy the form of their answers.

    >>> call = FunctionCall("count", {}, "call_1")
    >>> said = [LLMMessage("user", "Count!"), LLMMessage("assistant", tool_calls=[call]), LLMMessage("tool", "3")]
    >>> [message.text for message in recent([*said, LLMMessage("user", "Thanks!")], 100)]
    ['You are a helpful assistant.', 'Thanks!']
    """
    system = [message for message in messages if message.role == "system"] or [LLMMessage("system", SYSTEM_MESSAGE)]
    others = [message for message in messages if message.role != "system"]
    starts = [i for i, message in enumerate(others) if message.opens_turn] or [0]
    *earlier, last = [others[start:end] for start, end in itertools.pairwise([*starts, len(others)])]
    kept, room = [*system, *last], n_tokens * CHARS_PER_TOKEN
    for turn in reversed(earlier):
        if any(message.tool_calls or message.role == "tool" for message in turn):
            continue
        if sum(len(message.text) + 8 * CHARS_PER_TOKEN for message in [*kept, *turn]) > room:
            break
        kept[len(system) : len(system)] = turn
    return kept

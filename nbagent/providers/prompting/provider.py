"""`PromptedProvider`: tool calls by prompting, for models without tool calling.

If the inner provider is a `Completer`, as the embedded model's is, `grounding` chooses the tool and the possible
arguments from the prompt. If an argument has several possible values, the model chooses. With any other provider, the
prompt describes the tools and asks for a JSON object. Either way, no call is made if the arguments do not fit the
tool's schema. The answer is then written from the results.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from nbagent.checks import check_choice
from nbagent.core.async_iterators import aclose_if_possible
from nbagent.core.content.images import has_image
from nbagent.core.content.marks import before_attachments
from nbagent.core.events import Event, Http, Retry, Text
from nbagent.core.messages import Content, FunctionCall, LLMMessage, LLMResponse, Usage
from nbagent.core.model_request import Functions, ModelRequest
from nbagent.providers.base import WrapperProvider
from nbagent.providers.formats.documents import sendable_documents
from nbagent.providers.formats.images import without_images
from nbagent.providers.options.provider_tools import check_available
from nbagent.providers.prompting.grounding import THRESHOLD, Choices, best_tool, follow_up
from nbagent.providers.prompting.json_tool_prompt import ask_for_call, first_json_object
from nbagent.providers.prompting.reading import is_readable
from nbagent.providers.prompting.result_sentences import repeats_itself, result_sentence
from nbagent.providers.prompting.schemas import Tool, signature

#: The most tokens for the arguments of one call.
MAX_ARGUMENT_TOKENS = 256
#: The most tokens of an answer, unless `max_tokens` is set: a small model tends to ramble.
MAX_ANSWER_TOKENS = 300
#: The same for an answer from memory although tools are on offer, which is probably wrong.
MAX_UNAIDED_TOKENS = 120
#: Used if there is no system message, since the small model answers far worse without one.
SYSTEM_MESSAGE = "You are a helpful assistant."
#: The answer to a prompt in a script that the embedded model can't read.
UNREADABLE = "This small model reads only English. Ask in English, or use a larger model."
#: A rough but safe estimate for English text.
CHARS_PER_TOKEN = 3
#: The usage is exact: it counts only what the embedded model read and wrote, which is nothing for rule-based answers.
_EXACT = {"usage_estimated": False}

EXAMPLES = '''def book_table(restaurant: str, people: int = 2):
    """Book a table at a restaurant"""
# Request: book a table at Luigi's for 4
# Arguments: {"restaurant": "Luigi's", "people": 4}

def total(values: list[float]):
    """Add numbers up"""
# Request: total of 2, 9 and 4.5
# Arguments: {"values": [2, 9, 4.5]}

def find_notes(text: str, limit: int = 10):
    """Find the notes that contain a text"""
# Request: find notes that mention 'alpha beta'
# Arguments: {"text": "alpha beta"}

'''


@dataclass(frozen=True, slots=True)
class Completion:
    """The text with which a model continued a prompt. `cut_off`: whether the token limit stopped it."""

    text: str
    usage: Usage
    cut_off: bool


@runtime_checkable
class Completer(Protocol):
    """A provider that can constrain its output to a JSON Schema."""

    #: The size of the model's context window in tokens.
    n_ctx: int

    async def complete(self, prompt: str, *, schema: dict[str, Any] | None = None, max_tokens: int = 256) -> Completion:
        """Complete `prompt` at temperature 0. With `schema`, the completion is JSON that fits it."""

    def load(self) -> AsyncGenerator[Http]:
        """Load the model. Yields an event before each slow step, and one if another prompt is still being answered."""


class PromptedProvider(WrapperProvider):
    """Adds tool calls, by prompting, to an `inner` provider whose model can't call tools."""

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """See `LLMProvider.resolve`. The inner provider receives the request without its tools."""
        check_available(request.tools, self.provider_name)
        options = dict(request.options)
        choice, tools = options.pop("tool_choice", None), request.tools
        named = [tool for tool in tools or () if tool["name"] == choice]
        if choice is not None and not named:
            check_choice("tool_choice", choice, ("auto", "none", "required", *(tool["name"] for tool in tools or ())))
        tools = None if choice == "none" else named or tools
        messages = request.messages
        if isinstance(self.inner, Completer):  # its prompts are text
            messages = without_images(sendable_documents(messages, False), self.provider_name, self.model_name)
            is_unaided = choice != "none" and answers_unaided(request)
            limit = MAX_UNAIDED_TOKENS if is_unaided else MAX_ANSWER_TOKENS
            given = options.get("max_tokens") or getattr(self.inner, "options", {}).get("max_tokens")
            options = {**options, "max_tokens": given or limit}
            plain_messages = without_tool_turns(messages)
            if not any(message.role == "system" for message in plain_messages):
                plain_messages = [LLMMessage("system", SYSTEM_MESSAGE), *plain_messages]
            plain_messages = fit(plain(plain_messages), self.inner.n_ctx - options["max_tokens"])
            reminder = ""  # such a small model would answer it instead of the prompt
        else:
            plain_messages, reminder = plain(messages), request.reminder
        inner = self.inner.resolve(
            ModelRequest(plain_messages, None, options, timing=request.timing, reminder=reminder)
        )
        return replace(
            request,
            messages=messages,
            reminder=reminder,
            tools=tools,
            effective_options={**inner.effective_options, "tool_choice": choice},
            resolved=inner,
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Event | LLMResponse]:
        """A tool call, an answer from tool results, or a plain answer, depending on the last message."""
        last = request.messages[-1].role if request.messages else ""
        if last == "tool" and isinstance(self.inner, Completer):
            steps = self._answer_from_results(request.messages)
        elif request.tools and last == "user":
            steps = self._call_or_answer(request, request.tools)
        else:
            steps = self._plain_answer(request.resolved)
        is_unaided = isinstance(self.inner, Completer) and answers_unaided(request)
        async with aclosing(steps):
            async for item in steps:
                if is_unaided and isinstance(item, LLMResponse) and not item.function_calls:
                    yield replace(item, metadata={"no_tool": True, **(item.metadata or {})})
                else:
                    yield item

    async def _call_or_answer(self, request: ModelRequest, tools: Functions) -> AsyncGenerator[Event | LLMResponse]:
        calls, usage = list[FunctionCall](), Usage()
        is_forced = request.effective_options.get("tool_choice") not in (None, "auto")
        if isinstance(self.inner, Completer):
            text = before_attachments(request.messages[-1].text)
            tools = tools if len(text) <= self.inner.n_ctx * CHARS_PER_TOKEN else []  # too long for the model
            best = best_tool(text, tools, at_least=float("-inf") if is_forced else THRESHOLD)
            if best := best or changed_call(text, request.messages, tools):
                async for word in self.inner.load():
                    yield word
                calls, usage = await self._grounded_calls(self.inner, text, *best)
        else:
            reply = await ask_for_call(self.inner, request.resolved, tools, is_forced=is_forced)
            wanted, usage = first_json_object(reply.content) or {}, reply.usage
            named = [tool for tool in tools if tool["name"] == wanted.get("name")]
            call = checked_call(named[0], wanted.get("arguments") or {}) if named else None
            calls = [call] if call else []
        if calls:
            facts = {"usage": usage, "model": self.model_name}
            yield LLMResponse("", calls, "tool_calls", facts | (_EXACT if isinstance(self.inner, Completer) else {}))
            return
        async with aclosing(self._plain_answer(request.resolved)) as items:
            async for item in items:
                if isinstance(item, LLMResponse):
                    yield replace(item, metadata={**(item.metadata or {}), "usage": usage + item.usage})
                else:
                    yield item

    async def _grounded_calls(
        self, inner: Completer, request: str, tool: Tool, wanted: Sequence[Choices]
    ) -> tuple[list[FunctionCall], Usage]:
        """The requested calls; none if the arguments of one do not fit the tool."""
        calls, usage = list[FunctionCall | None](), Usage()
        for choices in wanted:
            arguments, used = await self._chosen(inner, request, tool, choices)
            calls.append(checked_call(tool, arguments))
            usage += used
        return [call for call in calls if call] if all(calls) else [], usage

    async def _chosen(
        self, inner: Completer, request: str, tool: Tool, choices: Choices
    ) -> tuple[dict[str, Any], Usage]:
        """A value for each parameter: the model's choice, else the likeliest."""
        likeliest = {name: values[0] for name, values in choices.items()}
        head = f"{EXAMPLES}{signature(tool, list(choices))}# Request: "
        is_long = len(head) + len(request) > (inner.n_ctx - MAX_ARGUMENT_TOKENS) * CHARS_PER_TOKEN
        if is_long or not choices:
            return likeliest, Usage()
        schema = {
            "type": "object",
            "properties": {name: {"enum": values} for name, values in choices.items()},
            "required": list(choices),
            "additionalProperties": False,
        }
        prompt = f"{head}{' '.join(request.split())}\n# Arguments: "
        done = await inner.complete(prompt, schema=schema, max_tokens=MAX_ARGUMENT_TOKENS)
        arguments = None if done.cut_off else first_json_object(done.text)
        if not isinstance(arguments, dict):
            return likeliest, done.usage
        used: list[Any] = []
        for name, values in choices.items():  # two parameters never take the same piece of the request
            if len(values) > 1 and arguments[name] in used:
                arguments[name] = next((value for value in values if value not in used), arguments[name])
            used.append(arguments[name])
        return arguments, done.usage

    async def _answer_from_results(self, messages: list[LLMMessage]) -> AsyncGenerator[Event | LLMResponse]:
        """Sentences that quote the last tool results, which a small model would garble."""
        results = list(itertools.takewhile(lambda message: message.role == "tool", reversed(messages)))[::-1]
        calls = {call.id: call for message in messages for call in message.tool_calls or ()}
        answer = "\n\n".join(result_sentence(calls.get(each.tool_call_id), each) for each in results)
        for piece in re.findall(r"\S+\s*|\s+", answer):
            yield Text(piece)
        yield LLMResponse(answer, None, "stop", {"usage": Usage(), "model": self.model_name, "quoted": True} | _EXACT)

    async def _plain_answer(self, request: ModelRequest) -> AsyncGenerator[Event | LLMResponse]:
        """The inner model's answer. A small model is stopped once it keeps repeating itself."""
        may_repeat = isinstance(self.inner, Completer)
        if may_repeat and not is_readable(request.messages[-1].text):
            yield Text(UNREADABLE)
            facts = {"usage": Usage(), "model": self.model_name, "no_tool": False}  # without the model
            yield LLMResponse(UNREADABLE, None, "stop", facts | _EXACT)
            return
        pieces: list[str] = []
        async with aclose_if_possible(self.inner.stream(request)) as items:
            async for item in items:
                yield item
                if isinstance(item, Retry):
                    pieces.clear()
                elif may_repeat and isinstance(item, Text):
                    pieces.append(item.content)
                    if repeats_itself("".join(pieces)):
                        break
            else:
                return
        yield Text(" …")
        # the server does not report the tokens of an unfinished answer: each piece is one, and the prompt is estimated
        usage = Usage(sum(len(message.text) for message in request.messages) // CHARS_PER_TOKEN, len(pieces))
        yield LLMResponse("".join([*pieces, " …"]), None, "stop", {"usage": usage, "model": self.model_name})


def answers_unaided(request: ModelRequest) -> bool:
    """Whether tools are on offer but none has been called since the last prompt, so the answer comes from the model's
    memory.
    """
    turn_start = max((i for i, message in enumerate(request.messages) if message.opens_turn), default=0)
    return bool(request.tools) and not any(message.role == "tool" for message in request.messages[turn_start:])


def changed_call(text: str, messages: Sequence[LLMMessage], tools: Sequence[Tool]) -> tuple[Tool, list[Choices]] | None:
    """The previous turn's last call, changed by a follow-up such as "And for Oslo?"; None for any other prompt."""
    starts = [i for i, message in enumerate(messages) if message.opens_turn]
    calls = [call for message in messages[starts[-2] :] for call in message.tool_calls or ()] if len(starts) > 1 else []
    tool = next((tool for tool in tools if calls and tool["name"] == calls[-1].name), None)
    wanted = follow_up(text, tool, calls[-1].arguments) if tool else []
    return (tool, wanted) if tool and wanted else None


def checked_call(tool: Tool, arguments: Any) -> FunctionCall | None:
    """A call to the tool, or None if the arguments do not fit its schema."""
    from referencing.exceptions import Unresolvable

    from nbagent.core.json_schema import jsonschema, validator_of

    schema = {"type": "object", **(tool.get("parameters") or {})}
    with suppress(jsonschema.SchemaError, Unresolvable):
        if isinstance(arguments, dict) and validator_of(schema).is_valid(arguments):
            return FunctionCall(tool["name"], arguments, f"call_{uuid.uuid4().hex[:12]}")
    return None


def plain(messages: Sequence[LLMMessage]) -> list[LLMMessage]:
    """The conversation in roles that every chat template knows. Tool calls are omitted, since a model would copy their
    form.

    A tool's result is omitted if an answer follows, since the answer repeats it. Otherwise the result becomes a user
    message.
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
    """A message's text, followed by its images."""
    if isinstance(message.content, str) or not has_image(message.content):
        return text
    return [{"type": "text", "text": text}, *(part for part in message.content if part.get("type") == "image")]


def without_tool_turns(messages: Sequence[LLMMessage]) -> list[LLMMessage]:
    """The conversation without earlier turns that used tools, since a small model would copy the form of their answers.

    >>> call = FunctionCall("count", {}, "call_1")
    >>> said = [LLMMessage("user", "Count!"), LLMMessage("assistant", tool_calls=[call]), LLMMessage("tool", "3")]
    >>> [message.text for message in without_tool_turns([*said, LLMMessage("user", "Thanks!")])]
    ['Thanks!']
    """
    starts = [i for i, message in enumerate(messages) if message.opens_turn]
    kept = list(messages[: starts[0]] if starts else messages)
    for start, end in itertools.pairwise([*starts, len(messages)]):
        turn = messages[start:end]
        if start == starts[-1] or not any(message.tool_calls or message.role == "tool" for message in turn):
            kept += turn
    return kept


def fit(messages: Sequence[LLMMessage], n_tokens: int) -> list[LLMMessage]:
    """The system message and as many of the last turns as fit, each of them whole. The last turn is always kept."""
    system = [message for message in messages if message.role == "system"]
    others = [message for message in messages if message.role != "system"]
    starts = [i for i, message in enumerate(others) if message.opens_turn] or [0]
    room = n_tokens * CHARS_PER_TOKEN - sum(len(message.text) for message in system)
    for start in starts:
        if sum(len(message.text) + 8 * CHARS_PER_TOKEN for message in others[start:]) <= room:
            return [*system, *others[start:]]
    return [*system, *others[starts[-1] :]]

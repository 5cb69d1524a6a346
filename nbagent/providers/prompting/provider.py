"""Tools for models that can't call them: `PromptedProvider` wraps such a provider, the agent decides when.

With a provider that can decode under a JSON schema (`complete`, as the embedded model's), the tool is chosen and its
arguments are narrowed by `narrowing`, and the model only picks among what the request can mean. With any other, the
tools are described in the prompt and a JSON object is asked for. Either way arguments are checked against the tool's
schema before a call is made; what does not fit is no call. One call a request; then the answer is made from its result.
"""

from __future__ import annotations

import itertools
import json
import re
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from nbagent.core.content.images import has_image
from nbagent.core.events import Event, Http, Retry, Text
from nbagent.core.messages import Content, FunctionCall, LLMMessage, LLMResponse, Usage
from nbagent.core.model_request import Functions, ModelRequest
from nbagent.errors import ConfigurationError
from nbagent.providers.base import ProviderAround
from nbagent.providers.formats.images import without_images
from nbagent.providers.prompting.json_tool_prompt import ask_for_call
from nbagent.providers.prompting.narrowing import narrow, properties, shortlist, signature
from nbagent.providers.prompting.request_text import words
from nbagent.providers.prompting.result_sentences import faithful, is_short, is_stuck, quote, without_call

#: Tokens for the arguments of one call.
MOST_ARGUMENT_TOKENS = 256
#: Tokens of an answer, unless `max_tokens` is given: a small model tends to ramble.
MOST_ANSWER_TOKENS = 300
#: Without any system message the small model answers far worse.
SYSTEM_MESSAGE = "You are a helpful assistant."
#: A rough but safe estimate for English text.
CHARS_PER_TOKEN = 3
#: All that a follow-up ("And by island?") says beside the argument that it changes.
CONTINUING = frozenset(
    str.split(
        "a about also and but by each every for how in instead now of on only or per please same so the then to too "
        "what with"
    )
)

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
    """What a model wrote after a bare prompt. `cut_off`: it was stopped by the token limit."""

    text: str
    usage: Usage
    cut_off: bool


@runtime_checkable
class Completer(Protocol):
    """A provider that can decode under a JSON schema."""

    #: The size of the model's window in tokens.
    n_ctx: int

    async def complete(
        self, prompt: str, *, schema: dict[str, Any] | None = None, max_tokens: int = 256, stop: Sequence[str] = ()
    ) -> Completion:
        """Go on after `prompt`, at temperature 0, as JSON that fits `schema` where one is given."""

    def waiting(self) -> str | None:
        """What a request now would wait for ("loading the model"), or None."""


class PromptedProvider(ProviderAround):
    """An `inner` provider without tool calling, made to call tools by prompting."""

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """See `LLMProvider.resolve`. The inner provider gets the request for a plain answer, without tools."""
        options = dict(request.options)
        choice = options.pop("tool_choice", None)
        if choice not in (None, "auto", "none"):
            raise ConfigurationError(f"{self.model_name} can't be made to call a tool: tool_choice={choice!r}.")
        messages = request.messages
        if isinstance(self.inner, Completer):  # which reads prompts of text
            messages = without_images(messages, self.vendor, self.model_name)
            options = {"max_tokens": MOST_ANSWER_TOKENS, **options}
            plain_messages = without_tool_turns(messages)
            if not any(message.role == "system" for message in plain_messages):
                plain_messages = [LLMMessage("system", SYSTEM_MESSAGE), *plain_messages]
            plain_messages = fit(plain(plain_messages), self.inner.n_ctx - options["max_tokens"])
        else:
            plain_messages = plain(messages)
        inner = self.inner.resolve(ModelRequest(plain_messages, None, options))
        return replace(
            request,
            messages=messages,
            tools=None if choice == "none" else request.tools,
            effective_options={**inner.effective_options, "tool_choice": choice},
            resolved=inner,
        )

    async def stream(self, request: ModelRequest) -> AsyncIterator[Event | LLMResponse]:
        """A tool call, an answer from tool results, or a plain answer, by what the last message is."""
        last = request.messages[-1].role if request.messages else ""
        if last == "tool" and isinstance(self.inner, Completer):
            steps = self._answer(self.inner, request.messages)
        elif request.tools and last == "user":
            steps = self._call_or_chat(request, request.tools)
        else:
            steps = self._chat(request.resolved)
        try:
            async for item in steps:
                yield item
        finally:
            await steps.aclose()

    async def _call_or_chat(self, request: ModelRequest, functions: Functions) -> AsyncGenerator[Event | LLMResponse]:
        messages = request.messages
        if isinstance(self.inner, Completer):
            text = messages[-1].text
            tool, earlier = shortlist(text, functions), FunctionCall("")
            if tool is None and (continued := follow_up(messages, functions)):
                tool, earlier = continued
            if tool is not None and (word := self.inner.waiting()):
                yield Http(word)
            call, usage = await self._constrained(self.inner, text, tool, earlier) if tool else (None, Usage())
        else:
            call, usage = await self._asked(request.resolved, functions)
        if call is None:
            async with aclosing(self._chat(request.resolved, usage)) as items:
                async for item in items:
                    yield item
            return
        yield LLMResponse("", [call], "tool_calls", {"usage": usage, "model": self.model_name})

    async def _constrained(
        self, inner: Completer, request: str, tool: Mapping[str, Any], earlier: FunctionCall
    ) -> tuple[FunctionCall | None, Usage]:
        """A call whose arguments the model chose among what the request can mean; the `earlier` call's stay beside."""
        schema = narrow(request, _without_required(tool) if earlier.name else tool)
        head = f"{EXAMPLES}{signature(tool, list(schema['properties']))}# Request: "
        room = (inner.n_ctx - MOST_ARGUMENT_TOKENS) * CHARS_PER_TOKEN - len(head)
        if room < len(request):
            return None, Usage()
        if not schema["properties"]:
            return checked_call(tool, {}), Usage()
        one_line = " ".join(request.split())
        done = await inner.complete(f"{head}{one_line}\n# Arguments: ", schema=schema, max_tokens=MOST_ARGUMENT_TOKENS)
        arguments = None if done.cut_off else _json_object(done.text)
        if not isinstance(arguments, dict) or _repeats_a_text(arguments):
            return None, done.usage
        return checked_call(tool, {**earlier.arguments, **arguments}), done.usage

    async def _asked(self, request: ModelRequest, functions: Functions) -> tuple[FunctionCall | None, Usage]:
        """A call that the model wrote as JSON because the prompt asked for it."""
        reply = await ask_for_call(self.inner, request.messages, functions, request.options)
        wanted = _json_object(reply.content) or {}
        tool = next((function for function in functions if function["name"] == wanted.get("name")), None)
        return (checked_call(tool, wanted.get("arguments") or {}) if tool else None), reply.usage

    async def _answer(self, inner: Completer, messages: list[LLMMessage]) -> AsyncGenerator[Event | LLMResponse]:
        """A small model's answer from the tool results at the end of the conversation: quoted, or checked word by word.

        A provider that can't decode under a schema is no such model, and answers by itself.
        """
        start = len(messages)
        while start and messages[start - 1].role == "tool":
            start -= 1
        results = messages[start:]
        calls = {call.id: call for message in messages[:start] for call in message.tool_calls or ()}
        request = next((message.text for message in reversed(messages[:start]) if message.opens_turn), "")
        draft, usage = None, Usage()
        if len(results) == 1 and is_short(results[0]):
            draft, usage = await self._draft(inner, request, calls.get(results[0].tool_call_id), results[0])
        answer = draft or "\n\n".join(quote(calls.get(result.tool_call_id), result) for result in results)
        for piece in re.findall(r"\S+\s*|\s+", answer):
            yield Text(piece)
        yield LLMResponse(answer, None, "stop", {"usage": usage, "model": self.model_name, "quoted": draft is None})

    async def _draft(
        self, inner: Completer, request: str, call: FunctionCall | None, result: LLMMessage
    ) -> tuple[str | None, Usage]:
        """The model's own sentence about one short value, or None where it is not faithful to it."""
        value = result.text.strip()
        if len(request) > inner.n_ctx:
            return None, Usage()
        prompt = (
            "Question: How many books are on the shelf?\nResult: 42\nAnswer: There are 42 books on the shelf.\n\n"
            "Question: What is the area of a circle with radius 3?\nResult: 28.27\n"
            "Answer: The area of a circle with radius 3 is 28.27.\n\n"
            f"Question: {' '.join(request.split())}\nResult: {value}\nAnswer:"
        )
        done = await inner.complete(prompt, max_tokens=60, stop=["\n"])
        draft = done.text.strip()
        return (draft if not done.cut_off and faithful(draft, value, request) else None), done.usage

    async def _chat(self, request: ModelRequest, before: Usage | None = None) -> AsyncGenerator[Event | LLMResponse]:
        """A plain answer of the inner model; `before` was already spent on this turn."""
        items = self._until_stuck(request) if isinstance(self.inner, Completer) else self._items(request)
        async with aclosing(items):
            async for item in items:
                if isinstance(item, LLMResponse) and before:
                    yield replace(item, metadata={**(item.metadata or {}), "usage": before + item.usage})
                else:
                    yield item

    async def _items(self, request: ModelRequest) -> AsyncGenerator[Event | LLMResponse]:
        """The inner model's plain answer; its stream is closed with this one."""
        stream = self.inner.stream(request)
        try:
            async for item in stream:
                yield item
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    async def _until_stuck(self, request: ModelRequest) -> AsyncGenerator[Event | LLMResponse]:
        """The inner model's answer, ended where it says the same again and again, as small models do."""
        pieces: list[str] = []
        async with aclosing(self._items(request)) as items:
            async for item in items:
                yield item
                if isinstance(item, Retry):
                    pieces.clear()
                elif isinstance(item, Text):
                    pieces.append(item.content)
                    if is_stuck("".join(pieces)):
                        break
            else:
                return
        yield Text(" …")
        # nobody counts the tokens of an answer that was broken off: a piece is one, the prompt is estimated
        usage = Usage(sum(len(message.text) for message in request.messages) // CHARS_PER_TOKEN, len(pieces))
        yield LLMResponse("".join([*pieces, " …"]), None, "stop", {"usage": usage, "model": self.model_name})


def follow_up(messages: Sequence[LLMMessage], functions: Functions) -> tuple[Mapping[str, Any], FunctionCall] | None:
    """The tool called last and that call, where the last message names but another argument for it: "And by island?"

    Each of its words besides `CONTINUING` must be one of the tool's parameters or of the values these can take, or a
    number where one is taken.
    """
    calls = [call for message in messages for call in message.tool_calls or ()]
    tool = next((function for function in functions if calls and function["name"] == calls[-1].name), None)
    if tool is None:
        return None
    request = messages[-1].text
    shapes = properties(tool)
    values = [str(value) for schema in shapes.values() for value in schema.get("enum") or ()]
    known = set(words(" ".join([*shapes, *values])))
    said = [part for part in re.findall(r"[^\W_]+", request.lower()) if part not in CONTINUING]
    own = [part for part in said if part.isdigit() or set(words(part)) & known]
    changed = narrow(request, _without_required(tool))["properties"]
    return (tool, calls[-1]) if said and own == said and changed else None


def _without_required(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {**tool, "parameters": {**(tool.get("parameters") or {}), "required": []}}


def checked_call(tool: Mapping[str, Any], arguments: Any) -> FunctionCall | None:
    """A call, if the arguments are an object that fits the tool's schema."""
    import jsonschema

    if not isinstance(arguments, dict):
        return None
    schema = {"type": "object", **(tool.get("parameters") or {})}
    cls = jsonschema.validators.validator_for(schema)
    if any(cls(schema).iter_errors(arguments)):
        return None
    return FunctionCall(tool["name"], arguments, f"call_{uuid.uuid4().hex[:12]}")


def _repeats_a_text(arguments: dict[str, Any]) -> bool:
    """Whether two arguments are the same piece of the request: then the request was about something else."""
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return len(set(texts)) < len(texts)


def _json_object(text: str) -> Any:
    """The first JSON object in a text, in or out of a code block; None where there is none."""
    start = text.find("{")
    if start < 0:
        return None
    try:
        return json.JSONDecoder().raw_decode(text[start:])[0]
    except ValueError:
        return None


def plain(messages: Sequence[LLMMessage]) -> list[LLMMessage]:
    """The conversation in roles that every chat template knows, without traces of tool calls, which a model would copy.

    A result that an answer follows is in that answer; one that was never answered becomes a sentence of the user's.
    """
    said: list[LLMMessage] = []
    for index, message in enumerate(messages):
        if message.role == "tool":
            later = next((m for m in messages[index:] if m.role == "user" or (m.role == "assistant" and m.text)), None)
            if later is None or later.role == "user":
                text = f"The result of {message.name or 'the function'} is: {message.text}"
                said.append(LLMMessage("user", _with_images(text, message)))
        elif message.text or not message.tool_calls:
            text = without_call(message.text) if message.role == "assistant" else message.text
            said.append(LLMMessage(message.role, _with_images(text, message)))
    return said


def _with_images(text: str, message: LLMMessage) -> Content:
    """A text and, after it, the images of the message that it stands for."""
    if isinstance(message.content, str) or not has_image(message.content):
        return text
    return [{"type": "text", "text": text}, *(part for part in message.content if part.get("type") == "image")]


def without_tool_turns(messages: Sequence[LLMMessage]) -> list[LLMMessage]:
    """The conversation without the earlier turns that a tool answered: a small model copies the form of such answers.

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
    """The system message and as many of the last whole turns as fit; the last turn always stays."""
    system = [message for message in messages if message.role == "system"]
    others = [message for message in messages if message.role != "system"]
    starts = [i for i, message in enumerate(others) if message.opens_turn] or [0]
    room = n_tokens * CHARS_PER_TOKEN - sum(len(message.text) for message in system)
    for start in starts:
        if sum(len(message.text) + 2 * CHARS_PER_TOKEN * 4 for message in others[start:]) <= room:
            return [*system, *others[start:]]
    return [*system, *others[starts[-1] :]]

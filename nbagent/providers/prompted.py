"""Tools for models that can't call them: `PromptedProvider` wraps such a provider, the agent decides when.

With a provider that can decode under a JSON schema (`complete`, as the embedded model's), the tool is chosen and its
arguments are narrowed by `narrowing`, and the model only picks among what the request can mean. With any other, the
tools are described in the prompt and a JSON object is asked for. Either way arguments are checked against the tool's
schema before a call is made; what does not fit is no call. One call a request; then the answer is made from its result.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from nbagent.core.events import Event, Http, Text
from nbagent.core.messages import FunctionCall, LLMMessage, LLMResponse, Usage
from nbagent.providers.answers import faithful, is_short, quote, without_call
from nbagent.providers.base import Functions, LLMProvider, StreamingProvider
from nbagent.providers.narrowing import narrow, shortlist, signature

#: Tokens for the arguments of one call.
MOST_ARGUMENT_TOKENS = 256
#: Tokens of an answer, unless `max_tokens` is given: a small model tends to ramble.
MOST_ANSWER_TOKENS = 300
#: A rough but safe estimate for English text.
CHARS_PER_TOKEN = 3

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


class PromptedProvider(StreamingProvider):
    """An `inner` provider without tool calling, made to call tools by prompting."""

    def __init__(self, inner: LLMProvider) -> None:
        self.inner = inner
        self.vendor = inner.vendor

    @property
    def model_name(self) -> str:
        """The inner model's name."""
        return self.inner.model_name

    def supports_function_calling(self) -> bool:
        """True: that is what this class adds."""
        return True

    async def aclose(self) -> None:
        """Close the inner provider."""
        await self.inner.aclose()

    async def stream(
        self,
        messages: list[LLMMessage],
        functions: Functions | None = None,
        temperature: float | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Event | LLMResponse]:
        """A tool call, an answer from tool results, or a plain answer, by what the last message is."""
        last = messages[-1].role if messages else ""
        if last == "tool" and isinstance(self.inner, Completer):
            steps = self._answer(self.inner, messages)
        elif functions and last == "user":
            steps = self._call_or_chat(messages, functions, temperature, kwargs)
        else:
            steps = self._chat(messages, temperature, kwargs)
        try:
            async for item in steps:
                yield item
        finally:
            await steps.aclose()

    async def _call_or_chat(
        self, messages: list[LLMMessage], functions: Functions, temperature: float | None, kwargs: dict[str, Any]
    ) -> AsyncGenerator[Event | LLMResponse]:
        if isinstance(self.inner, Completer):
            tool = shortlist(messages[-1].text, functions)
            if tool is not None and (word := self.inner.waiting()):
                yield Http(word)
            call, usage = await self._constrained(self.inner, messages[-1].text, tool) if tool else (None, Usage())
        else:
            call, usage = await self._asked(messages, functions, kwargs)
        if call is None:
            async for item in self._chat(messages, temperature, kwargs, usage):
                yield item
            return
        yield LLMResponse("", [call], "tool_calls", {"usage": usage, "model": self.model_name})

    async def _constrained(
        self, inner: Completer, request: str, tool: Mapping[str, Any]
    ) -> tuple[FunctionCall | None, Usage]:
        """A call whose arguments the model chose among what the request can mean."""
        schema = narrow(request, tool)
        head = f"{EXAMPLES}{signature(tool, list(schema['properties']))}# Request: "
        room = (inner.n_ctx - MOST_ARGUMENT_TOKENS) * CHARS_PER_TOKEN - len(head)
        if room < len(request):
            return None, Usage()
        if not schema["properties"]:
            return checked_call(tool, {}), Usage()
        one_line = " ".join(request.split())
        done = await inner.complete(f"{head}{one_line}\n# Arguments: ", schema=schema, max_tokens=MOST_ARGUMENT_TOKENS)
        arguments = None if done.cut_off else _json_object(done.text)
        if isinstance(arguments, dict) and _repeats_a_text(arguments):
            arguments = None
        return checked_call(tool, arguments), done.usage

    async def _asked(
        self, messages: list[LLMMessage], functions: Functions, kwargs: dict[str, Any]
    ) -> tuple[FunctionCall | None, Usage]:
        """A call that the model wrote as JSON because the prompt asked for it."""
        listed = "\n".join(json.dumps(dict(function), ensure_ascii=False) for function in functions)
        ask = LLMMessage(
            "system",
            f"You can call one of these functions:\n{listed}\n"
            'If one is needed, reply with nothing but {"name": <function>, "arguments": {<arguments>}}. '
            'If none is needed, reply with nothing but {"name": null}.',
        )
        reply = await self.inner.chat([ask, *plain(messages)], None, 0.0, **kwargs)
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
        request = next((message.text for message in reversed(messages[:start]) if message.role == "user"), "")
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

    async def _chat(
        self, messages: list[LLMMessage], temperature: float | None, kwargs: dict[str, Any], before: Usage | None = None
    ) -> AsyncGenerator[Event | LLMResponse]:
        """A plain answer of the inner model; `before` was already spent on this turn."""
        messages = plain(messages)
        if isinstance(self.inner, Completer):
            kwargs = {"max_tokens": MOST_ANSWER_TOKENS, **kwargs}
            messages = fit(messages, self.inner.n_ctx - kwargs["max_tokens"])
        async for item in self.inner.stream(messages, None, temperature, **kwargs):
            if isinstance(item, LLMResponse) and before:
                yield replace(item, metadata={**(item.metadata or {}), "usage": before + item.usage})
            else:
                yield item


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
                said.append(LLMMessage("user", f"The result of {message.name or 'the function'} is: {message.text}"))
        elif message.text or not message.tool_calls:
            text = without_call(message.text) if message.role == "assistant" else message.text
            said.append(LLMMessage(message.role, text))
    return said


def fit(messages: Sequence[LLMMessage], n_tokens: int) -> list[LLMMessage]:
    """The system message and as many of the last whole turns as fit; the last turn always stays."""
    system = [message for message in messages if message.role == "system"]
    others = [message for message in messages if message.role != "system"]
    starts = [i for i, message in enumerate(others) if message.role == "user"] or [0]
    room = n_tokens * CHARS_PER_TOKEN - sum(len(message.text) for message in system)
    for start in starts:
        if sum(len(message.text) + 2 * CHARS_PER_TOKEN * 4 for message in others[start:]) <= room:
            return [*system, *others[start:]]
    return [*system, *others[starts[-1] :]]

"""Runs of a scripted agent as OpenAI's API has them, checked against the official SDK's own types."""

from openai import BaseModel
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from nbagent import Agent, ScriptedProvider
from nbagent.server.routes.openai.chat_completions import ChatAnswer
from nbagent.server.routes.openai.responses_answer import ResponseAnswer
from nbagent.server.routes.openai.writing import settled

#: Fields that clients know and the SDK has no type for.
KNOWN_EXTRAS = {"reasoning_content", "cost"}


def _known(value, path=""):
    """The value. Fails if the SDK does not know one of its fields."""
    if isinstance(value, BaseModel):
        assert set(value.model_extra or ()) <= KNOWN_EXTRAS, (path, type(value), value.model_extra)
        for name in value.model_fields_set:
            _known(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _known(item, f"{path}[{index}]")
    return value


def _checking(kind):
    adapter = TypeAdapter(kind)
    return lambda data: _known(adapter.validate_python(data, strict=True))


checked_completion = _checking(ChatCompletion)
checked_chunk = _checking(ChatCompletionChunk)
checked_response = _checking(Response)
#: Fields of a streamed response.
checked_event = _checking(ResponseStreamEvent)


async def events_of(turns, tools=(), **options):
    provider = turns if not isinstance(turns, list) else ScriptedProvider(turns)
    stream = Agent(provider, tools=list(tools)).chat_stream("Hello", raise_errors=False, **options)
    return [event async for event in stream]


def chunks_of(events, **options):
    answer = ChatAnswer("nbagent", **options)
    return [checked_chunk(chunk) for event in events for chunk in answer.feed(event)]


def completion_of(events):
    answer = ChatAnswer("nbagent")
    for event in settled(events):
        list(answer.feed(event))
    return checked_completion(answer.whole())


def response_events_of(events, echo=None, **options):
    answer = ResponseAnswer("nbagent", echo or {}, "conv_1", **options)
    made = [each for event in events for each in answer.feed(event)]
    checked_response(answer.whole())
    return [checked_event(event) for event in made]

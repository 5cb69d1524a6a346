"""For decoding tests: a response whose body arrives in given pieces, and a codec that decodes it."""

from collections.abc import Iterable
from pathlib import Path

from nbagent.core.events import Event, Text, Thinking
from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.providers.formats.codec import Codec
from nbagent.providers.http.response import Body, read_events

SAMPLES = Path(__file__).parents[1] / "providers" / "formats" / "streams"


class Pieces:
    """A response whose body arrives as `pieces`."""

    status_code = 200

    def __init__(self, pieces: Iterable[bytes]):
        self.headers = {}
        self.stream = self._each(pieces)

    async def _each(self, pieces):
        for piece in pieces:
            yield piece


async def decode(codec: Codec, pieces: Iterable[bytes]) -> tuple[LLMResponse, list[Event]]:
    """The answer in `pieces`, and the events before it."""
    decoder, shown = codec.decoder(), []
    async for together in read_events(Pieces(pieces)):
        if isinstance(together, Body):
            return codec.decode_body(together), []
        for event in together:
            shown += decoder.feed(event)
            if decoder.done:
                return codec.finish(decoder), shown
    return codec.finish(decoder), shown


def text_of(events: list[Event]) -> str:
    return "".join(event.content for event in events if isinstance(event, Text))


def thinking_of(events: list[Event]) -> str:
    return "".join(event.content for event in events if isinstance(event, Thinking))


def as_message(response: LLMResponse) -> LLMMessage:
    """An answer as the agent keeps it."""
    return LLMMessage(
        "assistant", response.content, tool_calls=response.function_calls, provider_extras=response.raw_response
    )

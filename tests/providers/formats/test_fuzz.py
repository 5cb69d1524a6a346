"""Streams that are cut, reframed and garbled at random: the same answer, or an error of nbagent's own."""

import json
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from support.decoding import SAMPLES, Pieces

from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.errors import ProviderError
from nbagent.providers import create_provider

VENDORS = {"chat": "open_source", "messages": "claude", "responses": "openai", "gemini": "gemini"}
BODIES = {path.stem: path.read_bytes() for path in sorted(SAMPLES.glob("*.sse"))}
#: What may stand between two events, to be ignored.
FILLERS = [b": comment\n\n", b":\n\n", b"\n\n", b"event: ping\n\n", b"id: 7\nretry: 100\n\n", b"event:\n"]
ODD_VALUES = [None, "", "x", 0, -1, 2.5, float("inf"), True, [], {}, ["x"], [None], {"a": 1}, [[]], "\ud800"]


class Given:
    """A transport that has its answer already."""

    def __init__(self, pieces):
        self.pieces = pieces

    async def open(self, target, body):
        response = Pieces(self.pieces)
        response.aclose = lambda: _nothing()
        return response


async def _nothing():
    pass


async def read(sample, pieces) -> LLMResponse | ProviderError:
    """The outcome of a body: what the vendor's provider makes of it."""
    vendor = VENDORS[sample.partition("_")[0]]
    options = {"api": "responses"} if vendor == "openai" else {}
    provider = create_provider(vendor, api_key="k", model="gpt-5", max_retries=0, client=None, **options)
    provider._transport = Given(pieces)
    try:
        return await provider.chat([LLMMessage("user", "Hello.")])
    except ProviderError as exc:
        return exc


def without_ids(outcome):
    """An outcome without the ids that are new each time."""
    if isinstance(outcome, ProviderError):
        return type(outcome), str(outcome)
    return re.sub(r"(call_)[0-9a-f]{24}", r"\1", repr(outcome))


#: An example reads whole streams: fewer of them tell as much.
MOST = settings(max_examples=min(settings().max_examples, 400))


@st.composite
def cut(draw, body):
    """The body in pieces."""
    places = sorted(draw(st.lists(st.integers(0, len(body)), max_size=12)))
    return [body[start:end] for start, end in zip([0, *places], [*places, len(body)], strict=True)]


@st.composite
def reframed(draw):
    """A sample with the same events in another frame, in pieces."""
    sample = draw(st.sampled_from(sorted(BODIES)))
    events = re.split(rb"(?<=\n\n)", BODIES[sample].replace(b"\r\n", b"\n"))
    fillers = draw(st.lists(st.sampled_from([b"", *FILLERS]), min_size=len(events), max_size=len(events)))
    body = b"".join(filler + event for filler, event in zip(fillers, events, strict=True))
    body = body.replace(b"\n", draw(st.sampled_from([b"\n", b"\r\n", b"\r"])))
    if draw(st.booleans()):
        body = body.replace(b"data: ", b"data:")
    return sample, draw(cut(body))


@MOST
@given(reframed())
async def test_another_frame_changes_nothing(framed):
    sample, pieces = framed
    assert without_ids(await read(sample, pieces)) == without_ids(await read(sample, [BODIES[sample]]))


@st.composite
def shuffled(draw):
    """A sample with events dropped, doubled and moved, in pieces."""
    sample = draw(st.sampled_from(sorted(BODIES)))
    events = [event for event in re.split(rb"(?<=\n\n)", BODIES[sample]) if event]
    chosen = draw(st.lists(st.sampled_from(range(len(events))), max_size=2 * len(events)))
    kept = chosen if draw(st.booleans()) else [n for n in range(len(events)) if n not in chosen]
    return sample, draw(cut(b"".join(events[n] for n in kept)))


@MOST
@given(shuffled())
async def test_events_lost_doubled_or_moved(given_):
    sample, pieces = given_
    assert isinstance(await read(sample, pieces), LLMResponse | ProviderError)


def places_in(value, path=()):
    """The paths to all values inside a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places_in(item, (*path, key))


def changed(value, path, new):
    """The value with one inner value replaced, or removed if the new one is `...`."""
    if not path:
        return None if new is ... else new
    copy = dict(value) if isinstance(value, dict) else list(value)
    if len(path) == 1 and new is ...:
        del copy[path[0]]
    else:
        copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


@st.composite
def garbled(draw):
    """A sample in which some values are replaced or removed."""
    sample = draw(st.sampled_from(sorted(BODIES)))
    lines = BODIES[sample].splitlines(keepends=True)
    data = [n for n, line in enumerate(lines) if re.match(rb"data: ?\{", line)]
    for number in draw(st.lists(st.sampled_from(data), min_size=1, max_size=3, unique=True)):
        event = json.loads(lines[number][5:])
        path = draw(st.sampled_from(list(places_in(event))))
        event = changed(event, path, draw(st.sampled_from([..., *ODD_VALUES])))
        lines[number] = b"data: " + json.dumps(event).encode() + b"\n"
    return sample, draw(cut(b"".join(lines)))


@MOST
@given(garbled())
async def test_values_of_other_kinds(given_):
    sample, pieces = given_
    outcome = await read(sample, pieces)
    assert isinstance(outcome, LLMResponse | ProviderError)
    if isinstance(outcome, LLMResponse):
        assert isinstance(outcome.content, str)
        assert all(isinstance(call.arguments, dict) for call in outcome.function_calls or [])
        assert outcome.usage.total_tokens >= 0


@MOST
@given(st.sampled_from(sorted(BODIES)), st.binary(max_size=300), st.booleans())
async def test_any_bytes(sample, noise, framed):
    body = b"data: " + noise + b"\n\n" if framed else noise
    assert isinstance(await read(sample, [body]), LLMResponse | ProviderError)

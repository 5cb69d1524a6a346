"""A key that a server repeats in a good answer is kept nowhere, and nothing else in an answer is changed."""

import pytest
from support.loopback import Answer, claude_said, gemini_said, responses_said, said, sse
from support.repeated_keys import KEY, PLACES
from support.secret_forms import assert_clean, everything

import nbagent
from nbagent import Agent, Trace


async def kept(agent, folder):
    """Everything that is shown and kept of an answer."""
    events = []
    with nbagent.record(folder / "recording.jsonl") as recording:
        events += [event async for event in agent.chat_stream("hi", max_iterations=1)]
    assert recording.path.read_text()
    agent.save(folder / "talk.json")
    files = [path.read_text() for path in folder.iterdir()]
    pieces = "".join(event.content for event in events)
    return "\n".join([pieces, str(events), repr(agent.conversation_history), everything(agent.trace), *files])


@pytest.mark.parametrize("place", PLACES)
async def test_a_key_in_a_good_answer(loopback, connect, tmp_path, place):
    loopback.answers = [Answer(PLACES[place](KEY))]
    agent = Agent(connect(api_key=KEY), trace=Trace(record_http=True))
    text = await kept(agent, tmp_path)
    assert agent.trace.runs["status"].iloc[0] in ("ok", "limit")
    assert "$OPEN_SOURCE_API_KEY" in text
    assert_clean(text, KEY)


@pytest.mark.parametrize(
    ("vendor", "answer", "options"),
    [
        ("claude", claude_said, {}),
        ("gemini", gemini_said, {}),
        ("openai", responses_said, {"api": "responses"}),
        ("openai", lambda text: sse(said(text)), {}),
    ],
)
async def test_each_format(loopback, connect, tmp_path, vendor, answer, options):
    loopback.answers = [Answer(answer(f"It is {KEY}."))]
    agent = Agent(connect(vendor, api_key=KEY, **options))
    text = await kept(agent, tmp_path)
    assert agent.conversation_history[-1].content.startswith("It is $")
    assert_clean(text, KEY)


async def test_words_are_no_keys(loopback, connect):
    """Local servers take any key, so users pass words. Answers may hold them, and stay as they are."""
    key = "not-needed"
    text = f"A test of xylophones: {key} is {key}, anything goes."
    loopback.answers = [Answer(sse(*[said(char, None) for char in text], said("")))]
    agent, pieces = Agent(connect(api_key=key)), []
    async for event in agent.chat_stream("hi"):
        pieces += [event.content] if event.type == "text" else []
    assert pieces == list(text)
    assert agent.conversation_history[-1].content == text


async def test_only_what_may_begin_a_key_waits(loopback, connect):
    pieces = ["The ", "mean ", "mass", " is", " 3700", " g;", " sk", "i", " 50%", " &", " \\frac", "."]
    loopback.answers = [Answer(sse(*[said(piece, None) for piece in pieces], said("")))]
    agent, seen = Agent(connect(api_key="sk-proj-0123456789")), []
    async for event in agent.chat_stream("hi"):
        seen += [event.content] if event.type == "text" else []
    assert "".join(seen) == "".join(pieces)
    assert seen[:2] == pieces[:2]
    assert len(seen) >= 10

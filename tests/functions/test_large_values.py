"""Results and arguments of any size need bounded memory, and time proportional to their size."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.chat.transcript import Transcript
from nbagent.core.messages import MAX_ARGUMENT_CHARS
from nbagent.functions.formatting import format_result, short_repr
from tests.support.doubling import grows_with_square

#: Values that hold `n` bytes, or references, or more.
LARGE = {
    "text": lambda n: "x" * n,
    "bytes": lambda n: b"x" * n,
    "texts in a list": lambda n: [["x" * n], "x" * n],
    "lists in a dict": lambda n: {"a": [0] * n, "b": [{"c": "text"}] * n},
    "set": lambda n: set(range(n // 100)),
    "long keys": lambda n: {f"{number}" + "x" * (n // 10): 0 for number in range(10)},
    "array": lambda n: np.zeros(n),
    "array of texts": lambda n: np.array(["x" * 50] * (n // 50), dtype=object),
    "wide frame": lambda n: pd.DataFrame(np.zeros((1, n // 1_000))),
    "exception": lambda n: ValueError("x" * (n // 10)),
}


async def use(value):
    """Let a tool return a value, and look at all that a notebook shows of it."""

    def tool() -> object:
        """Return it."""
        if isinstance(value, Exception):
            raise value
        return value

    agent = Agent(ScriptedProvider([FunctionCall("tool", {}, "c"), "ok"]), tools=[tool])
    transcript = Transcript()
    async for event in agent.chat_stream("go"):
        transcript.feed(event)
        if event.type == "tool_result":
            sent = event.content
    assert len(sent) < 25_000
    calls, trace = agent.trace.tool_calls, agent.trace
    shown = [repr(calls), calls._repr_html_(), str(trace.transcript()), trace._repr_html_(), transcript.html()]
    assert len("".join(shown)) < 200_000


@pytest.mark.full
@pytest.mark.parametrize("name", LARGE)
async def test_the_memory_for_a_large_result(name):
    await use(LARGE[name](1))  # loads its modules
    value = LARGE[name](30_000_000)
    tracemalloc.start()
    try:
        await use(value)
        # both exceed the trace's memory; pickle copies an array or a text once to write it to the file
        kept = {"array": 8, "texts in a list": 1}.get(name, 0) * 30_000_000
        assert tracemalloc.get_traced_memory()[1] < 13_000_000 + 1.2 * kept
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", LARGE)
def test_the_time_for_a_large_result(name):
    function = short_repr if name == "text" else format_result
    assert not grows_with_square(lambda text: function(LARGE[name](10 * len(text))), "x" * 20_000)


@pytest.mark.parametrize("longest", ["x" * (MAX_ARGUMENT_CHARS // 2), [1] * (MAX_ARGUMENT_CHARS // 4)], ids=type)
async def test_the_longest_arguments(longest):
    def tool(a: list | str) -> int:
        """Take it."""
        return 1

    agent = Agent(ScriptedProvider([FunctionCall("tool", {"a": longest}, "c"), "ok"]), tools=[tool])
    assert (await agent.chat("go")).function_calls[0]["result"] == "1"
    assert len(repr(agent.trace.tool_calls)) + len(agent.trace._repr_html_()) < 200_000

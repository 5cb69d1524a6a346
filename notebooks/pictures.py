"""Draws the README's pictures of a trace, of a short scripted run: python notebooks/pictures.py

The explorer's are screenshots of JupyterLab: `make pictures` makes both.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from nbagent import Agent, FunctionCall, FunctionRegistry, LLMResponse, Trace, Usage
from nbagent.core.events import Text, Thinking
from nbagent.providers.base import StreamingProvider

IMAGES = Path(__file__).with_name("images")


class Paced(StreamingProvider):
    """Says its turns at the pace of a large model: waits, thinks, and then speaks."""

    vendor, model_name = "claude", "claude-sonnet-5"

    def __init__(self, turns):
        self._turns = iter(turns)

    def supports_function_calling(self):
        return True

    async def stream(self, request):
        response = next(self._turns)
        await asyncio.sleep(0.35)
        if thinking := response.metadata.get("thinking"):
            yield Thinking(thinking)
            await asyncio.sleep(0.5)
        for word in (response.content or "I call a tool").split():
            await asyncio.sleep(0.04)
            yield Text(f"{word} " if response.content else "")
        yield response


async def mean_by(column: str, group: str) -> dict:
    """Mean of a column for each value of a group."""
    await asyncio.sleep(0.4 if group == "species" else 0.3)
    return {"Adelie": 3700.7, "Chinstrap": 3733.1, "Gentoo": 5076.0}


async def count_by(group: str) -> dict:
    """Rows for each value of a group."""
    await asyncio.sleep(0.55)
    return {"island": {"Biscoe": 168, "Dream": 124, "Torgersen": 52}}[group]


async def drop_rows(condition: str) -> str:
    """Delete rows."""
    await asyncio.sleep(0.2)
    return "11 rows are gone."


def turn(text: str, *calls: FunctionCall, thinking: str = "", cached: int = 0, sent: int = 900) -> LLMResponse:
    """One answer of the model."""
    facts = {"usage": Usage(sent, 20 + 4 * len(text), cached), "thinking": thinking}
    return LLMResponse(text, list(calls) or None, "tool_calls" if calls else "stop", facts)


async def traced() -> Trace:
    """Two questions with tools side by side, one that fails, and one that a person has to allow."""

    async def approve(call, definition):
        await asyncio.sleep(0.6)
        return True

    registry = FunctionRegistry()
    for function in (mean_by, count_by):
        registry.register(function.__name__, function.__doc__, function)
    registry.register("drop_rows", drop_rows.__doc__, drop_rows, approve=True)
    mass = FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"}, "a")
    bill = FunctionCall("mean_by", {"column": "bill_length_mm", "group": "sex"}, "b")
    colour, island = (FunctionCall("count_by", {"group": group}, group) for group in ("colour", "island"))
    drop = FunctionCall("drop_rows", {"condition": "sex.isna()"}, "c")
    turns = [
        turn("", mass, bill, colour, thinking="Mass by species, bills by sex, and how many there are."),
        turn("Gentoo penguins are heaviest, on average 1,343 g more than Chinstrap.", sent=1400, cached=900),
        turn("", drop, sent=1600, cached=1400),
        turn("", island, sent=1700, cached=1600),
        turn("Done: 11 of 344 rows are gone, most of them on Biscoe.", sent=1900, cached=1700),
        turn("You are welcome.", sent=2000, cached=1900),
    ]
    agent = Agent(Paced(turns), registry, approve=approve)
    for question in ("Which species is heaviest?", "Drop the rows without a sex.", "Thanks!"):
        await agent.chat(question)
    return agent.trace


def main() -> None:
    """Draw when it happened and what it used."""
    trace = asyncio.run(traced())
    for name, ax in (("trace-timeline", trace.timeline()), ("trace-usage", trace.plot_usage())):
        ax.figure.savefig(IMAGES / f"{name}.png", dpi=90)


if __name__ == "__main__":
    main()

"""Makes the README's film of a notebook in JupyterLab, and draws a trace. In both a script plays the model.

The other pictures are screenshots that tests take: `make pictures` makes all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from PIL import Image
from playwright.sync_api import Page
from support.lab import Lab

from nbagent import Agent, FunctionCall, FunctionRegistry, LLMResponse, Trace, Usage
from nbagent.core.events import Text, Thinking
from nbagent.providers.base import StreamingProvider

IMAGES = Path(__file__).with_name("images")


class Paced(StreamingProvider):
    """Says its turns at the pace of a large model: waits, thinks, and then speaks."""

    provider_name, model_name = "claude", "claude-sonnet-5"

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


#: Not in the film: what plays the model.
BEFORE = f"""%load_ext nbagent
import asyncio
import pandas as pd
from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Usage, live, tool

penguins = pd.read_csv({str(IMAGES.parent / "data" / "penguins.csv")!r})

class Claude(ScriptedProvider):
    provider_name = "claude"

async def turn(messages, functions):
    await asyncio.sleep(0.7)
    if (said := messages[-1]).role == "tool":
        text = f"A typical Gentoo penguin weighs **{{float(said.text):,.0f}} g**."
        return LLMResponse(text, None, "stop", {{"usage": Usage(540, 14, 420)}})
    call = FunctionCall("typical_mass", {{"species": "Gentoo"}})
    return LLMResponse("", [call], "tool_calls", {{"usage": Usage(420, 21)}})

agent = Agent(Claude(turn, model="claude-sonnet-5", delay=0.02), tools=live)"""
TOOL = """@tool
def typical_mass(species: str) -> float:
    "The body mass of a typical penguin of a species, in grams."
    return penguins[penguins["species"] == species]["body_mass_g"].mean()"""
ASKED = "%%agent\nWhat does a typical Gentoo penguin weigh?"
LOOKED_AT = 'agent.trace.tool_calls[["name", "args", "result_text"]]'
#: Seconds for which a typed character, and the end of a scene, are shown.
KEY_S, SCENE_S = 0.07, 1.8
#: Pixels, of the whole page and of the film.
PAGE, HEIGHT = {"width": 1180, "height": 800}, 430


class Film:
    """Screenshots of the page's notebook, each with the seconds for which it is shown."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.frames: list[tuple[Image.Image, float]] = []
        box = page.locator(".jp-NotebookPanel-notebook").bounding_box()
        self._clip = {**box, "height": HEIGHT}

    def see(self, seconds: float) -> None:
        """The page as it is now."""
        shot = self.page.screenshot(clip=self._clip, caret="initial")
        self.frames.append((Image.open(BytesIO(shot)).convert("RGB"), seconds))

    def type(self, text: str) -> None:
        """Someone types."""
        for at in range(0, len(text), 2):
            self.page.keyboard.insert_text(text[at : at + 2])
            self.see(2 * KEY_S)

    def run(self, is_over: Callable[[], bool]) -> None:
        """The cell with the cursor runs, in real time."""
        self.page.keyboard.press("Control+Enter")
        goes_on = True
        while goes_on:
            goes_on, begun = not is_over(), monotonic()
            self.see(0)
            self.frames[-1] = (self.frames[-1][0], monotonic() - begun)
        self.see(SCENE_S)

    def save(self, path: Path) -> None:
        """Write all frames to a file; it plays for ever."""
        first, *others = (frame for frame, _ in self.frames)
        durations = [round(1000 * seconds) for _, seconds in self.frames]
        first.save(path, append_images=others, save_all=True, duration=durations, loop=0, lossless=True, method=6)


def filmed(lab: Lab) -> Film:
    """Ask, redefine the function, ask again, and look at the trace."""
    page = lab.open("film.ipynb", [BEFORE, TOOL, "", ""])
    page.set_viewport_size(PAGE)
    lab.run_cell(page, 0).get_by_text("[1]:").wait_for()
    lab.command(page, "notebook:delete-cell")
    lab.run_cell(page, 0).get_by_text("[2]:").wait_for()
    cell = page.locator(".jp-Cell").nth
    film = Film(page)

    def enter(index: int) -> None:
        cell(index).locator(".cm-content").click()

    enter(1)
    film.see(SCENE_S)
    film.type(ASKED)
    film.run(lambda: cell(1).get_by_role("button", name="Copy").count() > 0)
    enter(0)
    page.keyboard.press("Control+End")
    for _ in "mean()":
        page.keyboard.press("Backspace")
    film.see(4 * KEY_S)
    film.type("median()")
    film.run(lambda: cell(0).get_by_text("[4]:").count() > 0)
    enter(1)
    film.run(lambda: cell(1).get_by_text("[5]:").count() > 0 and cell(1).get_by_role("button", name="Copy").count() > 0)
    enter(2)
    film.type(LOOKED_AT)
    film.run(lambda: cell(2).locator("table").count() > 0)
    film.see(2 * SCENE_S)
    return film


def main() -> None:
    """Draw when a run happened and what it used, and film the notebook."""
    trace = asyncio.run(traced())  # before Playwright has an event loop on this thread
    for name, ax in (("trace-timeline", trace.timeline()), ("trace-usage", trace.plot_usage())):
        ax.figure.savefig(IMAGES / f"{name}.png", dpi=90)
    with TemporaryDirectory() as folder, Lab(Path(folder)) as lab:
        filmed(lab).save(IMAGES / "film.webp")


if __name__ == "__main__":
    main()

"""A map in real JupyterLab: the preview, the progress bar while rows are asked, and the frame."""

import pytest
from playwright.sync_api import expect
from support.lab import LOAD

pytestmark = pytest.mark.browser

SETUP = f"""{LOAD}
import asyncio
from pathlib import Path
import pandas as pd
from pydantic import BaseModel
from nbagent import Agent, LLMResponse, ScriptedProvider, Usage

class Review(BaseModel):
    positive: bool
    topic: str

reviews = pd.DataFrame({{"text": [
    "The soup was cold.", "Lovely staff, we come again.", "Too loud to talk.", "Best bread in town.",
    "An hour for two coffees.", "Lovely staff, we come again.", "The terrace is a dream.", "Salad without salad.",
]}}, index=pd.Index(range(101, 109), name="review"))

answers = {{"soup": (False, "food"), "staff": (True, "service"), "loud": (False, "room"), "bread": (True, "food"),
           "hour": (False, "service"), "terrace": (True, "room"), "Salad": (False, "food")}}

class Claude(ScriptedProvider):
    vendor = "claude"

async def answer(messages, functions):
    text = messages[-1].text
    await asyncio.sleep(0.4)  # the bar of a map that is done within a second is not shown
    if "terrace" in text:
        while not Path("go_on").exists():
            await asyncio.sleep(0.05)
    positive, topic = next(found for word, found in answers.items() if word in text)
    return LLMResponse(Review(positive=positive, topic=topic).model_dump_json(), None, "stop",
                       {{"usage": Usage(212, 14)}})

agent = Agent(Claude(answer, model="claude-sonnet-5", delay=0.01))"""
QUESTION = 'agent.map(reviews, "What is this review about? {text}", Review, concurrency=1'


def test_the_preview_the_bar_and_the_frame(lab, picture):
    page = lab.run("map.ipynb", [SETUP, f"await {QUESTION}, preview=True)", f"await {QUESTION})"])
    preview, asking = page.locator(".jp-Cell").nth(1), page.locator(".jp-Cell").nth(2)
    expect(preview).to_contain_text("What is this review about? The soup was cold.")
    expect(asking).to_contain_text("5/7")
    asking.scroll_into_view_if_needed()
    picture(page, "map-asking")
    (lab.folder / "go_on").touch()
    expect(asking.get_by_role("row")).to_have_count(10)  # two of the head
    expect(asking).to_contain_text("7/7")
    asking.scroll_into_view_if_needed()
    picture(page, "map-done")

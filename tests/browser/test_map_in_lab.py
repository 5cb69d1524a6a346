"""A map in real JupyterLab: the preview, the progress bar while rows are asked, and the frame."""

import pytest
from playwright.sync_api import expect
from support.lab import LOAD

pytestmark = pytest.mark.browser

SETUP = f"""{LOAD}
import asyncio
from pathlib import Path
import pandas as pd
from nbagent import Agent, ScriptedProvider
reviews = pd.DataFrame({{"text": ["The soup was cold.", "Lovely staff.", "Too loud.", "Lovely staff.", "A dream."]}})
async def answer(messages, functions):
    await asyncio.sleep(0.4)  # the bar of a map that is done within a second is not shown
    while "dream" in messages[-1].text and not Path("go_on").exists():
        await asyncio.sleep(0.05)
    return "soup"
agent = Agent(ScriptedProvider(answer))"""
QUESTION = 'agent.map(reviews, "What is this review about? {text}", concurrency=1'


def test_the_preview_the_bar_and_the_frame(lab):
    page = lab.run("map.ipynb", [SETUP, f"await {QUESTION}, preview=True)", f"await {QUESTION})"])
    preview, asking = page.locator(".jp-Cell").nth(1), page.locator(".jp-Cell").nth(2)
    expect(preview).to_contain_text("What is this review about? The soup was cold.")
    expect(asking).to_contain_text("3/4")
    (lab.folder / "go_on").touch()
    expect(asking.get_by_role("row")).to_have_count(6)  # one of the head
    expect(asking).to_contain_text("4/4")

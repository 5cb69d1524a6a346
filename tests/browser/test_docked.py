"""The panel beside the notebook, in JupyterLab and Notebook 7: it fills its place, and its box is always in sight."""

import pytest
from playwright.sync_api import expect
from support.lab import ask

pytestmark = pytest.mark.browser

SETUP = """%load_ext nbagent
from nbagent import Agent, ScriptedProvider
agent = Agent(ScriptedProvider(lambda messages, tools: "intro line\\n\\n" * 80, model="m"))"""
WIDTH = "document.querySelector('.jp-Notebook').getBoundingClientRect().width"
CELLS = [SETUP, "%agent panel --dock", "'last'"]


def opened(lab, host, name, theme="JupyterLab Light"):
    page = lab.run(name, CELLS, theme, host)
    return page, page.locator(".nbagent-panel:not(.nbagent-away)")


def assert_fills(panel, *, height):
    """The panel has this height, its box is at the bottom, and the conversation scrolls."""
    box, chat = ask(panel, "How?"), panel.locator(".nbagent-chat")
    panel.locator(".nbagent-foot").first.wait_for()
    outer, inner = panel.bounding_box(), box.bounding_box()
    assert outer["height"] > height
    assert outer["y"] + outer["height"] - 80 < inner["y"] < outer["y"] + outer["height"]
    assert chat.bounding_box()["width"] > 0.98 * outer["width"]
    assert chat.evaluate("chat => chat.scrollHeight > chat.clientHeight + 100")
    return outer


@pytest.mark.parametrize("host", ["JupyterLab 4", "Notebook 7"])
def test_a_docked_panel_is_beside_the_notebook_at_full_height(lab, host):
    name = host.split()[0].lower()
    page, panel = opened(lab, host, f"{name}-dock.ipynb")
    expect(page.get_by_role("button", name="Show it here")).to_be_visible()
    outer = assert_fills(panel, height=1000)
    notebook = page.locator(".jp-Notebook").bounding_box()
    assert notebook["x"] + notebook["width"] <= outer["x"] + 1
    assert notebook["width"] > 300
    page.set_viewport_size({"width": 800, "height": 900})
    expect(panel.get_by_label("Your prompt")).to_be_in_viewport()
    page.set_viewport_size({"width": 1280, "height": 1200})
    panel.get_by_role("button", name="Model: m").click()
    panel.get_by_label("Search models").fill("openai:gpt")
    panel.locator(".nbagent-picker-rows button").filter(has_text="gpt").first.click()  # once the kernel has searched
    expect(panel.get_by_label("Key", exact=True)).to_be_visible()
    panel.get_by_label("Key", exact=True).press("Escape")
    panel.get_by_label("Your prompt").press_sequentially("And then")
    page.get_by_role("button", name="Show it here").click()
    expect(panel).to_have_count(1)
    expect(page.locator(".jp-Cell").get_by_label("Your prompt")).to_be_visible()
    expect(panel.get_by_label("Your prompt")).to_have_value("And then")
    assert page.locator(".nbagent-panel").count() == 1
    page.wait_for_function(f"width => {WIDTH} > width + 200", arg=notebook["width"])
    lab.close_others()

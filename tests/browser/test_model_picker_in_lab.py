"""The model picker in JupyterLab: by keyboard, and a key that stays out of the saved notebook."""

import json
import re

import pytest
from playwright.sync_api import expect
from support.lab import BEGIN
from support.loopback import Answer, Loopback, claude_said, served

from nbagent.providers.catalog import with_keys

pytestmark = pytest.mark.browser

KEY = "sk-ant-typed-in-a-browser-0123456789"
#: Saves the notebook with what its front end knows of its widgets, as with *Save Widget State Automatically*.
SAVE = """async () => {
    const { commands } = window.jupyterapp;
    await commands.execute('@jupyter-widgets/jupyterlab-manager:saveWidgetState');
    await commands.execute('docmanager:save');
    await commands.execute('@jupyter-widgets/jupyterlab-manager:saveWidgetState');
}"""


@pytest.fixture
def provider():
    """A server on loopback with Claude's API."""

    with served(Loopback()) as server:
        server.answers = [Answer(claude_said("Here."), headers={"content-type": "text/event-stream"})]
        yield server


def opened(lab, name, provider):
    """The panel, its page, and its open picker."""
    variables = [variable for row in with_keys().values() for variable in row.key_vars]
    setup = f"""{BEGIN}
import os
from nbagent import ChatPanel
for variable in {variables}: os.environ.pop(variable, None)
os.environ["ANTHROPIC_BASE_URL"] = {provider.url!r}
agent.provider = ScriptedProvider(["Once."])"""
    page = lab.run(name, [setup, "ChatPanel(agent)"], fresh=True)
    panel = page.get_by_role("region", name="Chat with an agent")
    panel.get_by_role("button", name="Model: scripted").click()
    picker = panel.get_by_role("dialog", name="Choose a model")
    picker.get_by_role("button", name="glm-5.2, zhipu").wait_for()
    return page, panel, picker


def test_search_enter_a_key_that_is_saved_nowhere_and_the_dates_of_a_list(lab, provider):
    page, panel, picker = opened(lab, "picker.ipynb", provider)
    said = "claude-sonnet-5, claude, no key, Context 1M, Images ✓, Thinks ✓"
    expect(picker.get_by_label("Search models")).to_be_focused()
    page.keyboard.type("sonnet-5 anthropic")
    rows = picker.locator(".nbagent-picker-rows button")
    expect(rows.first).to_have_accessible_name(said)
    page.keyboard.press("ArrowDown")
    expect(rows.first).to_be_focused()
    page.keyboard.press("Enter")
    field = picker.get_by_label("Key", exact=True)
    expect(field).to_be_focused()
    assert field.get_attribute("type") == "password"
    page.keyboard.type(KEY)
    assert KEY not in saved(lab, page, "picker.ipynb"), "what is being typed"
    page.keyboard.press("Enter")
    panel.get_by_role("button", name="Model: claude-sonnet-5").wait_for()
    expect(panel.get_by_label("Your prompt")).to_be_focused()
    page.keyboard.type("Where?")
    page.keyboard.press("Enter")
    panel.get_by_role("log").get_by_text("Here.").wait_for()
    assert provider.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    made = {"claude-old": "2024-03-07T00:00:00Z", "claude-new": "2026-05-01T00:00:00Z"}
    listing = {"data": [{"id": name, "created_at": date} for name, date in made.items()]}
    provider.answers = [Answer(json.dumps(listing).encode())]
    panel.get_by_role("button", name="Model: claude-sonnet-5").click()
    picker.get_by_role("button", name="Ask claude for its list").click()
    expect(picker.get_by_role("status")).to_have_text("claude lists 2 models.")
    picker.get_by_label("Search models").fill("claude")
    expect(rows.nth(1)).to_have_accessible_name("claude-new, claude, Date 2026-05-01")
    expect(rows.nth(2)).to_have_accessible_name(re.compile("^claude-old, claude, Date 2024-03-07"))
    page.keyboard.press("Control+A")
    page.keyboard.type("smol")
    local = "SmolLM2-135M-Instruct, 98 MB of weights, local, Images no, Thinks no"
    expect(rows.first).to_have_accessible_name(local)
    notebook = saved(lab, page, "picker.ipynb")
    assert "Here." in notebook
    assert "AnyModel" in notebook, "the states of widgets are saved, too"
    assert KEY not in notebook


def saved(lab, page, name):
    """The notebook as saved, with the state of its widgets."""
    page.evaluate(SAVE)
    return (lab.folder / name).read_text()

"""nbagent as a persona of Jupyter AI, in an environment of its own."""

import pytest
from playwright.sync_api import expect
from support.lab import Lab, python_in

pytestmark = pytest.mark.browser

APP = """
from nbagent import Agent, FunctionCall, ScriptedProvider

def turn(messages, functions):
    asked = [message.text for message in messages if message.role == "user"]
    if "remove" in asked[-1] and messages[-1].role == "user":
        return FunctionCall("remove", {"path": "a.txt"})
    return f"This is question {len(asked)}. {messages[-1].text}"

agent = Agent(ScriptedProvider(turn))
agent.function_registry.register("remove", "", lambda path: f"{path} is gone", approve=True)
"""


def asks(lab, text, answer, allows=""):
    page = lab.visit("lab/tree/talk.chat")
    page.get_by_text("nbagent", exact=True).first.wait_for()
    box = page.locator(".jp-chat-input-textfield textarea").first
    box.fill(text)
    box.press("Enter")
    if allows:
        page.get_by_role("button", name=allows, exact=True).click()
    expect(page.get_by_text(answer)).to_be_visible()
    return page


def test_a_chat_of_jupyter_ai_goes_on_after_a_restart(tmp_path):
    folder = tmp_path / "lab"
    folder.mkdir()
    (tmp_path / "app.py").write_text(APP)
    (folder / "talk.chat").write_text("{}")
    env = {"NBAGENT_AGENT": f"{tmp_path}/app.py:agent", "XDG_DATA_HOME": str(tmp_path / "data"), "JUPYTER_PATH": ""}
    with Lab(folder, python=python_in(".venv-jupyter-ai"), **env) as lab:
        asks(lab, "remove it", "This is question 1. a.txt is gone", allows="Allow")
    with Lab(folder, python=python_in(".venv-jupyter-ai"), **env) as lab:
        page = asks(lab, "and now?", "This is question 2.")
        expect(page.get_by_text("This is question 1.")).to_have_count(1)

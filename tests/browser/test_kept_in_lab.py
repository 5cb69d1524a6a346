"""A notebook that is saved, closed and opened again in real JupyterLab: its conversation is there, with and without a
kernel, and goes on."""

import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import expect
from support.lab import REPLACE

pytestmark = pytest.mark.browser

SETUP = '''%load_ext nbagent
%agent keep
from nbagent import Agent, ChatPanel, FunctionCall, ScriptedProvider, tool
@tool
def mean_by(group: str) -> dict:
    """Mean of each group."""
    return {"Adelie": 3700.7, "Gentoo": 5076.0}
def answer(messages, tools):
    if messages[-1].role == "user" and "mean" in messages[-1].text:
        return FunctionCall("mean_by", {"group": "species"}, "c")
    return "**Gentoo** are heaviest." if messages[-1].role == "tool" else f"You asked: *{messages[-1].text}*"
agent.provider = ScriptedProvider(answer, model="claude-sonnet-5")'''
PANEL = "ChatPanel(agent, height='300px')"
NO_WIDGET = ("Loading widget", "Error displaying widget", "model not found")
SAVED = ".nbagent-saved"
#: Where questions and answers end at the right.
RIGHT_ENDS = """[...document.querySelectorAll('.nbagent-saved > .nbagent')]
    .map(each => Math.round(each.getBoundingClientRect().right))"""
SHUT_DOWN = "window.jupyterapp.shell.currentWidget.sessionContext.shutdown()"


def asks(page, text):
    box = page.locator(".nbagent-row textarea").first
    box.press_sequentially(text, delay=20)
    box.press("Enter")


def until_saved_output(page, text):
    """Wait until the notebook's model has the text in the panel's output."""
    page.wait_for_function(
        """text => {
            const cells = window.jupyterapp.shell.currentWidget.context.model.toJSON().cells;
            return JSON.stringify(cells[1].outputs.at(-1) ?? "").includes(text);
        }""",
        arg=text,
    )


def save(lab, page):
    lab.command(page, "docmanager:save")
    page.wait_for_function("!window.jupyterapp.shell.currentWidget.context.model.dirty")


def reopen(lab, page, name):
    """Shut the kernel down, close the notebook, and open it again, which starts a new kernel."""
    page.evaluate(SHUT_DOWN)
    page.evaluate(REPLACE, name)
    lab.wait_for_kernel(page)


def shows_the_saved_conversation(page):
    saved = page.locator(SAVED)
    expect(saved).to_be_visible()
    expect(saved).to_contain_text("Gentoo are heaviest.")
    expect(saved).to_contain_text("You asked: and in a cell?")
    expect(saved).to_contain_text("%agent restore")
    for words in NO_WIDGET:
        expect(page.get_by_text(words).filter(visible=True)).to_have_count(0)


def test_the_conversation_is_there_when_the_notebook_is_opened_again(lab):
    page = lab.run("kept.ipynb", [SETUP, PANEL, "%%agent\nand in a cell?"], fresh=True)
    page.get_by_placeholder("Ask anything").first.wait_for()
    page.wait_for_function("document.querySelectorAll('.nbagent-panel .nbagent-foot').length == 1")
    asks(page, "the mean by species?")
    page.wait_for_function("document.querySelectorAll('.nbagent-panel .nbagent-foot').length == 2")
    page.get_by_role("button", name="Retry", exact=True).last.click()
    expect(page.locator(".nbagent-panel").get_by_text("2/2")).to_be_visible()
    expect(page.locator(".nbagent-panel .nbagent-busy")).to_have_count(0)
    until_saved_output(page, "are heaviest")
    assert page.locator(SAVED).is_hidden()  # the live panel shows it
    spent = page.locator(".nbagent-meter").inner_text()
    save(lab, page)

    reopen(lab, page, "kept.ipynb")
    shows_the_saved_conversation(page)
    page.evaluate(SHUT_DOWN)  # and without any kernel
    shows_the_saved_conversation(page)

    (lab.folder / "kept.html").write_text(HTMLExporter().from_filename(lab.folder / "kept.ipynb")[0], "utf-8")
    exported = lab.visit_file(lab.folder / "kept.html")
    shows_the_saved_conversation(exported)
    for width in (1440, 800, 390):
        exported.set_viewport_size({"width": width, "height": 900})
        assert len(set(exported.evaluate(RIGHT_ENDS))) == 1, "questions and answers stand in one column"
        assert exported.evaluate("document.documentElement.scrollWidth") == width
    lab.close_others()

    reopen(lab, page, "kept.ipynb")
    page.evaluate(
        "window.jupyterapp.shell.currentWidget.content.widgets[2].model.sharedModel.setSource('%agent restore')"
    )
    lab.command(page, "notebook:run-all-cells")
    page.get_by_placeholder("Ask anything").first.wait_for()
    expect(page.locator(".jp-Cell").last).to_contain_text("2 prompts from kept.agent.json")
    panel = page.locator(".nbagent-panel")
    expect(panel).to_contain_text("Gentoo are heaviest.")
    expect(panel.locator("summary")).to_contain_text("mean_by")
    expect(panel.locator(".nbagent-meter")).to_have_text(spent)
    assert page.locator(SAVED).is_hidden()
    panel.get_by_role("button", name="Previous version").click()
    expect(panel.get_by_text("1/2")).to_be_visible()
    expect(panel).to_contain_text("Gentoo are heaviest.")
    asks(page, "and now?")
    expect(panel).to_contain_text("You asked: and now?")

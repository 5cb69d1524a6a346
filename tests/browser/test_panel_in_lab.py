"""The chat panel in real JupyterLab: typing, stopping, approving, scrolling, reloading."""

import re

import nbformat
import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

CODE = 'clean = penguins.dropna(subset=["sex"])\nclean.shape'
SETUP = '''%load_ext nbagent
from nbagent import Agent, ChatPanel, FunctionCall, Limits, LLMResponse, ScriptedProvider, live, tool
@tool
def mean_by(column: str, group: str) -> dict:
    """Mean of a column for each value of a group."""
    return {"Adelie": 3700.7, "Chinstrap": 3733.1, "Gentoo": 5076.0}
@tool(approve=True)
def run_code(code: str) -> str:
    """Run code."""
    return "(333, 7)"
clean = FunctionCall("run_code", {"code": 'clean = penguins.dropna(subset=["sex"])\\nclean.shape'}, "b")
def script(*turns, delay=0.01):
    provider = ScriptedProvider(turns, delay=delay, model="claude-sonnet-5")
    return Agent(provider, tools=live, limits=Limits(max_total_tokens=5_000))
'''

#: The message in front of widgets that have lost their kernel.
SIGNS = """all => all.filter(each => each.matches(".jupyter-widgets-disconnected"))
    .map(each => getComputedStyle(each, "::before")).map(sign => sign.display == "none" ? "none" : sign.content)"""


def opened(lab, name, *cells, **options):
    page = lab.open(name, [SETUP, *cells], **options)
    lab.command(page, "notebook:run-all-cells")
    page.get_by_placeholder("Ask anything").first.wait_for()
    return page


def asks(page, text):
    """Type at human speed, then press Enter."""
    box = page.locator(".nbagent-row textarea").first
    box.press_sequentially(text, delay=20)
    box.press("Enter")


def until(page, condition, *arguments):
    page.wait_for_function(condition, arg=list(arguments))


def until_text(page, text):
    until(page, "([text]) => document.querySelector('.nbagent-panel').innerText.includes(text)", text)


def test_keyboard_and_screen_reader(lab):
    page = opened(lab, "keys.ipynb", "agent = script(clean, 'Dropped **11** rows.', 'Again.')\nChatPanel(agent)")
    panel = page.get_by_role("region", name="Chat with an agent")
    box = panel.get_by_label("Your prompt")
    box.press_sequentially("one")
    box.press("Shift+Enter")
    box.press_sequentially("two")
    box.press("Enter")
    panel.get_by_role("alert").get_by_text("run_code asks to run in your kernel").wait_for()
    assert box.input_value() == ""
    assert panel.locator(".nbagent-you").inner_text() == "one\ntwo"
    for role, name in (("button", "Attach files"), ("textbox", "Reason"), ("button", "Deny"), ("button", "Edit")):
        page.keyboard.press("Shift+Tab")
        expect(panel.get_by_role(role, name=name)).to_be_focused()
    page.keyboard.press("Enter")
    expect(panel.get_by_role("textbox", name="code")).to_have_value(CODE)
    expect(panel.get_by_role("textbox", name="code")).to_be_focused()
    page.keyboard.press("Tab")
    expect(panel.get_by_role("button", name="Approve")).to_be_focused()
    page.keyboard.press("Enter")
    expect(box).to_be_focused()
    expect(panel.get_by_role("status")).to_have_text("Dropped 11 rows.")
    panel.get_by_role("button", name="Edit", exact=True).press("Enter")
    expect(box).to_have_value("one\ntwo")
    expect(box).to_be_focused()
    box.press("Enter")
    expect(panel.get_by_role("status")).to_have_text("Again.")
    assert panel.locator(".nbagent-you").count() == 1
    panel.get_by_role("tab", name="Chat").focus()
    page.keyboard.press("ArrowRight")
    expect(panel.get_by_role("tab", name="Trace", selected=True)).to_be_focused()
    expect(panel.get_by_role("tabpanel", name="Trace")).to_be_visible()
    page.keyboard.type("dd")  # the notebook's shortcut to delete a cell
    assert page.locator(".jp-Cell").count() == 2
    page.keyboard.press("ArrowRight")
    expect(panel.get_by_role("tabpanel", name="Setup")).to_be_visible()
    assert not re.findall(r"- (?:button|textbox|combobox|checkbox|tab)\b(?! \").*", panel.aria_snapshot())


def test_a_step_of_the_trace_leads_to_its_turn(lab):
    call = 'FunctionCall("mean_by", {"column": "mass", "group": "sex"}, "a")'
    page = opened(lab, "steps.ipynb", f"agent = script({call}, 'word ' * 400, 'Yes.')\nChatPanel(agent)")
    panel = page.get_by_role("region", name="Chat with an agent")
    for question in ("How heavy?", "Sure?"):
        asks(page, question)
        panel.locator(".nbagent-entry", has_text=question).locator(".nbagent-foot").wait_for()
    first, last = panel.locator(".nbagent-entry").all()
    expect(first.locator(".nbagent-you")).not_to_be_in_viewport()
    panel.get_by_role("tab", name="Trace").click()
    names = panel.locator("[data-turn] > span")
    expect(names).to_have_text(
        ["How heavy?", "claude-sonnet-5", 'mean_by(column="mass", group="sex")', "claude-sonnet-5", "Sure?"]
    )
    panel.get_by_role("button", name="mean_by").focus()
    page.keyboard.press("Enter")
    expect(panel.get_by_role("tabpanel", name="Chat")).to_be_visible()
    expect(first).to_be_focused()
    expect(first.locator(".nbagent-you")).to_be_in_viewport()
    panel.get_by_role("tab", name="Trace").click()
    saves = panel.get_by_role("button", name="Save as notebook")
    for name in ("conversation.ipynb", "conversation-2.ipynb"):
        saves.click()
        expect(panel.get_by_text(f"Saved as {name}", exact=True)).to_be_visible()
        cells = nbformat.read(lab.folder / name, 4).cells
        assert [cell.source for cell in cells if cell.source.startswith("##")] == ["## How heavy?", "## Sure?"]
    panel.locator("[data-turn] b").last.click()
    expect(last).to_be_focused()
    expect(last).to_have_class(re.compile("nbagent-found"))
    expect(last).not_to_have_class(re.compile("nbagent-found"))


WAITING = """
def answer(messages, tools): return "answered"
agent = Agent(ScriptedProvider(answer))
ChatPanel(agent)"""
BUSY = "The kernel is busy with a cell"
FOOTS = "([n]) => document.querySelectorAll('.nbagent-panel .nbagent-foot').length == n"


def test_questions_are_answered_while_a_cell_awaits_and_after_one_that_does_not(lab):
    page = opened(lab, "beside.ipynb", WAITING)
    running = lab.run_new_cell(page, "import asyncio\nawait asyncio.sleep(3600)")
    asks(page, "and meanwhile")
    until(page, FOOTS, 1)
    assert running.inner_text().startswith("[*]")
    lab.command(page, "notebook:interrupt-kernel")
    expect(running).to_contain_text("CancelledError")
    lab.run_new_cell(page, "import time, pathlib\nwhile not pathlib.Path('gate').exists(): time.sleep(0.01)")
    until_text(page, BUSY)
    asks(page, "asked while busy")
    page.locator(".nbagent-row textarea").fill("sent while busy")
    page.get_by_role("button", name="Send").click()
    for question in ("asked while busy", "sent while busy"):
        held = page.locator(".nbagent-inner > .nbagent-said", has_text=question)
        expect(held).to_contain_text("Waiting for the kernel…")
    assert page.locator(".nbagent-row textarea").input_value() == ""
    (lab.folder / "gate").touch()
    until(page, "([text]) => !document.querySelector('.nbagent-panel').innerText.includes(text)", BUSY)
    until(page, FOOTS, 3)
    assert page.locator(".nbagent-inner > .nbagent-said").count() == 0
    said = page.locator(".nbagent-log .nbagent-you").all_inner_texts()
    assert said == ["and meanwhile", "asked while busy", "sent while busy"]


def test_a_reloaded_page_shows_the_conversation_and_continues(lab):
    code = "agent = script('first answer', 'from a cell', 'word ' * 5000, 'last answer', delay=0.03)\nChatPanel(agent)"
    page = opened(lab, "reload.ipynb", code, fresh=True)
    asks(page, "one")
    until_text(page, "first answer")
    lab.run_new_cell(page, "%%agent\nin a cell")
    until(page, "() => document.querySelectorAll('.nbagent-panel .nbagent-foot').length == 2")
    page.locator(".jp-Cell").last.locator(".nbagent-foot").wait_for()  # the cell's display comes by itself
    lab.command(page, "docmanager:save")
    saved = lab.folder / "reload.ipynb"
    until(page, "() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    assert "first answer" in nbformat.read(saved, 4).cells[1].outputs[1].data["text/plain"]
    asks(page, "two")
    until_text(page, "word word")
    box = page.locator(".nbagent-row textarea").first
    box.press_sequentially("and then")
    page.wait_for_timeout(500)
    page.reload()
    expect(box).to_have_value("and then")
    assert not box.evaluate("box => box == document.activeElement")
    box.fill("")
    until_text(page, "first answer")
    length = page.evaluate("document.querySelector('.nbagent-log').innerText.length")
    until(page, "([n]) => document.querySelector('.nbagent-log').innerText.length > n", length)  # it goes on
    page.get_by_role("button", name="Stop", exact=True).click()
    until_text(page, "Interrupted.")
    asks(page, "three")
    until_text(page, "last answer")
    assert "from a cell" in page.locator(".jp-Cell").last.inner_text()
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    until(page, "() => document.querySelector('.nbagent-panel.jupyter-widgets-disconnected')")
    signs = page.locator(".nbagent-panel, .nbagent-panel *").evaluate_all(SIGNS)
    assert [sign.strip('"') for sign in signs if sign != "none"] == [
        "Its kernel has ended or was restarted. Run the cell again."
    ]


def test_the_panel_speaks_the_language_of_the_browser(lab):
    chinese = "Object.defineProperty(navigator, 'language', {get: () => 'zh-CN'})"
    cells = [SETUP, "agent = script(clean, '6300 克。')\nChatPanel(agent)"]
    page = lab.open("chinese.ipynb", cells, prepare=lambda page: page.add_init_script(chinese))
    lab.command(page, "notebook:run-all-cells")
    panel = page.get_by_role("region", name="与智能体对话")
    expect(panel.get_by_role("tab")).to_have_text(["对话", "运行记录", "设置"])
    expect(panel.get_by_role("button", name="2 个工具")).to_be_visible()
    panel.get_by_role("textbox", name="你的问题").fill("最重的有多重？")
    panel.get_by_role("button", name="发送").click()
    panel.get_by_role("alert").get_by_text("run_code 请求运行 （在你的内核里）").wait_for()
    panel.get_by_role("button", name="批准").click()
    expect(panel.get_by_role("button", name="重试")).to_have_count(1)
    panel.get_by_role("tab", name="设置").click()
    expect(panel.get_by_text("系统提示词", exact=True)).to_be_visible()
    page.close()

"""The chat panel in real JupyterLab: typing, stopping, approving, scrolling, reloading."""

import nbformat
import pytest
from lab import Lab

pytestmark = pytest.mark.browser

SETUP = '''%load_ext nbagent
from nbagent import Agent, ChatPanel, FunctionCall, Limits, LLMResponse, ScriptedProvider, Usage, live, tool
@tool
def mean_by(column: str, group: str) -> dict:
    """Mean of a column for each value of a group."""
    return {"Adelie": 3700.7, "Chinstrap": 3733.1, "Gentoo": 5076.0}
@tool(approve=True)
def run_code(code: str) -> str:
    """Run code."""
    return "(333, 7)"
answer = """**Gentoo** penguins are heaviest, on average **1,343 g** more than Chinstrap.

| species | mean body mass (g) | n |
|---|--:|--:|
| Gentoo | 5,076.0 | 123 |
| Chinstrap | 3,733.1 | 68 |
| Adelie | 3,700.7 | 151 |
"""
call = FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"}, "a")
clean = FunctionCall("run_code", {"code": 'clean = penguins.dropna(subset=["sex"])\\nclean.shape'}, "b")
thinking = {"thinking": "The heaviest: group by species."}
turns = [LLMResponse("", [call], "tool_calls", {**thinking, "usage": Usage(604, 43, 490)})]
turns += [LLMResponse(answer, None, "stop", {"usage": Usage(790, 86, 604)}), clean, "Dropped 11 of 344 rows."]
def script(*turns, delay=0.01):
    provider = ScriptedProvider(turns, delay=delay, model="claude-sonnet-5")
    return Agent(provider, tools=live, limits=Limits(max_total_tokens=5_000))
'''


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with Lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


def opened(lab, name, *cells, theme="JupyterLab Light"):
    page = lab.open(name, [SETUP, *cells], theme)
    lab.command(page, "notebook:run-all-cells")
    page.locator(".nbagent-input textarea").first.wait_for(timeout=60_000)
    return page


def asks(page, text):
    """Type at a person's pace, then Enter."""
    box = page.locator(".nbagent-input textarea").first
    box.press_sequentially(text, delay=20)
    box.press("Enter")


def until(page, condition, *arguments):
    page.wait_for_function(condition, arg=list(arguments), timeout=30_000)


def until_text(page, text):
    until(page, "([text]) => document.querySelector('.nbagent-panel').innerText.includes(text)", text)


def run_cell(page, index):
    command = "window.jupyterapp.commands.execute('notebook:run-cell')"
    page.evaluate(f"i => {{window.jupyterapp.shell.currentWidget.content.activeCellIndex = i; {command}}}", index)


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_a_conversation(lab, request, theme):
    name = theme.split()[-1].lower()
    page = opened(lab, f"talk-{name}.ipynb", "agent = script(*turns)\nChatPanel(agent, height='400px')", theme=theme)
    asks(page, "Which species is heaviest, and by how much?")
    until(page, "() => document.querySelectorAll('.nbagent-panel .nbagent-foot').length == 1")
    panel = page.locator(".nbagent-panel")
    assert page.locator(".nbagent-input textarea").input_value() == ""
    assert panel.locator("details").count() == 2
    assert panel.locator("details[open]").count() == 0
    assert panel.locator("table tbody tr").count() == 3
    panel.locator("summary").nth(1).click()
    assert "3733.1" in panel.locator("details[open]").inner_text()
    picture(request, panel, f"panel-open-{name}")
    asks(page, "Drop the rows without a sex.")
    until_text(page, "asks to run")
    assert panel.locator("details[open]").count() == 1  # what the reader opened stays open
    picture(request, panel, f"panel-{name}")
    page.get_by_role("button", name="Run", exact=True).click()
    until_text(page, "Dropped 11 of 344 rows.")
    page.get_by_role("button", name="Trace", exact=True).click()
    until_text(page, "agent.trace.tool_calls")
    picture(request, panel, f"panel-trace-{name}")


def picture(request, locator, name):
    if folder := request.config.getoption("--screenshots"):
        locator.screenshot(path=f"{folder}/{name}.png")


def test_stop_retry_and_the_reader_s_place(lab):
    code = "agent = script('intro line\\n\\n' * 40, 'word ' * 5000, 'short')\nChatPanel(agent, height='300px')"
    page = opened(lab, "stop.ipynb", code)
    asks(page, "one")
    until(page, "() => document.querySelectorAll('.nbagent-panel .nbagent-foot').length == 1")
    at_end = "() => Math.abs(document.querySelector('.nbagent-chat').scrollTop) < 2"
    until(page, at_end)
    asks(page, "two")
    until_text(page, "word word")
    until(page, at_end)
    page.evaluate("document.querySelector('.nbagent-chat').scrollTop = -250")
    place = "document.querySelectorAll('.nbagent-you')[1].getBoundingClientRect().y"
    before, height = page.evaluate(f"[{place}, document.querySelector('.nbagent-chat').scrollHeight]")
    until(page, "([h]) => document.querySelector('.nbagent-chat').scrollHeight > h + 40", height)
    assert abs(page.evaluate(place) - before) < 2  # what is read does not move while the answer grows
    page.get_by_role("button", name="Stop", exact=True).click()
    until_text(page, "Interrupted.")
    assert page.get_by_role("button", name="Stop", exact=True).is_disabled()
    page.get_by_role("button", name="Retry", exact=True).click()
    until_text(page, "short")
    assert "word word" not in page.locator(".nbagent-panel").inner_text()
    page.evaluate("document.querySelector('.nbagent-chat').scrollTop = -250")
    asks(page, "three")  # the script is at its end
    until_text(page, "ConfigurationError")
    until(page, at_end)  # who asks wants to see the answer


def test_deny_in_the_panel_and_ask_from_a_cell(lab):
    page = opened(
        lab,
        "deny.ipynb",
        "agent = script(clean, 'Then not.', 'said in a cell')\nChatPanel(agent)",
        "ChatPanel(agent)",
        "assert agent.trace.tool_calls['approval'].tolist() == ['denied']",
        "%%agent\nfrom a cell",
    )
    asks(page, "clean")
    until_text(page, "asks to run")
    assert page.get_by_role("button", name="Deny", exact=True).count() == 2  # two panels, one question
    page.get_by_role("button", name="Deny", exact=True).last.click()
    until_text(page, "Then not.")
    assert page.get_by_role("button", name="Deny", exact=True).count() == 0
    run_cell(page, 3)
    run_cell(page, 4)
    both = "() => [...document.querySelectorAll('.nbagent-panel')].every(p => p.innerText.includes('said in a cell'))"
    until(page, both)
    assert "AssertionError" not in page.locator("body").inner_text()


def test_a_reloaded_page_shows_the_conversation_and_goes_on(lab):
    page = opened(
        lab, "reload.ipynb", "agent = script('first answer', 'second answer')\nChatPanel(agent)", "agent._p = 1"
    )
    asks(page, "one")
    until_text(page, "first answer")
    lab.command(page, "docmanager:save")
    saved = lab.folder / "reload.ipynb"
    until(page, "() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    bundle = nbformat.read(saved, 4).cells[1].outputs[0].data
    assert {"text/html", "text/plain"} <= bundle.keys()
    page.reload()
    page.locator(".nbagent-input textarea").first.wait_for(timeout=60_000)
    until_text(page, "first answer")
    asks(page, "two")
    until_text(page, "second answer")

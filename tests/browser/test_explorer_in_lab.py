"""The trace's explorer in real JupyterLab: filters, details, both themes; it sends no requests, and no script runs."""

import re

import pytest
from playwright.sync_api import expect
from support.lab import BEGIN

pytestmark = pytest.mark.browser

SETUP = (
    BEGIN
    + '''@tool
def count_by(group: str) -> dict:
    """Rows for each value of a group."""
    return {"Biscoe": 168, "Dream": 124, "Torgersen": 52} if group == "island" else 1 / 0
hostile = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>![x](http://evil.example/?y)"
def asked(calls, answer, thinking=""):
    used = {"usage": Usage(1204, 86, cache_read_tokens=980)}
    return [LLMResponse("", calls, None, {**used, "thinking": thinking}), LLMResponse(answer, None, "stop", used)]
weigh = FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"}, "a")
turns = asked([weigh, FunctionCall("count_by", {"group": "species"}, "b")],
              "**Gentoo** penguins are heaviest, on average **1,343 g** more than Chinstrap.",
              "The heaviest: group by species, then compare.")
turns += asked([FunctionCall("count_by", {"group": "island"}, "c")], "168 on Biscoe, 124 on Dream, 52 on Torgersen.")
turns += asked([FunctionCall("mean_by", weigh.arguments, "d")], "Adelie penguins, with 3,700.7 g.")
agent.provider = ScriptedProvider(turns, delay=0.002, model="claude-sonnet-5")
agent.provider.provider_name = "claude"
for question in ("Which species is heaviest, and by how much?", "How many on each island?", "Which is lightest?"):
    agent.chat_sync(question)
'''
)
HOSTILE = """
call = FunctionCall(hostile, {hostile: hostile}, "h")
agent.provider = ScriptedProvider(asked([call], hostile, hostile), model=hostile)
agent.chat_sync(hostile)
"""


def opened(lab, name, theme):
    page = lab.open(name, [SETUP, "agent.trace.explore()"], theme)
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    lab.command(page, "notebook:run-all-cells")
    page.wait_for_selector(".nbagent-explore tbody tr")
    return page, requests


def until_rows(page, number):
    rows = page.locator(".nbagent-explore tbody tr:not(:has(.dt-empty))")
    expect(rows).to_have_count(number)


def until_detail(page, text):
    expect(page.locator(".nbagent-detail")).to_contain_text(text)


def see_run(page, picture, name):
    """Select the first run, open its first tool call, and save a screenshot."""
    explorer = page.locator(".nbagent-explore")
    explorer.locator("tbody tr").first.click()
    until_detail(page, "more than Chinstrap")
    explorer.locator("summary").nth(1).click()
    assert "3733.1" in explorer.locator("details[open]").inner_text()
    picture(explorer, name)


def test_filters_and_the_details_of_a_run(lab, picture):
    page, requests = opened(lab, "explore.ipynb", "JupyterLab Light")
    explorer = page.locator(".nbagent-explore")
    until_rows(page, 3)
    explorer.get_by_role("button", name="tool calls", exact=True).click()
    until_rows(page, 4)
    explorer.get_by_role("button", name="Failed", exact=True).click()
    until_rows(page, 1)
    explorer.locator("tbody tr").first.click()
    until_detail(page, "ZeroDivisionError")
    explorer.get_by_role("button", name="Failed", exact=True).click()
    until_rows(page, 4)
    explorer.locator("select").nth(1).select_option(label="mean_by")
    until_rows(page, 2)
    explorer.get_by_role("button", name="runs", exact=True).click()
    until_rows(page, 2)
    explorer.locator("select").nth(1).select_option(label="all tools")
    until_rows(page, 3)
    search(page, "group BY species")
    until_rows(page, 1)
    search(page, "")
    until_rows(page, 3)
    see_run(page, picture, "explorer")
    assert not [url for url in requests if not url.startswith((lab.url, "data:", "blob:"))]


def test_the_details_and_the_panel_lead_to_the_cell_that_asked(lab):
    setup = f"{SETUP}agent.provider = ScriptedProvider(['Gentoo.'])\nfrom nbagent import ChatPanel"
    cells = [
        setup,
        "%%agent\nWhich is heaviest?",
        *["'between'\n" * 30] * 3,
        "agent.trace.explore()",
        "ChatPanel(agent)",
    ]
    page = lab.run("leads.ipynb", [*cells])
    until_rows(page, 4)
    asking = page.locator(".jp-Cell").nth(1)
    explorer, panel = page.locator(".nbagent-explore"), page.locator(".nbagent-log")
    for tab, text in (("runs", "heaviest?"), ("calls", "[2]")):
        explorer.get_by_role("button", name=tab, exact=True).click()
        explorer.locator("tbody tr").filter(has_text=text).click()
        explorer.locator(".nbagent-detail").get_by_role("button", name="cell [2]").press("Enter")
        expect(asking).to_be_in_viewport()
        expect(asking).to_have_class(re.compile("jp-mod-selected"))
        expect(page.locator(".jp-mod-editMode .jp-Cell.jp-mod-active")).to_have_count(0)
    panel.get_by_role("button", name="cell [2]").click()
    expect(asking).to_be_in_viewport()


def search(page, text):
    box = page.locator(".nbagent-explore").get_by_placeholder("Search the texts")
    box.fill(text)
    box.press("Enter")


def test_nothing_hostile_runs_or_loads(lab, picture):
    page, requests = opened(lab, "hostile.ipynb", "JupyterLab Dark")
    explorer = page.locator(".nbagent-explore")
    until_rows(page, 3)
    see_run(page, picture, "explorer-dark")
    page.evaluate(
        """code => {
            const {content, sessionContext} = window.jupyterapp.shell.currentWidget;
            return sessionContext.session.kernel.requestExecute({code}).done;
        }""",
        HOSTILE,
    )
    explorer.get_by_role("button", name="Refresh", exact=True).click()
    until_rows(page, 4)
    search(page, "evil.example")
    for tab, rows in (("calls", 2), ("tool calls", 1), ("messages", 4), ("blocks", 5), ("runs", 1)):
        explorer.get_by_role("button", name=tab, exact=True).click()
        until_rows(page, rows)
        explorer.locator("tbody tr").first.click()
        until_detail(page, "hacked=1")
    page.wait_for_timeout(300)
    assert page.evaluate("window.hacked") is None
    inside = ".nbagent-explore :is(script, iframe, object, embed, link, form, svg, img)"
    assert page.locator(inside).count() == 0
    assert not [url for url in requests if not url.startswith((lab.url, "data:", "blob:"))]

"""Cells, panel and explorer by keyboard alone, and without a serious finding of axe-core, in both themes."""

import pytest
from playwright.sync_api import expect
from support.axe import serious
from support.lab import BEGIN, ask

pytestmark = pytest.mark.browser

SETUP = (
    BEGIN
    + '''from nbagent import ChatPanel, Limits
@tool(approve=True)
def wipe(table: str) -> str:
    """Delete a table."""
    print("gone")
    return "gone"
answer = """# Masses

**Gentoo** penguins are heaviest, see https://example.org/a, by $x^2$ grams.

> quoted, `code`, ~~no~~

| species | n |
|---|--:|
| Gentoo | 123 |

```python
heaviest = masses.idxmax()  # of all
print(heaviest, "is", 5076.0, "in a line that is wider than its place, in the cell and in the panel", "and on")
```
"""
mean = FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"}, "a")
used = {"usage": Usage(1204, 86), "thinking": "By species."}
calls = LLMResponse("", [mean, FunctionCall("mean_by", {}, "b")], None, used)
asked = FunctionCall("wipe", {"table": "cities"}, "c")
turns = [calls, answer, asked, answer, calls, answer, ValueError("no such table"), asked, answer]
agent.provider = ScriptedProvider(turns, model="claude-sonnet-5")
agent.provider.provider_name = "claude"
agent.limits = Limits(max_cost=10)
agent.system_prompt = "Be brief."'''
)
CELLS = [
    SETUP,
    "%%agent\nWhich species is heaviest?",
    "%%agent\nNow wipe the cities",
    "agent",
    "%agent tools",
    "agent.trace",
    "ChatPanel(agent)",
    "agent.trace.explore()",
]


def resize(lab, page, width):
    """Make the window so wide, without the list of files."""
    page.set_viewport_size({"width": width, "height": 900})
    if page.locator("#jp-left-stack").is_visible():
        lab.command(page, "application:toggle-left-area")
        page.locator("#jp-left-stack").wait_for(state="hidden")


def test_axe_finds_what_is_wrong(lab):
    page = lab.blank()
    page.set_content("<main><button></button><p style='color:#bbb;background:#fff'>pale</p></main>")
    assert {rule for rule, *_ in serious(page, "main")} == {"button-name", "color-contrast"}


@pytest.mark.parametrize(("theme", "width"), [("JupyterLab Light", 1440), ("JupyterLab Dark", 390)])
def test_no_serious_finding(lab, theme, width):
    page = lab.run(f"axe-{theme.split()[-1]}.ipynb", CELLS, theme)
    resize(lab, page, width)
    page.locator(".nbagent-foot").first.wait_for()
    page.get_by_role("button", name="Approve", exact=True).wait_for()
    assert serious(page, ".nbagent-ask") == []
    page.get_by_role("button", name="Edit", exact=True).click()
    assert serious(page, ".nbagent-ask") == []
    page.get_by_role("button", name="Approve", exact=True).click()
    page.wait_for_selector(".nbagent-explore tbody tr")
    page.locator("summary").evaluate_all("all => all.forEach(each => each.click())")
    expect(page.get_by_role("group", name="This code")).to_have_count(4)
    assert serious(page, ".jp-OutputArea-output .nbagent") == []
    panel = page.locator(".nbagent-panel:not(.nbagent-explore)")
    panel.get_by_role("button", name="Model: ").click()
    panel.get_by_role("button", name="glm-5.2, zhipu").wait_for()
    assert serious(page, ".nbagent-picker") == []
    panel.get_by_label("Search models").press("Escape")
    expect(panel.get_by_role("dialog")).to_be_hidden()
    expect(panel.get_by_role("button", name="Model: ")).to_be_focused()
    ask(panel, "And here?")
    expect(panel.locator(".nbagent-foot")).to_have_count(3)
    ask(panel, "And now?")
    panel.get_by_text("no such table").wait_for()
    ask(panel, "Wipe it")
    panel.get_by_role("button", name="Approve", exact=True).wait_for()
    panel.locator(".nbagent-chat").evaluate("chat => chat.scrollTop = -300")
    panel.get_by_role("button", name="Jump to latest").wait_for()
    panel.locator("summary").evaluate_all("all => all.forEach(each => { each.parentElement.open = true })")
    assert serious(page, ".nbagent-panel:not(.nbagent-explore)") == []
    for tab, shown in (("Trace", ".nbagent-table table >> nth=2"), ("Setup", "textarea >> nth=0")):
        if width == 390:
            panel.get_by_role("button", name="More").click()
        panel.get_by_role("tab", name=tab).click()
        panel.get_by_role("tabpanel", name=tab).locator(shown).wait_for()
        assert serious(page, ".nbagent-panel:not(.nbagent-explore)") == []
    explorer = page.locator(".nbagent-explore")
    explorer.get_by_role("button", name="Refresh").focus()
    page.keyboard.press("Tab")
    while explorer.locator("tbody tr:focus").count() == 0:  # past the headers, which sort
        assert explorer.locator("th:has(:focus), th:focus").count() == 1
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(explorer.locator(".nbagent-detail")).to_contain_text("Gentoo")
    page.keyboard.type("dd")
    assert page.locator(".jp-Cell").count() == len(CELLS)
    assert serious(page, ".nbagent-explore") == []
    resize(lab, page, 800)
    assert serious(page, ".nbagent-panel") == []


def test_the_greeting_the_row_below_an_answer_and_a_bar_of_any_width(lab):
    name = "claude-sonnet-5-of-a-very-long-name"
    provider = f"agent.provider = ScriptedProvider([calls, answer, 'More.'], model={name!r})"
    page = lab.run("axe-bar.ipynb", [SETUP, f"{provider}\nagent.provider.provider_name = 'claude'", "ChatPanel(agent)"])
    panel = page.get_by_role("region", name="Chat with an agent")
    panel.get_by_role("button", name="What can you do here?").wait_for()
    assert serious(page, ".nbagent-panel") == []
    for count, question in enumerate(("Which species is heaviest, and by how much, of all?", "And now?"), 1):
        ask(panel, question)
        expect(panel.get_by_role("button", name="Branch")).to_have_count(count)
    first, last = (panel.locator(".nbagent-foot").nth(place) for place in (0, -1))
    retry, branch = (first.get_by_role("button", name=name) for name in ("Retry", "Branch"))
    expect(last).to_have_css("opacity", "1")
    expect(first).to_have_css("opacity", "0")
    first.hover()
    expect(first).to_have_css("opacity", "1")
    last.hover()
    expect(first).to_have_css("opacity", "0")
    retry.focus()
    expect(first).to_have_css("opacity", "1")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(branch).to_be_focused()
    page.keyboard.press("Enter")
    expect(panel.locator(".nbagent-you")).to_have_count(1)
    expect(panel.get_by_label("Conversations").locator("option")).to_have_count(2)
    bar, opens = panel.locator(".nbagent-top"), panel.get_by_role("button", name="More")
    for width in (1440, 800, 350, 390):
        resize(lab, page, max(width, 390))
        panel.evaluate("(panel, width) => { panel.style.width = width == 350 ? '350px' : '' }", width)
        for each in (bar, panel.locator(".nbagent-row"), last):
            assert each.evaluate("each => each.scrollWidth <= each.clientWidth"), (width, each)
        assert bar.bounding_box()["height"] < 50
        for each in ("New chat", "Model: claude"):
            panel.get_by_role("button", name=each).click(trial=True, position={"x": 20, "y": 10})
        assert opens.is_visible() == (width != 1440)
    expect(last.locator(".nbagent-amount").first).to_be_hidden()
    expect(last.get_by_title(f"{name} · 1,2")).to_be_visible()
    opens.focus()
    page.keyboard.press("Enter")
    expect(opens).to_have_attribute("aria-expanded", "true")
    assert serious(page, ".nbagent-panel") == []
    page.keyboard.press("Tab")
    expect(panel.get_by_label("Conversations")).to_be_focused()
    page.keyboard.press("Escape")
    expect(opens).to_be_focused()
    expect(panel.get_by_label("Conversations")).to_be_hidden()

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
agent.provider.vendor = "claude"
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


def test_axe_finds_what_is_wrong(lab):
    page = lab.blank()
    page.set_content("<main><button></button><p style='color:#bbb;background:#fff'>pale</p></main>")
    assert {rule for rule, *_ in serious(page, "main")} == {"button-name", "color-contrast"}


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_no_serious_finding(lab, theme):
    page = lab.run(f"axe-{theme.split()[-1]}.ipynb", CELLS, theme)
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


#: The name of what has the focus, as a screen reader says it, more or less.
FOCUSED = r"""() => {
    const each = document.activeElement;
    const name = each.ariaLabel || each.labels?.[0]?.textContent || each.innerText;
    return [each.role ?? each.tagName.toLowerCase(), name.split("\n")[0]].join(" ");
}"""


def test_all_of_the_panel_is_reached_by_keyboard_alone(lab):
    page = lab.run("axe-keys.ipynb", [SETUP, "ChatPanel(agent)"])
    panel = page.get_by_role("region", name="Chat with an agent")
    ask(panel, "Which species is heaviest?")
    panel.get_by_role("button", name="Good answer").wait_for()
    reached = []
    while not reached or reached[-1] != "tab Chat":
        page.keyboard.press("Shift+Tab")
        reached.append(page.evaluate(FOCUSED))
        if reached[-1].startswith("summary mean_by(column"):
            page.keyboard.press("Enter")
    assert [name for name in reached if not name.startswith("img Context: about")] == [
        *("button Attach files", "button Edit", "button Retry"),
        *("button Bad answer", "button Good answer", "button Copy"),
        *("pre heaviest = masses.idxmax()  # of all", "button Insert below", "button Copy", "a https://example.org/a"),
        *("summary mean_by()", 'summary mean_by(column="body_mass_g", group="species")', "summary Thought"),
        "button Edit this question",
        *("tabpanel Chat", "button 2 tools", "button Model: claude-sonnet-5", "button New chat", "tab Chat"),
    ]
    assert len(reached) == 20, "and the meter"
    expect(panel.locator("details[open]")).to_contain_text('"Gentoo": 5076.0')

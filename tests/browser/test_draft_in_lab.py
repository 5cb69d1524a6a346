"""The prompt's box in JupyterLab and Notebook 7: mentions, attachments, and the line below the box."""

import base64

import pytest
from playwright.sync_api import expect
from support.axe import serious
from support.files import give, png
from support.hostile import FOUND, PAYLOADS
from support.lab import LOAD
from support.papers import pdf

pytestmark = pytest.mark.browser

SETUP = (
    LOAD
    + """import pandas as pd
from nbagent import Agent, ChatPanel, ScriptedProvider
penguins = pd.DataFrame({"species": ["Adelie", "Gentoo"] * 172, "body_mass_g": range(344)})
penguin_ids = list(range(900))
seen = []
def answer(messages, tools):
    seen.append(messages[-1].content)
    return "Gentoo."
agent = Agent(ScriptedProvider(answer, model="claude-sonnet-5"))
agent.provider.provider_name = "claude"
panel = ChatPanel(agent)
panel"""
)
NOTES = """from mcp.server import MCPServer
server = MCPServer("notes")

@server.resource("notes://today")
def today() -> str:
    "What to do today."
    return "Water the plants."

server.run()
"""
PANEL = ".nbagent-panel"
LIGHT = "JupyterLab Light"
MASSES = "species,mass\nGentoo,5076\nAdelie,3700\n"
#: Copies a picture, as from a drawing program.
COPY = """async base64 => {
  const bytes = Uint8Array.from(atob(base64), each => each.charCodeAt(0));
  await navigator.clipboard.write([new ClipboardItem({"image/png": new Blob([bytes], {type: "image/png"})})]);
}"""


def opened(lab, host, name, theme=LIGHT):
    page = lab.run(name, [SETUP], theme, host)
    page.get_by_placeholder("Ask anything").wait_for()
    return page, page.locator(PANEL)


def test_after_the_colon_of_an_mcp_server_its_resources_are_offered(lab):
    (lab.folder / "server_of_notes.py").write_text(NOTES)
    connect = """import sys
from nbagent import MCPServer
agent.use(MCPServer(sys.executable, "server_of_notes.py", name="memos"))
await agent.toolsets.prepare()
panel"""
    page = lab.run("resources.ipynb", [SETUP.removesuffix("panel"), connect])
    panel = page.locator(PANEL)
    box = panel.get_by_label("Your prompt")
    options = panel.get_by_role("listbox", name="What to mention").get_by_role("option")
    box.press_sequentially("@memo")
    expect(options).to_have_text(["@memos:resources of an MCP server"])
    page.keyboard.press("Enter")
    expect(box).to_have_value("@memos:")
    expect(options).to_have_text(["@memos:notes://todayWhat to do today."])
    page.keyboard.press("Enter")
    expect(box).to_have_value("@memos:notes://today ")


@pytest.mark.parametrize("host", ["JupyterLab 4", "Notebook 7"])
def test_mentions_are_completed_and_files_pasted_and_dropped(lab, host):
    (lab.folder / "masses.csv").write_text(MASSES)
    name = host.split()[0].lower()
    page, panel = opened(lab, host, f"{name}-draft.ipynb", "JupyterLab Dark" if host == "JupyterLab 4" else LIGHT)
    box = panel.get_by_label("Your prompt")
    box.press_sequentially("Is @pen")
    options = panel.get_by_role("listbox", name="What to mention").get_by_role("option")
    expect(options).to_have_text(["@penguin_idslist of length 900", "@penguinsDataFrame 344×2"])
    assert box.get_attribute("aria-activedescendant") == options.first.get_attribute("id")
    assert serious(page, PANEL) == []
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(box).to_have_value("Is @penguins ")
    expect(options).to_have_count(0)
    page.keyboard.type("like @mas")
    expect(options).to_have_text(["@masses.csvfile"])
    page.keyboard.press("Tab")
    page.keyboard.type("@cell:1")
    expect(options).to_have_count(1)
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    page.keyboard.press("Backspace")
    page.keyboard.type("99?")
    expect(options).to_have_count(0)
    expect(panel.locator(".nbagent-draft")).to_contain_text("there is no cell In [99]")
    for _ in "@cell:99?":
        page.keyboard.press("Backspace")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate(COPY, base64.b64encode(png(40, 30)).decode())
    page.keyboard.press("Control+v")
    draft, below = panel.locator(".nbagent-chips"), panel.locator(".nbagent-draft")
    expect(draft.get_by_role("button")).to_have_count(1)
    give(box, "paste", ("heights.csv", "text/csv", MASSES.replace("mass", "height").encode()))
    dropped = [("keys.txt", "text/plain", b"TOKEN=a8Xk29sLq0pZ81"), ("paper.pdf", "application/pdf", pdf("Heaviest."))]
    give(panel.locator(".nbagent-chat"), "drop", *dropped)
    expect(draft.get_by_role("button")).to_have_count(4)
    for text in (
        "image.pngimage 40×30",
        "heights.csvtable 2×2",
        "paper.pdfPDF, 1 page",
        "keys.txt20 characters, secrets",
    ):
        expect(draft).to_contain_text(text)
    for text in ("@penguins · DataFrame 344×2 · about", "@masses.csv · table 2×2 · about", "tokens · about $0.00"):
        expect(below).to_contain_text(text)
    assert serious(page, PANEL) == []
    page.set_viewport_size({"width": 800, "height": 900})
    page.set_viewport_size({"width": 1280, "height": 1200})
    box.focus()
    page.keyboard.press("Enter")
    panel.locator(".nbagent-foot").wait_for()
    expect(draft).to_be_hidden()
    folded = panel.locator(".nbagent-said summary")
    expect(folded).to_have_count(6)
    expect(panel.locator(".nbagent-you")).to_have_text("Is @penguins like @masses.csv")
    folded.evaluate_all("all => all.forEach(each => each.click())")
    assert serious(page, PANEL) == []
    for read in ("image 40×30", "Gentoo", "Page 1\nHeaviest."):
        expect(panel.locator(".nbagent-said")).to_contain_text(read)
    expect(panel.locator(".nbagent-said img")).to_have_count(1)
    panel.get_by_role("button", name="Edit", exact=True).click()
    expect(box).to_have_value("Is @penguins like @masses.csv")
    expect(draft.get_by_role("button")).to_have_count(4)
    draft.get_by_role("button", name="image.png").press("Enter")
    expect(draft.get_by_role("button")).to_have_count(3)
    lab.close_others()


def test_nothing_hostile_runs_in_suggestions_chips_and_folded_attachments(lab):
    texts = [payload.text for payload in PAYLOADS]
    for text in texts[:12]:
        (lab.folder / text.replace("/", "|")).touch()
    page, panel = opened(lab, "JupyterLab 4", "draft-hostile.ipynb")
    page.evaluate("() => { window.hits = []; window.hit = number => hits.push(number) }")
    box = panel.get_by_label("Your prompt")
    box.press_sequentially('@"')
    options = panel.get_by_role("listbox", name="What to mention").get_by_role("option")
    expect(options.filter(has_text="<img src=x onerror=hit")).not_to_have_count(0)
    assert page.evaluate(f"() => ({FOUND})(document.querySelectorAll('.nbagent-suggestions'))") == []
    page.keyboard.press("Escape")
    box.fill("Read these")
    files = [(text, "text/plain", "\n".join(texts[number::10]).encode()) for number, text in enumerate(texts[:10])]
    give(box, "paste", *files)
    expect(panel.locator(".nbagent-chips button")).to_have_count(10)
    assert serious(page, PANEL) == []
    assert page.locator(".nbagent-chips :is(img, script, a, style, svg, iframe)").count() == 0
    box.press("Enter")
    panel.locator(".nbagent-foot").wait_for()
    folded = panel.locator(".nbagent-said summary")
    expect(folded).to_have_count(10)
    folded.evaluate_all("all => all.forEach(each => each.click())")
    ours = "document.querySelectorAll('.nbagent-said, .nbagent-saved')"
    assert page.evaluate(f"() => ({FOUND})({ours})") == []
    assert page.evaluate("hits") == []

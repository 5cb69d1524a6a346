"""In real JupyterLab: what vendors' own tools did and answers cite, a PDF, what an agent remembers, a trace's tree."""

import base64
import io

import pytest
from PIL import Image
from playwright.sync_api import expect
from support.lab import BEGIN
from support.loopback import Answer, Loopback, said, served, sse
from support.papers import pdf
from support.vendor_answers import BLOCKS, claude_stream, gemini_worked, openai_worked

pytestmark = pytest.mark.browser

SETUP = (
    BEGIN
    + """
import nbagent
from pathlib import Path
from nbagent import ChatPanel, Memory, create_provider
def says(*turns, **options): return Agent(ScriptedProvider(turns, model="claude-sonnet-5"), **options)
agent = Agent(create_provider("claude:claude-sonnet-5", api_key="test-key", base_url=url), tools=["web_search"])
"""
)
PAPER = """paper = Path("paper.pdf")
agent = Agent(create_provider("open_source", model="mine", base_url=url + "/v1"))
paper = paper.read_bytes()"""
MEMORY = """memory = Memory("memory.sqlite")
note = FunctionCall("memory", {"command": "create", "path": "/memories/units.md", "file_text": "Metric units."}, "m")
agent = says(note, "Noted.", note).use(memory)"""
TREE = """mass = FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"}, "m")
analyst = says(mass, "**Gentoo**, with 5,076 g.", tools=[mean_by])
ask = FunctionCall("ask_analyst", {"question": "Which species is the heaviest?"}, "a")
agent = says(ask, "Gentoo penguins.", tools=[analyst.as_tool("ask_analyst", "Knows the data.")])
_ = agent.chat_sync("Write a sentence about the heaviest penguins.")
agent.trace.tree()"""


def test_sources_documents_memory_and_trees(lab, picture):
    (lab.folder / "paper.pdf").write_bytes(pdf("Gentoo are the heaviest penguins.", "Adelie are not."))
    with served(Loopback()) as claude:
        claude.answers = [
            Answer(claude_stream(*BLOCKS)),
            *(Answer(sse(said(text))) for text in ("The Gentoo.", "Adelie.")),
        ]
        cells = [
            f"url = {claude.url!r}\n{SETUP}",
            "%%agent\nWhich Ruby is stable?",
            "agent.trace.citations",
            "ChatPanel(agent)",
            PAPER,
            "%%agent\nAnd who is not? {paper}",
            "%%agent --dry-run\nWhy? {paper}",
            "_ = agent.chat_sync(['Why?', Path('paper.pdf')])\nChatPanel(agent)",
            TREE,
            "_ = agent.trace.tree().plot()",
            "agent.trace.timeline()",
            MEMORY,
            "%%agent\nRemember that I use metric units.",
            "memory.frame",
            "ChatPanel(agent)",
        ]
        page = lab.run("sources.ipynb", cells)
        cell = page.locator(".jp-Cell")
        ask = cell.nth(12).locator(".nbagent-ask")
        ask.get_by_role("button", name="Approve", exact=True).wait_for()
        picture(ask, "memory-asks")
        ask.get_by_role("button", name="Approve", exact=True).click()
        cell.nth(14).locator(".nbagent-panel").wait_for()
        panels = page.locator(".nbagent-panel")
        for shown in (cell.nth(1), panels.nth(0)):
            links = shown.locator("a[rel~=noopener]:visible")
            expect(links).to_have_text(["[1]", "[2]", "Download Ruby", 'Ruby "4.0.6" <b>'])
            assert links.nth(1).get_attribute("href") == "https://example.org/news?a=1&b=(2)"
        expect(cell.nth(2).locator("tbody tr")).to_have_count(2)
        expect(panels.nth(1)).to_contain_text("[document: paper.pdf, 2 pages]")
        for shown in (cell.nth(5), panels.nth(1)):
            expect(shown).to_contain_text("mine reads no PDFs there: it gets the text of document.pdf.")
        expect(cell.nth(6)).to_contain_text("[document: document.pdf, 2 pages]")
        expect(cell.nth(8)).to_contain_text('└─ mean_by(column="body_mass_g", group="species")')
        expect(cell.nth(9).get_by_role("img")).to_be_visible()
        expect(cell.nth(13)).to_contain_text("/memories/units.md")
        expect(panels.nth(2)).not_to_contain_text("approved:")
    shown = {
        1: "cited",
        2: "citations",
        3: "cited-panel",
        5: "pdf",
        6: "pdf-sent",
        7: "pdf-panel",
        8: "tree",
        9: "tree-drawn",
    }
    for index, name in {**shown, 10: "nested-timeline", 12: "memory", 13: "memory-frame", 14: "memory-panel"}.items():
        picture(cell.nth(index), name)
    knows = f'{SETUP}\nmemory = Memory("memory.sqlite")\nagent = says("Metric ones.").use(memory)\nmemory.frame'
    page = lab.run("second.ipynb", [f'url = ""\n{knows}', "%%agent --dry-run\nWhich units do I use?"])
    known = page.locator(".jp-Cell").nth(1).locator("details", has_text="<memory_index>")
    known.locator("summary").click()
    expect(known.locator("pre")).to_contain_text("/memories/units.md: Metric units.")
    expect(page.locator(".jp-Cell").nth(0)).to_contain_text("Metric units.")
    picture(page, "memory-second-kernel")


OWN = """model = create_provider("openai:gpt-5.6-terra", api_key="test-key", base_url=url + "/v1", api="responses")
openai = Agent(model, tools=["web_search", "code_execution", "image_generation"])
gemini = Agent(create_provider("gemini:gemini-3.7-flash", api_key="test-key", base_url=url + "/v1beta"),
    tools=["web_search", "code_execution"])"""

CODE = "code_execution(code=\"print('<b>42</b>')\\nplot()\")"
#: The vendor, the calls in the order in which they are told, and how many images it made.
MADE = [
    ("openai", ['web_search(query="stable ruby")', CODE, 'image_generation(prompt="A <i>Gentoo</i> that codes")'], 2),
    ("gemini", [CODE, 'web_search(queries=["stable ruby"])'], 1),
]


def png(colour):
    file = io.BytesIO()
    Image.new("RGB", (120, 40), colour).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def test_openais_and_geminis_own_tools(lab, picture):
    with served(Loopback()) as vendors:
        answers = [openai_worked(png("teal"), png("gold")), gemini_worked(png("teal"))]
        vendors.answers = [Answer(each) for each in answers * 2]
        asked = "%%agent\nWhich Ruby is stable?"
        cells = [f"url = {vendors.url!r}\n{SETUP}\n{OWN}\nagent = openai", asked, "agent = gemini", asked]
        page = lab.run("own.ipynb", [*cells, "ChatPanel(openai)", "ChatPanel(gemini)"])
        cell, panels = page.locator(".jp-Cell"), page.locator(".nbagent-panel")
        expect(panels).to_have_count(2)
        for number, (name, tools, images) in enumerate(MADE):
            panel, asked = panels.nth(number), cell.nth(1 + 2 * number)
            box = panel.get_by_label("Your question")
            box.fill("Really?")
            box.press("Enter")
            expect(panel.locator(".nbagent-foot")).to_have_count(2)
            for shown, times in ((asked, 1), (panel, 2)):  # in the panel, one was asked by the cell
                expect(shown.locator("summary > code")).to_have_text(tools * times)
                links = shown.locator("a[rel~=noopener]")
                expect(links).to_have_text(["[1]", "[2]", "Download Ruby", 'Ruby "4.0.6" <b>'] * times)
                expect(shown.locator(".nbagent-sources").first).to_contain_text("[3] <img src=x onerror=alert(1)>")
                expect(shown.locator(".nbagent img")).to_have_count(images * times)
                for image in shown.locator(".nbagent img").all():
                    expect(image).to_have_js_property("naturalWidth", 120)
            code = asked.locator("details", has_text="code_execution")
            code.locator("summary").click()
            expect(code.locator("pre").last).to_contain_text("<b>42</b>")
            expect(code).not_to_contain_text("base64")
            picture(asked, f"own-{name}-cell")
            picture(panel, f"own-{name}-panel")

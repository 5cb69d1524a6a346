"""In real JupyterLab: which model answers, what is sent back to it, how far a tool is, and what was summarised."""

import pytest
from playwright.sync_api import expect
from support.lab import BEGIN
from support.loopback import Answer, Loopback, served
from support.vendor_answers import claude_stream

pytestmark = pytest.mark.browser

SETUP = (
    BEGIN
    + """
import asyncio, os
from nbagent import ChatPanel, ContextManager, Router, RunContext, create_provider
from nbagent.errors import ServerError
def model(name, *turns): return ScriptedProvider(turns, model=name)
def ask(agent, *questions):
    for question in questions: agent.chat_sync(question)
down = model("claude-sonnet-5", ServerError("The model is overloaded."))
agent = Agent([down, model("gpt-5.6-terra", "**Gentoo**.")])
"""
)
ROUTER = """def choose(messages): return "strong" if "why" in messages[-1].text.lower() else "cheap"
models = {"cheap": model("gpt-5.6-luna", "A bird."), "strong": model("claude-sonnet-5", "Krill.")}
agent = Agent(Router(models, choose))
def species(match): return "Three: Adelie, Chinstrap and Gentoo."
_ = agent.route("(?i)how many species", species)"""
CHECKS = """def names_a_number(answer):
    assert any(each.isdigit() for each in answer), "Name a number."
def no_accounts(question):
    assert "IBAN" not in question, "no account numbers"
@tool
async def study(pages: int, run: RunContext) -> str:
    "Study."
    run.report("page 3 of 8")
    while not os.path.exists(gate): await asyncio.sleep(0.01)
    return "studied"
agent = Agent(model("claude-sonnet-5", FunctionCall("study", {"pages": 8}, "s"), "Gentoo is heavy.", "**5,076 g**."),
    tools=[study], validators=[names_a_number], guards=[no_accounts])"""
SUMMARISED = """agent = Agent(model("claude-sonnet-5", "One.", "Two.", "They counted to two.", "Three."),
    context=ContextManager(max_messages=4, strategy="summarise"))
ask(agent, "One?", "Two?")"""
SERVER = """agent = Agent(create_provider("claude:claude-sonnet-5", api_key="test-key", base_url=url),
    context=ContextManager(strategy="server"))"""
SUMMARY = {"type": "compaction", "content": "They asked about Ruby.", "encrypted_content": "EugCCio="}


def test_models_checks_and_summaries(lab, picture, tmp_path):
    with served(Loopback()) as claude:
        claude.answers = [Answer(claude_stream(SUMMARY, {"type": "text", "text": "Yes, **really**."}))]
        cells = [
            f"{SETUP}\ngate, url = {str(tmp_path / 'gate')!r}, {claude.url!r}",
            "%%agent\nWhich species is the heaviest?",
            "ChatPanel(agent)",
            ROUTER,
            "%%agent\nWhat is a penguin?",
            "%%agent\nAnd why?",
            "%%agent\nHow many species are there?",
            "ChatPanel(agent)",
            CHECKS,
            "%%agent\nHow heavy is a Gentoo?",
            "%%agent\nMy IBAN?",
            "ChatPanel(agent)",
            SUMMARISED,
            "%%agent\nThree?",
            SERVER,
            "%%agent\nReally?",
            "ChatPanel(agent)",
        ]
        page = lab.run("models.ipynb", cells)
        cell = page.locator(".jp-Cell")
        expect(cell.nth(9)).to_contain_text("page 3 of 8")
        picture(cell.nth(9), "progress")
        (tmp_path / "gate").touch()
        expect(cell.nth(15)).to_contain_text("really")
        cell.nth(16).locator(".nbagent-panel").wait_for()
        panels = page.locator(".nbagent-panel")
        expect(cell.nth(1)).to_contain_text("scripted:claude-sonnet-5: The model is overloaded. Going on with")
        expect(cell.nth(1).locator(".nbagent-foot")).to_contain_text("gpt-5.6-terra")
        expect(panels.nth(0)).to_contain_text("Going on with scripted:gpt-5.6-terra.")
        models = ["gpt-5.6-luna", "claude-sonnet-5", "species"]
        for number, answered in enumerate(models, 4):
            expect(cell.nth(number).locator(".nbagent-foot")).to_contain_text(answered)
        for foot, answered in zip(panels.nth(1).locator(".nbagent-foot").all(), models, strict=True):
            expect(foot).to_contain_text(answered)
        for shown in (cell.nth(9), panels.nth(2)):
            expect(shown).to_contain_text("Sent back: Name a number.")
        expect(cell.nth(10)).to_contain_text("The question was not sent: no account numbers")
        expect(cell.nth(13)).to_contain_text("summarised 2 old messages")
        for shown in (cell.nth(15), panels.nth(3)):
            expect(shown).to_contain_text("the vendor summarised the conversation so far")
    shown = {
        1: "fallback",
        2: "fallback-panel",
        6: "route",
        7: "router-panel",
        9: "checks",
        10: "guard",
        11: "checks-panel",
    }
    for index, name in {**shown, 13: "summarised", 15: "compacted", 16: "compacted-panel"}.items():
        picture(cell.nth(index), name)

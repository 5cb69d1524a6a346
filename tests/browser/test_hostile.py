"""Nothing that a model or a tool says runs, loads or covers anything in JupyterLab: not in cells, panel or trace."""

import json
import re
import time

import pytest
from support.hostile import FOUND, HOST, MATH, PAYLOADS, naive
from support.lab import LOAD, PATIENCE_S

pytestmark = pytest.mark.browser

#: In each page and frame: what calls itself `hit` is counted.
COUNT = "top.hits ??= []; window.hit = number => top.hits.push(number)"
#: Every payload gets a frame of its own, so that none affects another.
FRAMES = """pages => pages.forEach(page => {
  const frame = document.createElement("iframe")
  frame.srcdoc = page
  document.body.append(frame)
})"""
EACH = "[...document.querySelectorAll('iframe')].map(frame => frame.contentDocument?.body)"
CLICK = "each => each.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))"


class Watch:
    """Records requests to foreign servers, which are blocked, and dialogs."""

    def __init__(self, page, home=""):
        self.foreign, self.dialogs = [], []
        page.route(re.compile(re.escape(HOST)), lambda route: route.abort())
        page.on("request", lambda request: self._asked(request.url, home))
        page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))

    def _asked(self, url, home):
        if not url.startswith(("data:", "blob:", "about:")) and not (home and url.startswith(home)):
            self.foreign.append(url)


def test_every_attack_works_when_rendered_carelessly(lab):
    page = lab.blank()
    page.add_init_script(COUNT)
    page.route("http://careless.example/", lambda route: route.fulfill(body="<body>", content_type="text/html"))
    page.goto("http://careless.example/")
    watch = Watch(page)
    page.evaluate(FRAMES, [naive(payload.text) for payload in PAYLOADS])
    harmless, deadline = PAYLOADS, time.monotonic() + PATIENCE_S
    while harmless and time.monotonic() < deadline:
        page.wait_for_timeout(200)
        works = effects(page, watch)
        harmless = [payload for payload in harmless if payload.number not in works[payload.effect]]
    assert not harmless


def effects(page, watch):
    """The numbers of the payloads that worked, by effect. Afterwards everything is clicked, for the next check."""
    ran = set(page.evaluate("hits"))
    found = page.evaluate(f"() => {EACH}.map(body => body ? ({FOUND})([body]) : [])")
    page.evaluate(f"() => {EACH}.forEach(body => body?.querySelectorAll('a, button').forEach({CLICK}))")
    works = {"runs": ran, "clicked": ran}
    works["loads"] = {int(url.split("/")[3].partition("?")[0]) for url in watch.foreign if HOST in url}
    for effect in ("covers", "link", "control"):
        seen = (effect, "attribute data-")
        works[effect] = {n for n, what in enumerate(found) if any(each.startswith(seen) for each in what)}
    return works


SETUP = (
    LOAD
    + '''import json, pathlib
from IPython.display import HTML, display
from nbagent import Agent, ChatPanel, FunctionCall, LLMResponse, ScriptedProvider, live, tool
texts, math = json.loads(pathlib.Path("texts.json").read_text())
everything, first = "\\n\\n".join(texts), texts[0]
@tool
def echo(text: str) -> str:
    """Say it again: <script>hit(-1)</script> <img src=x onerror=hit(-1)>"""
    return text
@tool
def fail(text: str) -> str:
    """Fail."""
    raise ValueError(text)
@tool(approve=True)
def ask(text: str, **more: str) -> str:
    """Ask."""
    return text
calls = [FunctionCall(text, {text: text}, f"n{i}") for i, text in enumerate(texts)]
calls += [FunctionCall(name, {"text": text}, f"{name}{i}") for i, text in enumerate(texts) for name in ("echo", "fail")]
talk = LLMResponse("", calls, "tool_calls", {"thinking": everything})
question = FunctionCall("ask", {"text": everything, first: everything}, "q")
turns = [talk, everything, question, "denied", RuntimeError(everything), question, "denied", RuntimeError(everything)]
agent = Agent(ScriptedProvider(turns, model=first), tools=live)
from nbagent.providers.base import ListedModel
async def listed(): return list(map(ListedModel, texts))
agent.provider.provider_name, agent.provider.model_list = "mine", listed
formulas = Agent(ScriptedProvider(["\\n\\n".join(["$x^2$", *math])]))
'''
)
CELLS = {
    "setup": SETUP,
    "formulas": "%%agent formulas\nhow much is it?",
    "answer": "%%agent\nwhat do you say?",
    "question": "%%agent\nask me",
    "error": "%%agent\nfail",
    "file name": "await agent.chat([pathlib.Path(first)])",
    "trace": "agent.trace",
    "agent": "agent.system_prompt = everything[:200]\nagent",
    "tables": "display(agent.trace.tool_calls, agent.trace.runs, agent.trace.args('echo'))",
    "timeline": "_ = agent.trace.timeline()",
    "tools": "%agent tools",
    "panel": "panel = ChatPanel(agent)\npanel",
    "raw formulas": "HTML('<br>'.join(math))",
    "formulas panel": "ChatPanel(formulas)",
}
#: What we show: outputs and panels, tables of traces; and errors, of which Lab makes links itself.
OURS = ".nbagent, .jp-OutputArea-output table.mathjax_ignore"
ERRORS = ".jp-OutputArea-output[data-mime-type$=stderr] pre"


def run(page, name):
    """Start a cell and wait for its end."""
    start(page, name, then="return ")


def start(page, name, then=""):
    index = list(CELLS).index(name)
    execute = "window.jupyterapp.commands.execute('notebook:run-cell')"
    page.evaluate(f"i => {{window.jupyterapp.shell.currentWidget.content.activeCellIndex = i; {then}{execute}}}", index)


def deny(page, unfold=False):
    page.get_by_role("button", name="Deny", exact=True).first.wait_for()
    if unfold:
        page.get_by_role("button", name="Edit", exact=True).first.click()
    assert_harmless(page)
    page.get_by_role("button", name="Deny", exact=True).first.click()


def assert_harmless(page):
    ours, errors = page.evaluate(
        f"() => [`{OURS}`, `{ERRORS}`].map(each => ({FOUND})(document.querySelectorAll(each)))"
    )
    assert ours == []
    live = ("element", "attribute", "covers", "link javascript", "link vbscript")
    assert [each for each in errors if each.startswith(live)] == []


def until_text(page, text):
    page.wait_for_function("text => document.querySelector('.nbagent-panel').innerText.includes(text)", arg=text)


def say_in_panel(page, text):
    box = page.locator(".nbagent-row textarea").first
    box.press_sequentially(text, delay=20)
    box.press("Enter")


@pytest.fixture(scope="module")
def notebook(lab):
    """One page for all tests: the notebook after its first cell, and its `Watch`."""
    texts = [payload.text for payload in PAYLOADS]
    (lab.folder / "texts.json").write_text(json.dumps([texts, MATH]))
    page = lab.open("hostile.ipynb", list(CELLS.values()), prepare=lambda page: page.add_init_script(COUNT))
    watch = Watch(page, lab.url)
    run(page, "setup")
    return page, watch


def test_formulas_make_no_links_and_no_definitions(notebook):
    page, watch = notebook
    run(page, "formulas")
    run(page, "formulas panel")
    page.locator(".nbagent-panel mjx-container").nth(1).wait_for(state="attached")
    run(page, "raw formulas")
    careless = page.locator(".jp-OutputArea-output mjx-container:not(.nbagent *)")
    careless.nth(5).wait_for()
    assert careless.locator("a").count() == 1
    alive = ".nbagent:not(.nbagent-saved *)"
    assert page.locator(f"{alive} mjx-container").count() == 4  # x², and a formula that is none: in the cell, the panel
    assert page.locator(f"{alive} p").count() == 2 * (1 + len(MATH))
    assert_harmless(page)
    assert watch.foreign == []


def test_nothing_runs_or_loads_in_cells_panel_and_trace(notebook):
    page, watch = notebook
    run(page, "answer")
    start(page, "question")
    deny(page)
    page.wait_for_function("document.body.innerText.includes('denied: ask')")
    for name in ("error", "file name", "trace", "agent", "tables", "timeline", "tools", "panel"):
        run(page, name)
    page.locator("summary").evaluate_all("all => all.forEach(each => each.click())")
    say_in_panel(page, "ask")
    deny(page, unfold=True)
    say_in_panel(page, "fail")
    until_text(page, "RuntimeError")
    page.get_by_role("tab", name="Trace").first.click()
    until_text(page, "agent.trace.tool_calls")
    page.locator(".nbagent-model").first.click()  # it names a model that is called by an attack
    page.get_by_role("button", name="Ask mine for its list").first.click()
    until_text(page, f"mine lists {len(PAYLOADS)} models.")
    assert_harmless(page)
    other = page.get_by_placeholder("provider:model").first
    other.fill("mine")
    page.locator(".nbagent-picker-rows button").nth(40).wait_for()
    assert_harmless(page)
    other.fill("<img/src=x/onerror=hit(-2)>:m")
    page.get_by_role("button", name="Use <img").wait_for()
    assert_harmless(page)
    other.press("Enter")
    until_text(page, "Unknown provider")
    page.get_by_role("tab", name="Setup").first.click()
    assert_harmless(page)
    shown = 3 * len(PAYLOADS) + 3  # thinking, a group of each text as a name, an argument and an error; a question
    assert page.locator(".jp-OutputArea-output details:not(.nbagent-panel *, .nbagent-saved *)").count() == shown
    assert page.locator(".nbagent-saved details").count() > shown  # what readers without a kernel see
    assert page.locator(".nbagent-panel details").count() == shown + 1  # and the question that the panel asked
    assert page.locator(ERRORS).count() == 2
    assert page.locator("table.mathjax_ignore").count() == 2
    assert page.locator(".jp-OutputArea-output .nbagent.mathjax_ignore > table").count() == 3  # trace, agent, tools
    assert page.locator(".jp-OutputArea-output img").count() == 1  # the timeline
    page.wait_for_timeout(500)
    assert page.evaluate("hits") == []
    assert watch.foreign == []
    assert watch.dialogs == []

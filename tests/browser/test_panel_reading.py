"""Writing and reading in the panel: earlier questions, leaving an edit, a calm page, the reader's place."""

import pytest
from playwright.sync_api import expect
from support.lab import ask, throttle

pytestmark = pytest.mark.browser

SETUP = """%load_ext nbagent
from nbagent import Agent, ChatPanel, ScriptedProvider
"""


def opened(lab, name, code, theme="JupyterLab Light"):
    page = lab.run(name, [SETUP, code], theme)
    page.get_by_placeholder("Ask anything").first.wait_for()
    return page, page.get_by_role("region", name="Chat with an agent")


def asks(panel, text, answered):
    ask(panel, text)
    panel.get_by_role("log").get_by_text(answered).first.wait_for()


def test_up_recalls_earlier_questions_and_escape_leaves_an_edit(lab):
    code = "agent = Agent(ScriptedProvider(['first', 'second']))\nChatPanel(agent)"
    _, panel = opened(lab, "recall.ipynb", code)
    box = panel.get_by_label("Your prompt")
    box.press("ArrowUp")
    expect(box).to_have_value("")
    asks(panel, "one\ntwo <b>", "first")
    asks(panel, "three", "second")
    for key, value in (("ArrowUp", "three"), ("ArrowUp", "one\ntwo <b>")):
        box.press(key)
        expect(box).to_have_value(value)
    box.press("ArrowUp")  # moves to its first line
    assert box.evaluate("box => box.selectionStart") < len("one\n")
    for key, value in (("Control+End", "one\ntwo <b>"), ("ArrowDown", "three"), ("ArrowDown", "")):
        box.press(key)
        expect(box).to_have_value(value)
    box.fill("typed")
    expect(panel.locator(".nbagent-draft")).to_contain_text("tokens")  # the kernel knows the text
    box.press("ArrowUp")
    expect(box).to_have_value("typed")
    edit = panel.get_by_role("button", name="Edit", exact=True).last
    edit.press("Enter")
    expect(box).to_have_value("three")
    expect(panel.get_by_role("status")).to_contain_text("Escape keeps the old one")
    box.press("Escape")
    expect(box).to_have_value("")
    expect(edit).to_have_attribute("aria-pressed", "false")
    assert panel.locator(".nbagent-you").all_inner_texts() == ["one\ntwo <b>", "three"]


STREAM = """answer = "First words. " + "More of the same, in a long paragraph. " * 100
agent = Agent(ScriptedProvider(["earlier line\\n\\n" * 40, answer, "short"], delay=0.02))
ChatPanel(agent, height="300px")"""
#: In the page: the frames in which its socket read the words and in which they were shown, and what moved by itself.
WATCH = """() => {
    delete window.shown;
    let frame = 0;
    const count = () => requestAnimationFrame(() => (frame += 1, count()));
    count();
    const original = Object.getOwnPropertyDescriptor(MessageEvent.prototype, "data");
    Object.defineProperty(MessageEvent.prototype, "data", {configurable: true, get() {
        const data = original.get.call(this);
        const text = data instanceof ArrayBuffer ? new TextDecoder().decode(data) : "";
        if (text.includes('"patch"') && text.includes("First")) {
            window.read = frame;
            Object.defineProperty(MessageEvent.prototype, "data", original);
        }
        return data;
    }});
    const has = () => document.querySelector(".nbagent-log").innerText.includes("First");
    new MutationObserver(() => { if (!("shown" in window) && has()) window.shown = frame; })
        .observe(document.querySelector(".nbagent-log"), {childList: true, subtree: true, characterData: true});
    window.moved = [];
    new PerformanceObserver(seen => seen.getEntries().flatMap(each => each.sources)
        .filter(each => each.node?.closest?.(".jp-Cell") && !each.node.closest(".nbagent-chat"))
        .filter(each => each.previousRect.y != each.currentRect.y)
        .forEach(each => window.moved.push([each.node.className, each.previousRect.y, each.currentRect.y])))
        .observe({type: "layout-shift"});
}"""
#: Selects a few words of the last answer that has them.
SELECT = """words => {
    const pieces = [...document.querySelectorAll(".nbagent-log .nbagent-piece")];
    const last = pieces.findLast(each => each.innerText.includes(words));
    const texts = document.createTreeWalker(last, NodeFilter.SHOW_TEXT);
    while (!texts.nextNode().data.includes(words));
    const [node, start] = [texts.currentNode, texts.currentNode.data.indexOf(words)];
    getSelection().setBaseAndExtent(node, start, node, start + words.length);
}"""
SELECTED = "getSelection().toString()"
LENGTH = "document.querySelector('.nbagent-log').innerText.length"
#: Where the second question stands in the conversation, in pixels below its upper edge.
PLACE = """() => document.querySelectorAll(".nbagent-you")[1].getBoundingClientRect().y
    - document.querySelector(".nbagent-chat").getBoundingClientRect().y"""


def grows(page, by=200):
    page.wait_for_function(f"length => {LENGTH} > length", arg=page.evaluate(LENGTH) + by)


LONG = """agent = Agent(ScriptedProvider(["- one *of* `many`\\n" * 500, "More of the *same*. " * 200], delay=0.03))
ChatPanel(agent)"""


def test_an_answer_that_streams_has_only_what_is_new_styled(lab):
    """A conversation of 2,000 elements is not styled again for each piece: no time is measured, but elements."""
    page, panel = opened(lab, "styled.ipynb", LONG)
    asks(panel, "one", "many")
    panel.locator(".nbagent-foot").wait_for()
    asks(panel, "two", "More of")
    client, seen, done = page.context.new_cdp_session(page), [], []
    client.on("Tracing.dataCollected", lambda data: seen.extend(data["value"]))
    client.on("Tracing.tracingComplete", lambda data: done.append(data))
    client.send("Tracing.start", {"traceConfig": {"includedCategories": ["devtools.timeline"]}})
    grows(page)
    client.send("Tracing.end")
    while not done:
        page.wait_for_timeout(10)  # hands over what the browser has sent
    styled = [each["args"]["elementCount"] for each in seen if each["name"] == "UpdateLayoutTree" and each["ph"] == "X"]
    assert styled
    assert max(styled) < 500


def test_an_answer_streams_without_disturbing_its_reader(lab):
    page = lab.run("calm.ipynb", [SETUP, STREAM, "'a cell below'"])
    panel = page.get_by_role("region", name="Chat with an agent")
    panel.get_by_placeholder("Ask anything").wait_for()
    asks(panel, "one", "earlier line")
    panel.locator(".nbagent-foot").wait_for()
    page.evaluate(WATCH)
    panel.get_by_label("Your prompt").press_sequentially("two")
    expect(panel.locator(".nbagent-draft")).to_contain_text("tokens")
    panel.get_by_label("Your prompt").press("Enter")
    page.wait_for_function("'shown' in window")
    assert page.evaluate("window.shown - window.read") == 0, "the frame that follows paints them"
    for words in ("First words.", "earlier line"):
        panel.locator(".nbagent-piece", has_text=words).first.wait_for()
        page.evaluate(SELECT, words)
        grows(page)
        assert page.evaluate(SELECTED) == words
    latest = panel.get_by_role("button", name="Jump to latest")
    expect(latest).to_be_hidden()
    page.evaluate("document.querySelector('.nbagent-chat').scrollTop -= 200")
    place = page.evaluate(PLACE)
    grows(page)
    assert abs(page.evaluate(PLACE) - place) < 2
    latest.click()
    expect(latest).to_be_hidden()
    panel.locator(".nbagent-foot").nth(1).wait_for()
    assert page.evaluate("window.moved") == [], "the page stands still"


def test_a_page_that_is_loaded_again_shows_what_was_read(lab):
    # a page of its own: once loaded again, JupyterLab opens the notebook of its address some time later, over others
    page = lab.open("place.ipynb", [SETUP, STREAM], prepare=throttle)
    lab.command(page, "notebook:run-all-cells")
    panel = page.get_by_role("region", name="Chat with an agent")
    panel.get_by_placeholder("Ask anything").wait_for()
    asks(panel, "one", "earlier line")
    asks(panel, "two", "First words.")
    panel.locator(".nbagent-foot").nth(1).wait_for()
    page.wait_for_function("() => !document.querySelector('.nbagent-jump')")
    with page.expect_event("console", lambda message: message.text == "scrolled"):
        chat = panel.get_by_role("tabpanel", name="Chat")
        chat.evaluate("chat => chat.addEventListener('scrollend', () => console.log('scrolled'))")
        chat.evaluate("chat => { chat.scrollTop = 100 - chat.scrollHeight + chat.clientHeight }")
    place = page.evaluate(PLACE)
    lab.command(page, "docmanager:save")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    page.reload()
    panel.locator(".nbagent-foot").nth(1).wait_for()
    assert abs(page.evaluate(PLACE) - place) < 2
    panel.get_by_role("button", name="Jump to latest").click()
    assert page.evaluate(PLACE) < 300
    panel.get_by_role("tab", name="Setup").click()
    panel.get_by_label("System prompt").wait_for()
    page.reload()
    expect(panel.get_by_role("tab", name="Setup")).to_have_attribute("aria-selected", "true")
    expect(panel.get_by_label("System prompt")).to_be_visible()
    lab.close_others()

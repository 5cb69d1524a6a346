"""The chat page of a started server, in Chromium: streaming, tools, approval, stop, keyboard, themes, hostile text."""

import asyncio
import re
import threading
from collections import defaultdict

import pytest
from playwright.sync_api import expect
from support.axe import serious
from support.files import give, png
from support.hostile import FOUND, HOST, PAYLOADS
from support.lab import FLAGS, PATIENCE_S, chromium, playwright, throttle
from support.serving import TOKEN, served

from nbagent import Agent, FunctionCall, LLMMessage, LLMResponse, ScriptedProvider, Usage, tool
from nbagent.core.content.images import images_in
from nbagent.core.events import Text
from nbagent.server.conversations.store import Spent
from nbagent.server.tokens import owner_of

pytestmark = pytest.mark.browser

TABLE = """**Gentoo** penguins are heaviest, on average **1,343 g** more than Chinstrap.

| species | mean body mass (g) |
|---|---:|
| Gentoo | 5,076.0 |
| Chinstrap | 3,733.1 |
| Adelie | 3,700.7 |

```python
penguins.groupby("species")["body_mass_g"].mean()  # in grams
```
"""
CODE = 'clean = penguins.dropna(subset=["sex"])\nprint(len(penguins), len(clean))'
HEAVIEST = "Which species is heaviest, and by how much?"
DROP = "Drop the rows without a sex, then plot mass by species."
UNFOLD = "all => all.forEach(each => each.parentElement.open = true)"
CLICK_ALL = "all => all.forEach(each => each.dispatchEvent(new MouseEvent('click')))"
#: A million brackets make parsers slow.
LONG = "[" * 2**20
#: A stream of the page that ends too early.
BROKEN_OFF = 'data: {"turns": {"t": {"pieces": {}, "order": [], "live": true, "question": ""}}}\n\n'
COUNT = "window.hits = []; window.hit = number => window.hits.push(number)"


def mean_by(column: str, group: str) -> dict:
    """Mean of a column for each value of a group."""
    return {"Adelie": 3700.7, "Chinstrap": 3733.1, "Gentoo": 5076.0}


def count_by(group: str) -> dict:
    """Number of rows for each value of a group."""
    raise ValueError(f"there is no column {group!r}")


def answer(messages, functions):
    """What the model says."""
    last = messages[-1]
    if last.role == "user" and last.text == DROP:
        calls = [FunctionCall("run_code", {"code": CODE})]
        return LLMResponse("I drop the rows first.", calls, "tool_calls", {"usage": Usage(1310, 40)})
    if last.role == "user":
        calls = [FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"})]
        calls += [FunctionCall("count_by", {"group": "specie"})]
        thinking = "The column body_mass_g holds the mass. I group it by species."
        return LLMResponse("", calls, "tool_calls", {"thinking": thinking, "usage": Usage(602, 40, 490)})
    if last.name == "run_code":
        done = "I leave the rows as they are." if last.is_error else "Dropped 11 of 344 rows."
        return LLMResponse(done, None, "stop", {"usage": Usage(1400, 20)})
    return LLMResponse(TABLE, None, "stop", {"usage": Usage(602, 46, 490), "quoted": True})


def penguin_agent():
    @tool(approve=True)
    def run_code(code: str) -> str:
        """Run code."""
        return "344 rows, 333 of them with a sex"

    price = {"input": 3, "output": 15}
    return Agent(ScriptedProvider(answer, model="claude-sonnet-5", price=price), tools=[mean_by, count_by, run_code])


@pytest.fixture(scope="module")
def browser():
    """One Chromium for all tests of this file."""
    started = playwright().chromium.launch(executable_path=chromium(), args=FLAGS)
    yield started
    started.close()


@pytest.fixture
def visit(browser):
    """`visit(server)` opens the page in a context of its own; what the page logs as an error fails the test."""
    contexts, errors = [], []

    def visit(server, *, token=TOKEN, size=(1100, 800), **options):
        viewport = {"width": size[0], "height": size[1]}
        context = browser.new_context(viewport=viewport, reduced_motion="reduce", **options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE_S * 1000)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.add_init_script(COUNT)
        page.goto(f"{server.url}/#token={token}" if token else f"{server.url}/")
        return page

    yield visit
    for context in contexts:
        context.close()
    # a request that fails, such as the first one without a token, is no error of the page
    assert [error for error in errors if "Failed to load resource" not in error] == []


def ask(page, text):
    box = page.get_by_role("textbox", name="Your prompt")
    box.fill(text)
    box.press("Enter")


def finished(page, answers=1):
    """Wait until this many answers are complete."""
    expect(page.locator(".nbagent-foot")).to_have_count(answers)


def test_an_answer_streams_in_with_its_thinking_and_tools(visit):
    with served(penguin_agent()) as server:
        page = visit(server)
        ask(page, HEAVIEST)
        finished(page)
        expect(page.locator(".nbagent-you")).to_have_text(HEAVIEST)
        expect(page.locator("summary").nth(0)).to_contain_text("Thought")
        page.locator("summary").evaluate_all(UNFOLD)
        call = page.locator("details").filter(has_text='mean_by(column="body_mass_g", group="species")').last
        expect(call.locator("pre").nth(1)).to_have_text('{"Adelie": 3700.7, "Chinstrap": 3733.1, "Gentoo": 5076.0}')
        expect(page.locator("summary").filter(has_text="count_by(")).to_contain_text("✗ error")
        expect(page.locator(".nbagent-piece td")).to_have_count(6)
        expect(page.locator(".nbagent-piece .nbagent-comment")).to_have_text("# in grams")
        expect(page.locator(".nbagent-foot")).to_contain_text(
            re.compile(r"claude-sonnet-5\s*1,204 in \(980 cached\)\s*86 out")
        )
        expect(page.locator(".nbagent-facts span").last).to_have_text("quoted from the tool")
        expect(page.get_by_role("status")).to_contain_text("Gentoo penguins are heaviest")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        for name, text in (("answer as Markdown", TABLE), ("code", TABLE.split("\n")[-3])):
            page.get_by_role("button", name=f"Copy the {name}").click()
            expect(page.get_by_role("button", name="Copied")).to_be_visible()
            assert page.evaluate("navigator.clipboard.readText()") == text
            expect(page.get_by_role("button", name="Copied")).to_have_count(0)


SUM = " + ".join(f"x_{{{n}}}" for n in range(40))
FORMULAS = r"""Let $\frac{a}{b}$ be $\href{javascript:hit(1)}{x}$, $\unicode{x41}$ and $\frac{a}$.

$$\begin{aligned} SUM &= 1 \\ y &= \text{<b>} \end{aligned}$$""".replace("SUM", SUM)


def test_formulas_are_drawn_and_other_tex_stays(visit):
    with served(Agent(ScriptedProvider([FORMULAS]))) as server:
        page = visit(server, color_scheme="dark", size=(390, 800))
        ask(page, "Formulas?")
        finished(page)
        for formula in (page.locator("math").first, page.locator("math[display=block]")):
            assert all(formula.bounding_box()[side] > 10 for side in ("width", "height"))
            expect(formula).to_have_css("color", "rgb(230, 232, 235)")
        expect(page.locator("math")).to_have_count(2)
        expect(page.locator(".nbagent-piece p").first).to_contain_text(r"$\href{javascript:hit(1)}{x}$")
        expect(page.locator("math[tabindex]")).to_have_attribute("display", "block")  # scrolls
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert serious(page, "body") == []


def test_a_browser_in_chinese_gets_its_words(visit):
    with served(penguin_agent()) as server:
        page = visit(server, token="", locale="zh-CN")
        page.get_by_label("请输入服务器启动时打印的令牌。").fill(TOKEN)
        page.get_by_role("button", name="打开").click()
        expect(page.get_by_text("想了解什么？")).to_be_visible()
        expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
        page.get_by_role("textbox", name="你的问题").fill(DROP)
        page.get_by_role("button", name="发送").click()
        expect(page.get_by_role("alert")).to_contain_text("run_code 请求运行 （在服务器上）")
        page.get_by_role("textbox", name="理由").fill("Send")
        page.get_by_role("button", name="拒绝").click()
        finished(page)
        page.get_by_role("textbox", name="你的问题").fill("Send")  # what people write stays
        page.keyboard.press("Enter")
        finished(page, 2)
        expect(page.locator(".nbagent-you").last).to_have_text("Send")
        expect(page.get_by_role("button", name="新对话")).to_be_visible()


class Slow(ScriptedProvider):
    """Says a word of the answer to a question each time that this question's `going` is released."""

    def __init__(self):
        super().__init__(["unused"])
        self.going, self.left = defaultdict(lambda: threading.Semaphore(0)), threading.Event()

    async def stream(self, request):
        going = self.going[request.messages[-1].text]
        try:
            for number in range(1_000):
                while not going.acquire(blocking=False):
                    await asyncio.sleep(0.005)
                yield Text(f"word{number} ")
        finally:
            self.left.set()


def test_words_appear_as_they_come_and_escape_stops(visit):
    provider = Slow()
    with served(Agent(provider)) as server:
        page = visit(server)
        ask(page, "Count.")
        for number in range(3):
            provider.going["Count."].release()
            expect(page.locator(".nbagent-entry")).to_contain_text(f"word{number}")
        expect(page.get_by_role("button", name="Send", exact=True)).to_have_count(0)
        page.keyboard.press("Escape")
        finished(page)
        expect(page.locator(".nbagent-entry")).to_contain_text("Interrupted.")
        assert provider.left.wait(PATIENCE_S)
        expect(page.get_by_role("button", name="Stop")).to_have_count(0)
        ask(page, "Again.")
        provider.going["Again."].release()
        expect(page.locator(".nbagent-entry").nth(1)).to_contain_text("word0")
        ask(page, "And this?")
        expect(page.locator(".nbagent-said").last).to_contain_text("Waiting…")
        page.get_by_role("button", name="Stop").click()
        finished(page, 2)
        expect(page.get_by_role("textbox", name="Your prompt")).to_have_value("And this?")
        page.route("**/page/stop", lambda route: route.abort())  # as if another process had the run
        ask(page, "Once more.")
        provider.going["Once more."].release()
        expect(page.locator(".nbagent-entry").nth(2)).to_contain_text("word0")
        page.get_by_role("button", name="Stop").click()
        expect(page.locator(".nbagent-entry").nth(2)).to_contain_text("You stopped the answer.")
        page.unroute_all()


def test_a_failed_decision_can_be_repeated_and_a_broken_connection_is_reported(visit):
    with served(penguin_agent()) as server:
        page = visit(server)
        page.get_by_role("textbox", name="Your prompt").wait_for()
        page.route("**/agent/approvals/*", lambda route: route.abort())
        ask(page, DROP)
        page.get_by_role("button", name="Approve").click()
        expect(page.locator(".nbagent-notice")).to_have_text("The server does not answer.")
        page.unroute_all()
        page.get_by_label("Reason").fill("not today")
        page.get_by_role("button", name="Deny").click()
        finished(page)
        assert "not today" in server.client().get(f"/agent/conversations/{page.url.partition('=')[2]}").text
        page.route("**/page/chat", lambda route: route.fulfill(status=200, body=BROKEN_OFF))
        ask(page, DROP)
        expect(page.locator(".nbagent-entry").last).to_contain_text("The connection to the server broke.")
        page.unroute_all()
        page.route("**/page/chat", lambda route: route.abort())
        ask(page, HEAVIEST)
        expect(page.get_by_role("textbox", name="Your prompt")).to_have_value(HEAVIEST)  # given back
        expect(page.locator(".nbagent-notice")).to_have_text("The server does not answer.")
        page.unroute_all()


def test_each_of_two_waiting_calls_keeps_its_buttons_and_reason(visit):
    @tool(approve=True)
    def wipe(table: str) -> str:
        return f"wiped {table}"

    calls = [FunctionCall("wipe", {"table": table}) for table in ("towns", "rivers")]
    with served(Agent(ScriptedProvider([LLMResponse("", calls), "Done."]), tools=[wipe])) as server:
        page = visit(server)
        ask(page, "wipe both")
        towns, rivers = (page.locator(".nbagent-ask").filter(has_text=each) for each in ("towns", "rivers"))
        rivers.get_by_label("Reason").fill("not today")
        towns.get_by_role("button", name="Approve").click()
        expect(towns).to_have_count(0)
        rivers.get_by_role("button", name="Deny").click()
        finished(page)
        conversation = server.client().get(f"/agent/conversations/{page.url.partition('=')[2]}").text
        assert [text in conversation for text in ("wiped towns", "wiped rivers", "not today")] == [True, False, True]


def test_a_new_conversation_greets_with_the_tools_and_a_prompt(visit):
    with served(penguin_agent()) as server:
        page = visit(server)
        expect(page.locator(".nbagent-greeting li")).to_have_text(
            [*(re.compile(n) for n in ("mean_by", "count_by", "run_code"))]
        )
        page.get_by_role("button", name="What can you do here?").click()
        finished(page)
        expect(page.locator(".nbagent-greeting")).to_be_hidden()
        for _ in range(3):
            ask(page, HEAVIEST)
        finished(page, 4)
        expect(page.locator(".nbagent-jump")).to_have_count(0)
        page.locator(".nbagent-chat").evaluate("chat => chat.scrollTop = -chat.scrollHeight")
        page.get_by_role("button", name="Jump to latest").click()
        expect(page.locator(".nbagent-entry").last).to_be_in_viewport()
        absent = [".nbagent-top", ".nbagent-pencil", "[aria-label=Retry]"]
        assert [name for name in absent if page.locator(f"{name}:visible").count()] == []


def test_files_are_attached_sent_and_shown_with_their_turn(visit):
    provider = ScriptedProvider(["Teal.", "Both."])
    with served(Agent(provider), max_body_bytes=2_000_000) as server:
        page = visit(server)
        box, chips = page.get_by_role("textbox", name="Your prompt"), page.locator(".nbagent-attached")
        with page.expect_file_chooser() as chosen:
            page.get_by_role("button", name="Attach files").press("Enter")
        chosen.value.set_files({"name": "masses.csv", "mimeType": "text/csv", "buffer": b"species,mass\nGentoo,5076\n"})
        expect(chips).to_have_text("masses.csv25 bytes✕")
        give(box, "paste", ("image.png", "image/png", png(30, 20)))
        expect(chips).to_have_count(2)
        expect(chips.locator("img")).to_have_js_property("naturalWidth", 30)
        give(box, "drop", ("notes.txt", "text/plain", b"Use the median."))
        page.get_by_role("button", name="Remove masses.csv").press("Enter")
        expect(chips.locator("b")).to_have_text(["image.png", "notes.txt"])
        assert serious(page, "body") == []
        give(box, "drop", ("film.mp4", "video/mp4", bytes(2_000_000)))
        expect(page.get_by_role("alert")).to_have_text(
            "Attach at most 1 MB of files, and no folders: film.mp4 was left out."
        )
        give(box, "drop", ("model.bin", "", b"\xff\x00"))
        ask(page, "Which colour?")
        expect(page.get_by_role("alert")).to_contain_text("model.bin can't be attached: it is neither UTF-8 text nor")
        expect(box).to_have_value("Which colour?")
        expect(chips).to_have_count(3)
        page.get_by_role("button", name="Remove model.bin").click()
        box.press("Enter")
        finished(page)
        expect(chips).to_have_count(0)
        (image,) = images_in(provider.requests[0][0][-1].content)
        assert image.size == (30, 20)
        assert "Use the median." in provider.requests[0][0][-1].text
        page.reload()
        expect(page.get_by_role("list").get_by_role("button")).to_have_text("Which colour?")
        page.locator("summary").evaluate_all(UNFOLD)
        expect(page.locator(".nbagent-said summary code")).to_have_text(["image.png", "notes.txt"])
        expect(page.locator(".nbagent-said img")).to_have_js_property("naturalWidth", 30)
        give(box, "drop", ("notes.txt", "text/plain", b"And the mean."))
        expect(chips).to_have_count(1)
        box.press("Enter")  # without a text
        finished(page, 2)
        assert "And the mean." in provider.requests[1][0][-1].text


def test_one_of_several_agents_is_chosen(visit):
    agents = {name: Agent(ScriptedProvider([f"I am {name}."])) for name in ("one", "two")}
    with served(agents) as server:
        page = visit(server)
        page.get_by_role("combobox", name="Agent").select_option("two")
        ask(page, "Who are you?")
        finished(page)
        expect(page.locator(".nbagent-piece p")).to_have_text("I am two.")


def test_everything_works_by_keyboard(visit):
    with served(penguin_agent()) as server:
        page = visit(server, token="")
        throttle(page)
        expect(page.get_by_role("textbox")).to_be_focused()
        page.keyboard.type("wrong-token-wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_have_text("The server does not know that token.")
        page.keyboard.type(TOKEN)
        page.keyboard.press("Enter")
        expect(page.get_by_role("textbox", name="Your prompt")).to_be_focused()
        page.keyboard.type("one")
        page.keyboard.press("Shift+Enter")
        page.keyboard.type("two")
        page.keyboard.press("Enter")
        finished(page)
        expect(page.locator(".nbagent-you")).to_have_text("one\ntwo")
        page.keyboard.type(DROP)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Approve").wait_for()
        while page.evaluate("document.activeElement.textContent") != "Approve":
            page.keyboard.press("Shift+Tab")
        page.keyboard.press("Enter")
        finished(page, 2)
        expect(page.get_by_role("textbox", name="Your prompt")).to_be_focused()
        while page.evaluate("document.activeElement.id") != "new":
            page.keyboard.press("Shift+Tab")
        page.keyboard.press("Enter")
        expect(page.locator(".nbagent-foot")).to_have_count(0)
        expect(page.get_by_role("textbox", name="Your prompt")).to_be_focused()


def test_conversations_are_listed_and_go_on(visit):
    with served(penguin_agent()) as server:
        page = visit(server)
        ask(page, HEAVIEST)
        finished(page)
        page.get_by_role("button", name="New conversation").click()
        ask(page, DROP)
        page.get_by_role("button", name="Approve").click()
        finished(page)
        earlier = page.get_by_role("list").get_by_role("button")
        expect(earlier).to_have_text([re.compile("^Drop"), re.compile("^Which")])
        earlier.nth(1).click()
        expect(earlier.first).to_have_css("background-color", "rgba(0, 0, 0, 0)")
        expect(page.locator(".nbagent-you")).to_have_text(HEAVIEST)
        expect(page.locator(".nbagent-piece td")).to_have_count(6)
        expect(page.locator("summary").filter(has_text="_by(")).to_have_count(2)
        expect(page.locator("summary").filter(has_text="Thought")).to_have_count(1)
        expect(page.locator(".nbagent-facts")).to_contain_text("claude-sonnet-5")
        ask(page, DROP)
        page.get_by_role("button", name="Deny").wait_for()
        earlier.nth(1).click()  # it is shown already, and goes on
        page.get_by_role("button", name="Deny").click()
        expect(page.locator(".nbagent-entry").last).to_contain_text("as they are")
        expect(earlier.first).to_have_text(re.compile("^Which"))
        page.reload()
        expect(page.locator(".nbagent-you")).to_have_text([HEAVIEST, DROP])


def test_the_token_stays_in_the_tab_and_leaves_the_address(visit):
    with served(penguin_agent()) as server:
        page = visit(server)
        page.get_by_role("textbox", name="Your prompt").wait_for()
        assert page.url == f"{server.url}/"
        page.reload()
        page.get_by_role("textbox", name="Your prompt").wait_for()
        assert page.evaluate("[document.cookie, localStorage.length]") == ["", 0]
        page.evaluate("sessionStorage.setItem('nbagent-token', 'old-and-not-known')")
        page.reload()
        expect(page.get_by_role("alert")).to_have_text("The server does not know that token.")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1100), ("dark", 1100), ("dark", 390)])
def test_both_themes_are_accessible_at_each_width(visit, picture, scheme, width):
    with served(penguin_agent()) as server:
        page = visit(server, token="", color_scheme=scheme, size=(width, 800))
        page.get_by_role("textbox").wait_for()
        assert serious(page, "body") == []
        page.get_by_role("textbox").fill(TOKEN)
        page.get_by_role("button", name="Open").click()
        page.locator(".nbagent-greeting li").first.wait_for()
        assert serious(page, "body") == []
        ask(page, HEAVIEST)
        finished(page)
        page.locator("summary").nth(1).click()
        ask(page, DROP)
        page.get_by_role("button", name="Approve").wait_for()
        assert serious(page, "body") == []
        for each in (1440, 800, width):
            page.set_viewport_size({"width": each, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), each
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 20, 24)"}[scheme]
        if width == 1100:
            picture(page, f"page-{scheme}")
        page.get_by_role("button", name="Deny").click()
        finished(page, 2)
        if width < 760:
            page.get_by_role("button", name="Conversations").click()
            page.get_by_role("button", name="New conversation").wait_for()
            assert serious(page, "body") == []


# -- hostile text -----------------------------------------------------------------------------------------------------

TEXTS = [payload.text for payload in PAYLOADS]
EVERYTHING = "\n\n".join(TEXTS)


def hostile_agent():
    @tool
    def echo(text: str) -> str:
        """Say it again."""
        return text

    @tool(approve=True)
    def ask_first(text: str, **more: str) -> str:
        """Ask."""
        return text

    calls = [FunctionCall(text, {text: text}, f"n{i}") for i, text in enumerate(TEXTS)]
    calls += [FunctionCall("echo", {"text": text}, f"e{i}") for i, text in enumerate(TEXTS)]
    talk = LLMResponse(EVERYTHING, calls, "tool_calls", {"thinking": EVERYTHING})
    question = FunctionCall("ask_first", {"text": EVERYTHING, TEXTS[0]: EVERYTHING}, "q")
    turns = [talk, EVERYTHING, question, EVERYTHING, [FunctionCall("echo", {"text": LONG})], LONG]
    return Agent(ScriptedProvider(turns, model=TEXTS[0]), tools=[echo, ask_first])


async def remember(store, texts):
    """Keep a conversation with each of these texts as its title."""
    for number, text in enumerate(texts):
        async with store.turn(owner_of(TOKEN), f"c{number}") as turn:
            await store.save(owner_of(TOKEN), Spent(0, 0), turn=turn, messages=[LLMMessage("user", text)])


def test_nothing_that_a_model_or_a_tool_says_runs_or_loads(visit):
    with served(hostile_agent(), max_body_bytes=50 * 2**20) as server:
        page = visit(server)
        foreign, dialogs = [], []
        page.route(re.compile(re.escape(HOST)), lambda route: route.abort())
        page.on("request", lambda request: request.url.startswith(server.url) or foreign.append(request.url))
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))

        def check():
            page.locator("summary").evaluate_all(UNFOLD)
            assert page.evaluate(f"() => ({FOUND})(document.querySelectorAll('{OURS}'))") == []
            assert page.evaluate("window.hits") == []
            assert (foreign, dialogs) == ([], [])

        ask(page, EVERYTHING)
        finished(page)
        expect(page.locator("summary code", has_text="echo(text=")).to_have_count(len(TEXTS))
        check()
        ask(page, TEXTS[0])
        page.get_by_role("button", name="Deny").wait_for()
        expect(page.locator(".nbagent-ask pre")).to_contain_text("tagged")
        check()
        page.get_by_role("button", name="Deny").click()
        finished(page, 2)
        check()
        ask(page, "Say much.")
        finished(page, 3)
        expect(page.locator(".nbagent-plain").last).to_have_text(LONG)
        server.run(remember(server.host.store, TEXTS))
        page.reload()
        titles = page.get_by_role("list", name="Earlier").get_by_role("button")
        for shown in range(20, len(TEXTS), 20):
            expect(titles).to_have_count(shown)
            page.get_by_role("button", name="Show more").click()
        expect(titles).to_have_count(len(TEXTS) + 1)
        check()
        titles.last.click()  # the conversation as it is stored
        expect(page.locator(".nbagent-entry")).to_have_count(3)
        expect(page.locator(".nbagent-entry").nth(1)).to_contain_text("tagged")
        page.locator(".nbagent-piece a").evaluate_all(CLICK_ALL)
        check()


#: What holds text of others: titles, questions, answers, calls, questions to the person.
OURS = ".nbagent-question, .nbagent-piece, .nbagent-ask [role=alert], #list span, .nbagent-greeting li, .nbagent-foot"

"""The built documentation in Chromium: its pages load nothing from elsewhere, fit a narrow window, and are found."""

import re

import pytest
from playwright.sync_api import expect
from support.documentation import BUILT, served_documentation
from support.lab import FLAGS, chromium, playwright
from support.serving import TOKEN, served

from nbagent import Agent, FunctionCall, ScriptedProvider

pytestmark = pytest.mark.browser

PAGES = [
    "index", "start", "tutorials/03_traces", "how-to/limits", "how-to/coming-from", "reference/options",
    "reference/trace", "explanation/peers", "try", "zh/start", "zh/providers",
]  # fmt: skip


def mean(numbers: list[float]) -> float:
    """The mean of numbers."""
    return sum(numbers) / len(numbers)


@pytest.fixture(scope="module")
def address():
    with served_documentation() as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    browser = playwright().chromium.launch(executable_path=chromium(), args=FLAGS)
    yield browser
    browser.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_load_nothing_from_elsewhere_and_fit_into_a_narrow_window(browser, address, scheme):
    context = browser.new_context(base_url=address, viewport={"width": 800, "height": 1000}, color_scheme=scheme)
    page = context.new_page()
    asked, errors = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(error))
    for name in PAGES:
        page.goto(f"/{name}.html")
        expect(page.locator("html")).to_have_attribute("data-theme", scheme)
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0, name
    assert not errors
    assert [url for url in asked if not url.startswith((address, "data:"))] == []
    context.close()


@pytest.mark.parametrize(
    ("words", "title"),
    [("why did it stop", "Why did it stop?"), ("编程套餐", "模型提供商"), ("审批", "工具：把函数交给模型")],
)
def test_a_search_in_either_language_finds_the_page_of_that_name_first(browser, address, words, title):
    page = browser.new_page(base_url=address)
    page.goto(f"/search.html?q={words}")
    expect(page.locator("ul.search > li > a").first).to_have_text(title)
    page.close()


def test_the_page_of_plain_javascript_shows_a_streamed_answer(browser, tmp_path):
    page = (BUILT.parents[1] / "how-to/web-page.md").read_text("utf-8")
    html, file = re.search(r"```html\n(.*?)```", page, re.DOTALL)[1], tmp_path / "index.html"
    agent = Agent(ScriptedProvider([FunctionCall("mean", {"numbers": [1, 2, 6]}), "It is 3."]), tools=[mean])
    tab = browser.new_page()
    tab.on("dialog", lambda dialog: dialog.accept(TOKEN))
    file.touch()
    with served_documentation(tmp_path) as origin, served(agent, origins=[origin]) as server:
        file.write_text(html.replace("http://127.0.0.1:8000", server.url), "utf-8")
        tab.goto(origin)
        tab.get_by_role("button").click()
        expect(tab.locator("pre")).to_have_text('[mean {"numbers":[1,2,6]}]\nIt is 3.\n')
        tab.close()

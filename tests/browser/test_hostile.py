"""Nothing that a model or a tool says runs, loads or covers anything in JupyterLab: not in cells, panel or trace."""

import json
import re

import pytest
from hostile import FOUND, HOST, PAYLOADS, naive
from lab import Lab

pytestmark = pytest.mark.browser

#: In each page and frame: what calls itself `hit` is counted.
COUNT = "top.hits ??= []; window.hit = number => top.hits.push(number)"
#: Every payload in a frame of its own, so that none stands in another's way.
FRAMES = """pages => pages.forEach(page => {
  const frame = document.createElement("iframe")
  frame.srcdoc = page
  document.body.append(frame)
})"""
EACH = "[...document.querySelectorAll('iframe')].map(frame => frame.contentDocument?.body)"
CLICK = "each => each.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with Lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


class Watch:
    """What a page asks of foreign servers, and what pops up. Nothing foreign is answered."""

    def __init__(self, page, home=""):
        self.foreign, self.dialogs = [], []
        page.route(re.compile(re.escape(HOST)), lambda route: route.abort())
        page.on("request", lambda request: self._asked(request.url, home))
        page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))

    def _asked(self, url, home):
        if not url.startswith(("data:", "blob:", "about:")) and not (home and url.startswith(home)):
            self.foreign.append(url)


def test_shown_carelessly_each_of_them_works(lab):
    page = lab.page(COUNT)
    page.route("http://careless.example/", lambda route: route.fulfill(body="<body>", content_type="text/html"))
    page.goto("http://careless.example/")
    watch = Watch(page)
    page.evaluate(FRAMES, [naive(payload.text) for payload in PAYLOADS])
    page.wait_for_timeout(1_000)
    ran = set(page.evaluate("hits"))
    loaded = {int(url.split("/")[3].partition("?")[0]) for url in watch.foreign if HOST in url}
    found = page.evaluate(f"() => {EACH}.map(body => body ? ({FOUND})([body]) : [])")
    page.evaluate(f"() => {EACH}.forEach(body => body?.querySelectorAll('a, button').forEach({CLICK}))")
    page.wait_for_timeout(500)
    clicked = set(page.evaluate("hits"))
    works = {"runs": ran, "loads": loaded, "clicked": clicked - ran}
    for effect in ("covers", "link", "control"):
        seen = (effect, "attribute data-")
        works[effect] = {n for n, what in enumerate(found) if any(each.startswith(seen) for each in what)}
    harmless = [payload for payload in PAYLOADS if payload.number not in works[payload.effect]]
    assert not harmless, "\n".join(f"{each}: {found[each.number]}" for each in harmless)

"""The documentation's notebook to try, in JupyterLite in Chromium: it is installed and runs in the page.

A mirror on this machine takes the place of Pyodide's CDN and of PyPI. It has no pandas, so that the cells with tables
fail here; `tests/core/test_browser.py` looks at those.
"""

import re

import pytest
from playwright.sync_api import expect
from support.documentation import served_documentation
from support.lab import FLAGS, chromium, playwright
from support.pyodide import Mirror

pytestmark = pytest.mark.browser

#: Installing takes a busy machine minutes.
PATIENCE_MS = 300_000


@pytest.fixture
def page():
    """A browser that reaches the built documentation and the mirror, and nothing else."""
    with served_documentation() as address, Mirror() as mirror:
        browser = playwright().chromium.launch(executable_path=chromium(), args=[*FLAGS, *mirror.flags])
        yield browser.new_page(base_url=address, viewport={"width": 1200, "height": 1000})
        browser.close()


def test_the_notebook_to_try_runs_in_the_page(page):
    page.goto("/try.html")
    page.get_by_text("Start Python in this page").click()
    notebook = page.frame_locator("iframe")

    def run(text):
        """Run the cell with this text, as a reader does who clicks into it, and return its output."""
        cell = notebook.locator(".jp-CodeCell").filter(has_text=text).first
        cell.locator(".cm-content").click(timeout=PATIENCE_MS)
        page.keyboard.press("Control+Enter")
        expect(cell.locator(".jp-InputArea-prompt")).not_to_have_text(re.compile(r"\*|\[ \]"), timeout=PATIENCE_MS)
        return cell.locator(".jp-OutputArea")

    for text in ("%pip install", "%load_ext", "import csv", "def rules"):
        expect(run(text)).not_to_contain_text("Error")
    expect(run("How long are")).to_contain_text('"Biscoe": 45.3')
    expect(run("agent.trace.tool_calls")).to_contain_text("No module named 'numpy'")
    expect(run("replay:mean_mass")).not_to_contain_text("Error")
    expect(run("What is the mean")).to_contain_text("Gentoo 5076.0")

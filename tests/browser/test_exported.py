"""A notebook with streamed answers, saved and exported: all of it is readable without a kernel and a network."""

import subprocess
import sys

import nbformat
import pytest

pytestmark = pytest.mark.browser

SETUP = '''%load_ext nbagent
from nbagent import FunctionCall, LLMResponse, ScriptedProvider, tool
@tool
def mean_by(group: str) -> dict:
    """Mean of each group."""
    return {"third": 5076.0}
call = FunctionCall("mean_by", {"group": "year"}, "a")
turns = [LLMResponse("", [call], "tool_calls", {"thinking": "By year."}), "The **third**, by $x^2$ grams."]
turns += ["| group | mean |\\n|---|--:|\\n| third | 5,076.0 |", "```python\\nx = 1\\n```"]
agent.provider = ScriptedProvider(turns, delay=0.02)'''
CELLS = [SETUP, "%%agent\nWhich is heaviest?", "%%agent\nAs a table", "%%agent\nAs code", "agent.trace"]


def test_the_exported_page_shows_every_answer_offline(lab):
    page = lab.run("answers.ipynb", CELLS)
    page.wait_for_function("document.body.innerText.includes('model calls')")
    lab.command(page, "docmanager:save")
    page.wait_for_function("!window.jupyterapp.shell.currentWidget.context.model.dirty")
    saved = nbformat.read(lab.folder / "answers.ipynb", 4)
    assert [len(cell.outputs) for cell in saved.cells[1:4]] == [3, 1, 1]  # thinking, call, answer; answers
    for output in (output for cell in saved.cells[1:4] for output in cell.outputs):
        assert set(output.data) == {"text/html", "text/plain"}
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--log-level=ERROR", "answers.ipynb"]
    subprocess.run(command, cwd=lab.folder, check=True)
    offline = lab.blank()
    offline.context.set_offline(True)
    asked = []
    offline.on("request", lambda request: asked.append(request.url))
    offline.goto((lab.folder / "answers.html").as_uri())
    shown = offline.locator(".jp-Cell-outputArea:has(.nbagent)")
    assert shown.count() == 4  # three answers and the trace
    assert "The third, by" in shown.nth(0).inner_text()
    assert shown.nth(0).locator("details").count() == 2
    shown.nth(0).locator("summary").nth(1).click()
    assert '{"third": 5076.0}' in shown.nth(0).locator("details[open]").inner_text()
    assert shown.nth(1).locator("tbody td").all_inner_texts() == ["third", "5,076.0"]
    assert "x = 1" in shown.nth(2).locator("pre").inner_text()
    assert "model calls" in shown.nth(3).inner_text()
    ours = [url for url in asked if not url.startswith(("file:", "data:"))]
    assert all("cdnjs.cloudflare.com" in url for url in ours)  # nbconvert's own MathJax, which is not missed

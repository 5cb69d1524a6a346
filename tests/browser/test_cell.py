"""`%%agent` in real JupyterLab: answers stream, tool calls are collapsed, Run All works, no script runs.

What was saved is readable without a kernel and a network.
"""

import nbformat
import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import expect
from support.lab import BEGIN

pytestmark = pytest.mark.browser

SETUP = (
    BEGIN
    + '''@tool
def count_by(group: str) -> dict:
    """Rows for each value of a group."""
    return {"Adelie": 152}
answer = """**Gentoo** penguins are heaviest, on average **1,343 g** more than Chinstrap.

| species | mean body mass (g) | n |
|---|--:|--:|
| Gentoo | 5,076.0 | 123 |
| Chinstrap | 3,733.1 | 68 |
| Adelie | 3,700.7 | 151 |
"""
usage = Usage(1204, 86, cache_read_tokens=980)
calls = [FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"}, "a"), FunctionCall("count_by", {}, "b")]
turns = [LLMResponse("", calls, "tool_calls", {"thinking": "The heaviest: group by species.", "usage": usage}), answer]
hostile = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>"
turns += ["second", "third", hostile]
agent.provider = ScriptedProvider(turns, delay=0.02, model="claude-sonnet-5")'''
)


#: Notes how long the first answer was at each change of the page.
WATCH = """() => {
    window.sizes = new Set();
    const note = () => window.sizes.add(document.querySelector('.jp-Cell-outputArea:has(.nbagent)')?.innerText.length);
    new MutationObserver(note).observe(document.body, {childList: true, subtree: true});
}"""


def outputs(page):
    """The outputs of each prompt's cell."""
    return page.locator(".jp-Cell-outputArea:has(.nbagent)")


def test_answers_stream_into_their_cells_and_an_exported_page_shows_them_offline(lab):
    asked = [
        f"%%agent\n{question}" for question in ("Which species is heaviest, and by how much?", "and?", "then?", "x")
    ]
    page = lab.open("all.ipynb", [SETUP, *asked, "agent.trace"])
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.evaluate(WATCH)
    lab.command(page, "notebook:run-all-cells")
    page.wait_for_function("document.body.innerText.includes('model calls')")
    assert page.evaluate("window.sizes.size") > 3  # it arrived in pieces
    assert_answers(outputs(page))
    assert page.evaluate("window.hacked") is None
    assert not [url for url in requests if not url.startswith((lab.url, "data:", "blob:"))]
    lab.command(page, "docmanager:save")
    page.wait_for_function("!window.jupyterapp.shell.currentWidget.context.model.dirty")
    saved = nbformat.read(lab.folder / "all.ipynb", 4)
    assert [len(cell.outputs) for cell in saved.cells[1:5]] == [3, 1, 1, 1]  # thinking, the two calls, the answer
    for output in (output for cell in saved.cells[1:5] for output in cell.outputs):
        assert set(output.data) == {"text/html", "text/plain"}
    (lab.folder / "all.html").write_text(HTMLExporter().from_notebook_node(saved)[0], "utf-8")
    offline = lab.visit_file(lab.folder / "all.html")
    assert_answers(outputs(offline))
    assert offline.evaluate("window.hacked") is None
    lab.close_others()


def assert_answers(shown):
    first = shown.nth(0)
    assert first.locator("details").count() == 4  # thinking, a group of two calls
    assert first.locator("details[open]").count() == 0
    assert first.locator("table tbody tr").count() == 3
    assert "✗ 1 invalid" in first.inner_text()
    for place in (1, 2):
        first.locator("summary").nth(place).click()
    assert "arguments invalid" in first.inner_text()
    assert "3733.1" in first.locator("details[open]").nth(1).inner_text()
    assert "second" in shown.nth(1).inner_text()
    assert "third" in shown.nth(2).inner_text()
    assert "<script>" in shown.nth(3).inner_text()
    assert "model calls" in shown.nth(4).inner_text()


LONG = """
calls = [FunctionCall("mean_by", {"column": "mass", "group": group}, group) for group in ("year", "island")]
first = LLMResponse("", calls, "tool_calls", {"thinking": "By year, by island."})
agent.provider = ScriptedProvider([first, "More of it, and *more*.\\n\\n" * 5000], delay=0.02)"""


#: Selects the first paragraph of the answer, as a reader does who copies it.
SELECT = """() => {
    const paragraph = [...document.querySelectorAll('.nbagent p')].find(each => each.innerText.startsWith('More of'));
    getSelection().selectAllChildren(paragraph);
    return String(getSelection());
}"""


def test_an_opened_tool_call_and_a_selection_stay_while_the_answer_streams(lab):
    page = lab.run("unfolded.ipynb", [SETUP + LONG, "%%agent\nHow?"])
    page.wait_for_function("document.body.innerText.includes('More of it')")
    shown = outputs(page).nth(0)
    # By now the start has its own displays, the last of 800 characters. The tail may be drawn again.
    page.wait_for_function("document.body.innerText.split('More of it').length > 80")
    for place in (0, 1, 3):
        shown.locator("summary").nth(place).click()
    assert page.evaluate(SELECT).strip() == "More of it, and more."
    seen = len(shown.inner_text())
    page.wait_for_function("seen => document.body.innerText.length > seen + 500", arg=seen)
    assert page.locator(".nbagent-foot").count() == 0, "it still streams"
    assert page.evaluate("String(getSelection())").strip() == "More of it, and more."
    lab.command(page, "notebook:interrupt-kernel")
    page.wait_for_selector(".nbagent-foot")
    expect(shown).to_contain_text("Interrupted.")
    assert shown.locator("details").evaluate_all("all => all.map(each => each.open)") == [True, True, False, True]
    assert "By year, by island." in shown.locator("details[open]").nth(0).inner_text()


FORMS = """
table = "| species | n |\\n|---|--:|\\n| Gentoo | 1,230 |"
code = ["```python\\nfound = counts['n'].sum()\\n```", "```python\\nfound = 0\\n```"]
agent.provider = ScriptedProvider([code[0], table, code[1]])"""
CELLS = "window.jupyterapp.shell.currentWidget.context.model.sharedModel.cells"


#: A tool whose epochs end when files of their names are there.
PARALLEL = """import asyncio, pathlib
@tool
async def fit() -> str:
    \"\"\"Says how far it is.\"\"\"
    for epoch in range(3):
        print("epoch", epoch)
        while not pathlib.Path("ENDED", str(epoch)).exists():
            await asyncio.sleep(0.02)
    return "fitted"
calls = [FunctionCall("fit", {}, "a"), FunctionCall("count_by", {"group": "g"}, "b")]
agent = Agent(ScriptedProvider(["first", calls, "done"]), tools=[fit, count_by])"""


def test_an_opened_call_stays_while_others_of_its_answer_run(lab, tmp_path):
    tools = PARALLEL.replace("ENDED", str(tmp_path))
    page = lab.run("parallel.ipynb", [SETUP, tools, "%%agent\nHello", "%%agent\nHow many?"])
    call = page.locator(".nbagent details details", has_text="count_by")
    call.locator("summary").click()
    for epoch in range(3):
        expect(page.locator(".nbagent summary", has_text="fit()")).to_contain_text(f"epoch {epoch}")
        expect(call).to_have_attribute("open", "")
        (tmp_path / str(epoch)).touch()
    page.locator(".nbagent-foot").nth(1).wait_for()
    expect(call).to_have_attribute("open", "")


@pytest.mark.parametrize("host", ["JupyterLab 4", "Notebook 7"])
def test_an_answer_as_data_and_as_code_in_a_cell_below_that_gets_the_cursor(lab, host):
    cells = [SETUP + FORMS, "%%agent --as code\nSum them up", "%%agent --as df -o counts\nHow many?", "'last'"]
    name = host.split()[0].lower()
    page = lab.run(f"forms-{name}.ipynb", cells, host=host)
    made = page.locator(".jp-CodeCell").nth(2).locator(".cm-content")
    expect(made).to_have_text("found = counts['n'].sum()")
    expect(made).to_be_focused()
    expect(page.locator(".jp-OutputArea-executeResult .dataframe")).to_contain_text("1230")
    assert outputs(page).nth(1).locator("details:not([open]) table").count() == 1, "its text is folded away"
    assert outputs(page).nth(0).locator(".nbagent-string").inner_text() == "'n'"
    expect(page.locator(".jp-Cell").last).to_contain_text("[4]")
    page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1")
    lab.command(page, "notebook:run-cell")
    expect(made).to_have_text("found = 0")
    expect(made).to_be_focused()
    assert page.evaluate(f"{CELLS}.length") == 5, "the cell that it made was replaced"
    lab.close_others()

"""The trace's explorer in a real kernel, driven by the messages that a front end sends."""

import json
import re

import pytest

pytestmark = pytest.mark.kernel

HELPERS = '''
from nbagent import Trace, TraceExplorer
def mean(column: str) -> float:
    """A mean."""
    return {"mass": 4.2}[column]
calls = [FunctionCall("mean", {"column": "mass"}, "1"), FunctionCall("mean", {"column": "<b>x</b>"}, "2")]
turns = [LLMResponse("", calls, None, {"thinking": "Weigh them."}), "It is **4.2** kg.", "Hello & good day."]
agent = Agent(ScriptedProvider(turns, model="m"), tools=[mean])
agent.chat_sync("How heavy?")
agent.chat_sync("Hi <img src=x onerror=alert(1)>")
'''


class Explorer:
    """What a front end knows of an explorer."""

    def __init__(self, kernel, code="agent.trace.explore()"):
        self.kernel = kernel
        self.cell = kernel.ok(code)
        self.bundle = self.cell.of("execute_result")[-1]["data"]

    def find(self, **wanted):
        return next(comm for comm, state in self.kernel.widgets().items() if wanted.items() <= state.items())

    @property
    def rows(self):
        (table,) = [state["_dt_args"] for state in self.kernel.widgets().values() if "_dt_args" in state]
        return json.loads(table["data_json"])

    @property
    def html(self):
        return "\n".join(s["value"] for s in self.kernel.widgets().values() if s.get("_model_name") == "HTMLModel")

    def set(self, state, **wanted):
        self.kernel.tell(self.find(**wanted), method="update", state=state, buffer_paths=[])

    def until(self, condition):
        self.kernel.until(self.cell, condition)


@pytest.fixture
def kernel(shared):
    """The kernel of this file, without the messages of the previous test."""
    shared.forget()
    return shared


@pytest.fixture
def explorer(kernel):
    return Explorer(kernel)


def firsts(explorer):
    return [row[0] for row in explorer.rows]


def test_filters_select_rows_and_a_click_shows_details(explorer):
    assert firsts(explorer) == ["How heavy?", "Hi &lt;img src=x onerror=alert(1)&gt;"]
    explorer.set({"index": 2}, _model_name="ToggleButtonsModel")
    explorer.until(lambda: firsts(explorer) == ["mean", "mean"])
    explorer.set({"value": True}, description="Failed")
    explorer.until(lambda: len(explorer.rows) == 1)
    assert "1 of 2 tool calls" in explorer.html
    explorer.set({"selected_rows": [0]}, selected_rows=[])
    explorer.until(lambda: "KeyError" in explorer.html)
    assert "&lt;b&gt;x" in explorer.html
    assert "<b>x" not in explorer.html
    explorer.set({"value": False}, description="Failed")
    explorer.set({"index": 0}, _model_name="ToggleButtonsModel")
    explorer.set({"value": "WEIGH"}, placeholder="Search the texts")
    explorer.until(lambda: firsts(explorer) == ["How heavy?"])
    explorer.set({"selected_rows": [0]}, selected_rows=[])
    explorer.until(lambda: "<strong>4.2</strong>" in explorer.html)
    explorer.set({"value": "no such text"}, placeholder="Search the texts")
    explorer.until(lambda: explorer.rows == [])
    assert "<strong>4.2</strong>" not in explorer.html


def test_filters_list_runs_tools_and_kinds_and_refresh_keeps_the_choice(explorer, kernel):
    assert explorer.kernel.widgets()[explorer.find(description="Run")]["_options_labels"][:2] == [
        "all runs",
        "1 · How heavy?",
    ]
    kinds = explorer.kernel.widgets()[explorer.find(description="Kind of block")]["_options_labels"]
    assert kinds == ["all kinds", "text", "thinking", "tool_call", "tool_result"]
    explorer.set({"index": 1}, description="Tool")
    explorer.until(lambda: firsts(explorer) == ["How heavy?"])
    again = "agent.provider = ScriptedProvider([FunctionCall('mean', {'column': 'mass'}, '3'), 'Again 4.2.'])\n"
    assert kernel.run(again + "agent.chat_sync('And now?')").status == "ok"
    kernel.tell(explorer.find(description="Refresh"), method="custom", content={"event": "click"})
    explorer.until(lambda: firsts(explorer) == ["How heavy?", "And now?"])


SCORED = """
from nbagent import Trace, TraceExplorer
scored = Agent(ScriptedProvider(["Hello.", "Bye."], model="m"))
scored.chat_sync("Hi", tags=["exam", "<b>hard</b>"], user="u1")
scored.chat_sync("Bye")
scored.trace.score(scored.trace.runs["run_id"][0], "good", 1, "Short.")
scored.trace.score(scored.trace.calls["call_id"][1], "polite", 0.5)
scored.trace.explore()"""


def test_tags_and_scores_are_columns_and_details(explorer, kernel):
    assert "tags" not in explorer.bundle["text/plain"]  # nothing has any
    kernel.forget()
    explorer = Explorer(kernel, SCORED)
    assert [row[-2:] for row in explorer.rows] == [["exam, &lt;b&gt;hard&lt;/b&gt;", "good 1 (Short.)"], ["", ""]]
    explorer.set({"value": "hard"}, placeholder="Search the texts")
    explorer.until(lambda: firsts(explorer) == ["Hi"])
    explorer.set({"selected_rows": [0]}, selected_rows=[])
    explorer.until(lambda: "Scores: good 1 (Short.)" in explorer.html)
    assert "user: u1" in explorer.html
    assert "<b>hard" not in explorer.html
    explorer.set({"value": ""}, placeholder="Search the texts")
    explorer.set({"index": 1}, _model_name="ToggleButtonsModel")
    explorer.until(lambda: [row[-1] for row in explorer.rows] == ["", "polite 0.5"])


def test_cell_time_and_model_are_columns(kernel):
    kernel.ok("celled = Agent(ScriptedProvider(['Fine.'], model='m'))")
    kernel.ok("%%agent celled\nFrom a cell")
    number = kernel.value("int(celled.trace.runs['execution_count'].iloc[-1])")
    kernel.forget()
    ((prompt, _, cell, time, model, *_),) = Explorer(kernel, "celled.trace.explore()").rows
    assert (prompt, cell, model) == ("From a cell", f"[{number}]", "m")
    assert re.fullmatch(r"\d\d:\d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", time)


def test_a_saved_notebook_shows_the_table_without_a_kernel(explorer):
    assert {"text/html", "text/plain", "application/vnd.jupyter.widget-view+json"} <= explorer.bundle.keys()
    page = re.sub(r"<style>.*?</style>", "", explorer.bundle["text/html"], flags=re.DOTALL)
    assert "How heavy?" in page
    assert "<img" not in page
    assert "How heavy?" in explorer.bundle["text/plain"]


def test_long_tables_are_complete_and_escaped_despite_user_defaults(kernel, tmp_path):
    kernel.forget()
    said = [{"run_id": "r", "role": "user", "text": f"<b>{number}</b>" * 50} for number in range(1_200)]
    lines = [{"format": "nbagent trace", "version": 1}, *({"table": "messages", "row": row} for row in said)]
    path = tmp_path / "long.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    code = f"""
import itables.options
itables.options.allow_html, itables.options.maxBytes, itables.options.showIndex = True, 1_000, True
explorer = TraceExplorer(Trace.load({str(path)!r}))
explorer._tabs.value = "messages"
explorer"""
    rows = Explorer(kernel, code).rows
    assert len(rows) == 1_000
    assert [len(row) for row in rows[:1]] == [3]
    assert rows[0][1].startswith("&lt;b&gt;200")
    assert "the newest 1,000 shown" in Explorer(kernel, "explorer").html


MADE = """
from nbagent import Agent, FunctionCall, ScriptedProvider
def research() -> str:
    'Ask another agent.'
    return Agent(ScriptedProvider(["Gentoo."])).chat_sync("Which is <b>heaviest</b>?").content
boss = Agent(ScriptedProvider([FunctionCall("research", {}, "1"), "Done.", "Yes."]), tools=[research])
boss.chat_sync("Find out")
fork = boss.fork()
fork.chat_sync("Sure?")
boss.trace.explore()"""


def test_runs_of_forks_and_of_agents_that_tools_asked_are_there(kernel):
    kernel.forget()
    explorer = Explorer(kernel, MADE)
    assert firsts(explorer) == ["Find out", "Which is &lt;b&gt;heaviest&lt;/b&gt;?", "Sure?"]
    assert [row[-1] for row in explorer.rows] == ["", "Find out", ""]
    explorer.set({"selected_rows": [1]}, selected_rows=[])
    explorer.until(lambda: "Gentoo." in explorer.html)


def test_an_empty_trace_and_a_kernel_without_the_extension(explorer, kernel):
    kernel.forget()
    assert Explorer(kernel, "TraceExplorer(Trace())").rows == []
    failed = kernel.run("%unload_ext nbagent\nagent.trace.explore()")
    assert failed.error == "ConfigurationError"
    assert "%load_ext nbagent" in failed.traceback
    assert kernel.run("%load_ext nbagent\nagent.trace.explore()").status == "ok"
    missing = "import sys; sys.modules['itables.widget'] = None\nTraceExplorer(agent.trace)"
    assert "nbagent[explore]" in kernel.run(missing).traceback

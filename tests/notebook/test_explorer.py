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
    """The state of an explorer in a front end."""

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


def test_filters_list_runs_tools_and_kinds_and_refresh_keeps_the_choice(explorer, kernel):
    states = kernel.widgets()
    assert states[explorer.find(description="Run")]["_options_labels"][:2] == ["all runs", "1 · How heavy?"]
    kinds = states[explorer.find(description="Kind of block")]["_options_labels"]
    assert kinds == ["all kinds", "text", "thinking", "tool_call", "tool_result"]
    explorer.set({"index": 1}, description="Tool")
    explorer.until(lambda: firsts(explorer) == ["How heavy?"])
    kernel.ok("agent.provider = ScriptedProvider([calls[0], 'Again 4.2.'])")
    kernel.ok("%%agent\nAnd now?")
    number = kernel.value("int(agent.trace.runs['execution_count'].iloc[-1])")
    kernel.tell(explorer.find(description="Refresh"), method="custom", content={"event": "click"})
    explorer.until(lambda: firsts(explorer) == ["How heavy?", "And now?"])
    assert f"[{number}]" in explorer.rows[-1]


SCORED = """
scored = Agent(ScriptedProvider(["Hello.", "Bye."], model="m"))
scored.chat_sync("Hi", tags=["exam", "<b>hard</b>"], user="u1")
scored.chat_sync("Bye")
scored.trace.score(scored.trace.runs["run_id"][0], "good", 1, "Short.")
scored.trace.explore()"""


def test_tags_and_scores_are_columns_and_details(kernel):
    explorer = Explorer(kernel, SCORED)
    assert [row[-2:] for row in explorer.rows] == [["exam, &lt;b&gt;hard&lt;/b&gt;", "good 1 (Short.)"], ["", ""]]
    explorer.set({"value": "hard"}, placeholder="Search the texts")
    explorer.until(lambda: firsts(explorer) == ["Hi"])
    explorer.set({"selected_rows": [0]}, selected_rows=[])
    explorer.until(lambda: "Scores: good 1 (Short.)" in explorer.html and "user: u1" in explorer.html)


def test_a_saved_notebook_shows_the_table_without_a_kernel(explorer):
    assert {"text/html", "text/plain", "application/vnd.jupyter.widget-view+json"} <= explorer.bundle.keys()
    page = re.sub(r"<style>.*?</style>", "", explorer.bundle["text/html"], flags=re.DOTALL)
    assert "How heavy?" in page
    assert "<img" not in page
    assert "How heavy?" in explorer.bundle["text/plain"]


def test_long_tables_are_complete_and_escaped_despite_user_defaults(kernel, tmp_path):
    said = [{"run_id": "r", "role": "user", "text": f"<b>{number}</b>" * 50} for number in range(1_200)]
    lines = [{"table": "messages", "row": row} for row in said]
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
def research() -> str:
    'Ask another agent.'
    return Agent(ScriptedProvider(["Gentoo."])).chat_sync("Which is heaviest?").content
boss = Agent(ScriptedProvider([FunctionCall("research", {}, "1"), "Done.", "Yes."]), tools=[research])
boss.chat_sync("Find out")
fork = boss.fork()
fork.chat_sync("Sure?")
boss.trace.explore()"""


def test_runs_of_forks_and_subagents_are_included(kernel):
    rows = Explorer(kernel, MADE).rows
    assert [(row[0], row[-1]) for row in rows] == [("Find out", ""), ("Which is heaviest?", "Find out"), ("Sure?", "")]


def test_an_empty_trace_and_a_kernel_without_the_extension(kernel):
    assert Explorer(kernel, "TraceExplorer(Trace())").rows == []
    assert "%load_ext nbagent" in kernel.run("%unload_ext nbagent\nagent.trace.explore()").traceback
    kernel.ok("%load_ext nbagent\nagent.trace.explore()")

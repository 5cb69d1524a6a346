"""Buttons on answers: the messages between the kernel and the front end's script, and the saved output."""

import re

import pytest
from support.panels import Panel

pytestmark = pytest.mark.kernel

ASK = "%%agent\nIs it?"
SCORES = "[tuple(row[:3]) for row in agent.trace.scores[['run_id', 'value', 'by']].to_numpy().tolist()]"


@pytest.fixture
def kernel(shared):
    shared.ok("agent = Agent(ScriptedProvider(lambda messages, functions: 'It is.', model='m'))")
    return shared


def runs_in(page):
    return re.findall(r'data-nbagent-run="([^"]+)"', page)


def script_of(kernel):
    """The script's comm, once it is open."""
    found = []

    def is_there():
        found[:] = [
            c for c, state in kernel.widgets().items() if state.get("_anywidget_id", "").endswith(".AnswerButtons")
        ]
        return bool(found)

    kernel.until(None, is_there)
    (comm,) = found
    return comm


def tell(kernel, **message):
    kernel.tell(script_of(kernel), method="custom", content=message)


def until_told(kernel, *gone, **good):
    """Wait until this is the last message to the script: the scores of runs, or that a run is unknown."""
    comm = script_of(kernel)

    def is_told():
        last = kernel.told(comm)[-1:]
        scores = [{run: about["good"] for run, about in each.get("runs", {}).items()} for each in last]
        return scores == [good] and [each.get("gone") for each in last] == list(gone or [None])

    kernel.until(None, is_told)


def test_answers_in_a_panel_have_thumbs_whether_it_saw_the_run_or_not(kernel):
    kernel.ok("await agent.chat('Is it?'); None")
    panel = Panel(kernel)
    panel.ask("Is it?")
    panel.until(lambda: len(runs_in(panel.html())) == 2)
    runs = runs_in(panel.html())
    tell(kernel, shown=runs)
    until_told(kernel, **dict.fromkeys(runs))
    for run in runs:
        tell(kernel, run=run, good=0)
        until_told(kernel, **{run: 0.0})
    assert kernel.value(SCORES) == [(run, 0.0, "user") for run in runs]
    tell(kernel, run="of an agent that is gone", good=1)
    until_told(kernel, "of an agent that is gone")


@pytest.mark.parametrize("code", ["nbagent.ChatPanel(agent)", ASK])
def test_a_headless_run_s_output_names_no_run(kernel, code):
    cell = kernel.ok(f"await agent.chat('Is it?')\n{code}" if "Panel" in code else code, allow_stdin=False)
    page = cell.html or cell.of("execute_result")[0]["data"]["text/html"]
    assert "nbagent-foot" in page
    assert not runs_in(page)

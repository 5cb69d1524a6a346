"""`%agent analyst` and `%%agent --write` in a real kernel, with a notebook in memory."""

from ast import literal_eval
from pathlib import Path

import pytest

pytestmark = pytest.mark.kernel

HELPERS = f"""
import json, sys
sys.path.append({str(Path(__file__).parents[2])!r})
from nbagent.notebook.analyst.analyst import PROMPT_FILE, Analyst, analyst_agent, analyst_of
from support.memory_notebook import MemoryNotebook

def with_document(agent):
    analyst = Analyst(document, "auto")
    analyst.join(agent)
    analyst.leave(agent)
"""
WRITING = ["add_cell", "delete_cell", "edit_cell", "list_cells", "move_cell", "read_cell", "run_cells"]


@pytest.fixture
def kernel(shared):
    shared.ok("""
document = MemoryNotebook()
agent = Agent(nbagent.ScriptedProvider(lambda messages, functions: "Done."), tools=[])
with_document(agent)""")
    return shared


def asked(kernel, cell="%%agent\nWhat drives churn?"):
    """The tools that a request offers, and whether it has the analyst's prompt."""
    kernel.ok(cell)
    kernel.ok(
        "call = agent.trace.rows('calls')[-1]; texts = {r['hash']: r['text'] for r in agent.trace.rows('prompts')}"
    )
    names = kernel.ok("[f['name'] for f in json.loads(texts.get(call['tools_hash'], '[]'))]").result
    has_prompt = kernel.ok("PROMPT_FILE.read_text('utf-8') in (texts.get(call['system_hash']) or '')").result
    return sorted(literal_eval(names)), has_prompt == "True"


def test_it_is_on_until_it_is_off(kernel):
    assert "off" in kernel.ok("%agent analyst").stdout
    assert asked(kernel) == ([], False)
    assert "is on" in kernel.ok("%agent analyst on").stdout
    assert "is on" in kernel.ok("%agent analyst").stdout
    assert asked(kernel) == ([*WRITING, "update_plan"], True)
    kernel.ok("assert agent.limits.max_iterations > 20")
    kernel.ok("%agent analyst off")
    assert asked(kernel) == ([], False)
    kernel.ok("assert agent.limits == nbagent.Limits()")


def test_it_writes_for_one_question(kernel):
    assert asked(kernel, "%%agent --write\nWhat drives churn?") == ([*WRITING, "update_plan"], True)
    assert asked(kernel) == ([], False)
    kernel.ok("%agent analyst on")
    asked(kernel, "%%agent --write\nWhat drives churn?")
    assert asked(kernel)[1], "it was on before"
    kernel.ok("%agent analyst off")
    assert "omit -t" in kernel.run("%%agent --write --no-tools\nWhat?").stderr
    assert "nothing" in kernel.run("%%agent --write\nWhat about {nothing}?").stderr
    assert asked(kernel) == ([], False)


def test_its_prompt_can_be_replaced_and_a_plan_of_the_agent_stays(kernel, tmp_path):
    (tmp_path / "my prompt.md").write_text("Write haiku.")
    kernel.ok("agent = Agent(agent.provider, tools=[], plan=True); with_document(agent)")
    kernel.ok(f"%agent analyst on '{tmp_path}/my prompt.md'")
    assert asked(kernel) == ([*WRITING, "update_plan"], False)
    assert "Write haiku." in kernel.ok("texts[call['system_hash']]").result
    kernel.ok("%agent analyst off")
    assert asked(kernel) == (["update_plan"], False)
    assert "can't be read" in kernel.run("%agent analyst on nowhere.md").stderr


def test_a_fork_writes_runs_and_fixes_cells(kernel):
    kernel.ok("""
async def script(messages, functions):
    ids = [cell.id for cell in await document.cells()]
    steps = [
        lambda: FunctionCall("update_plan", {"steps": [{"step": "Count", "status": "doing"}]}, "1"),
        lambda: FunctionCall("add_cell", {"source": "## Count", "kind": "markdown"}, "2"),
        lambda: FunctionCall("add_cell", {"source": "1 / 0"}, "3"),
        lambda: FunctionCall("edit_cell", {"cell": ids[-1], "source": "1 / 1"}, "4"),
        lambda: FunctionCall("run_cells", {"cells": [ids[-1]]}, "5"),
    ]
    done = sum(message.role == "tool" for message in messages)
    return steps[done]() if done < len(steps) else "Done."
agent = Agent(nbagent.ScriptedProvider(script), tools=[])
analyst = analyst_agent(agent, document, "auto")
result = await analyst.chat("How many?")""")
    assert kernel.ok("[(cell.kind, cell.source) for cell in await document.cells()]").result == (
        "[('markdown', '## Count'), ('code', '1 / 1')]"
    )
    assert kernel.ok("list(analyst.plan['step']), agent.offered_tools(), agent.conversation_history").result == (
        "(['Count'], [], [])"
    )

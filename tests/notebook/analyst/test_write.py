"""Notebook files that an analyst writes and fixes, and the commands for it. The model is scripted."""

import os
import re
import signal
import sys

import nbformat
import pexpect
import pytest
from support.kernels import write_spec

from nbagent import Agent, Budget, FunctionCall, ScriptedProvider, fix_notebook, write_notebook
from nbagent.cli import main
from nbagent.errors import ConfigurationError, ServerError
from nbagent.notebook.analyst import terminal
from nbagent.notebook.analyst.write import TRIES
from nbagent.notebook.document.file import FileNotebook

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("tested_kernel")]


def add(source, kind="code"):
    return FunctionCall("add_cell", {"source": source, "kind": kind})


def last_id(messages):
    return re.findall(r"id (\w+)", "\n".join(message.text for message in messages if message.role == "tool"))[-1]


def script(*turns):
    """A provider with these turns. Functions among them take the id of the cell that was added last."""
    left = list(turns)

    def turn(messages, tools):
        given = left.pop(0)
        return given(last_id(messages)) if callable(given) else given

    return ScriptedProvider(turn)


def run(cell_id):
    return FunctionCall("run_cells", {"cells": [cell_id]})


WRITTEN = [
    FunctionCall("update_plan", {"steps": [{"step": "Count", "status": "doing"}]}),
    add("# Orders", "markdown"),
    add("orders = [3, 4]\nlen(order)"),
    run,
    lambda cell_id: FunctionCall("edit_cell", {"cell": cell_id, "source": "orders = [3, 4]\nlen(orders)"}),
    run,
    "There are two orders.",
]


async def test_a_task_becomes_cells_that_run_again_and_the_next_task_continues(tmp_path):
    told = []
    path = tmp_path / "report.ipynb"
    result = await write_notebook(path, "How many?", Agent(script(*WRITTEN)), kernel="tested", tell=told.append)
    assert result.ok
    assert result.answer == "There are two orders."
    assert (result.verification.cells, result.cost) == (1, 0.0)
    lines = [progress.line for progress in told if progress.line]
    assert lines == [
        "added    # Orders",
        "added    orders = [3, 4]",
        "failed   orders = [3, 4]\n         NameError: name 'order' is not defined",
        "edited   orders = [3, 4]",
        "ran      orders = [3, 4]",
    ]
    assert ("Count", 0, 1) in {(progress.doing, progress.done, progress.total) for progress in told}
    written = nbformat.read(path, as_version=4)
    nbformat.validate(written)
    assert [cell.cell_type for cell in written.cells] == ["markdown", "code"]
    assert written.cells[1].outputs[0]["data"]["text/plain"] == "2"
    async with FileNotebook(path) as document:
        assert {cell.run_id for cell in await document.cells()} == {result.runs[0].run_id}

    provider = script(add("max(orders)"), run, "The largest is 4.")
    again = await write_notebook(path, "And the largest?", Agent(provider), kernel="tested")
    assert "It has 2 cells from earlier, which have just been run." in provider.requests[0][0][-1].text
    assert [(change.number, change.before, change.after) for change in again.changes] == [(3, None, "max(orders)")]
    assert again.ok


async def test_a_problem_that_can_not_be_fixed_is_reported_after_all_tries(tmp_path):
    path = tmp_path / "broken.ipynb"
    async with FileNotebook(path, kernel="tested") as document:
        await document.insert("1 / 0")
    provider = ScriptedProvider(lambda messages, tools: "I can't.")
    result = await fix_notebook(path, Agent(provider), kernel="tested")
    assert not result.ok
    assert len(result.runs) == TRIES
    assert "ZeroDivisionError" in str(result.verification)
    assert result.changes == ()


async def test_a_sound_notebook_needs_no_model_and_gets_fresh_outputs(tmp_path):
    path = tmp_path / "sound.ipynb"
    async with FileNotebook(path, kernel="tested") as document:
        await document.insert("1 + 1")
    result = await fix_notebook(path, Agent(ScriptedProvider(ServerError("never asked"))), kernel="tested")
    assert (result.ok, result.runs) == (True, ())
    assert nbformat.read(path, as_version=4).cells[0].outputs[0]["data"]["text/plain"] == "2"


async def test_a_spent_budget_and_a_failing_provider_keep_what_is_written(tmp_path):
    price = {"input": 1.0, "output": 1.0}
    left = [add("kept = 1"), add("more = 2"), "Done."]
    provider = ScriptedProvider(lambda messages, tools: left.pop(0), price=price)
    agent = Agent(provider, budget=Budget(max_cost=1e-6))
    result = await write_notebook(tmp_path / "a.ipynb", "Count.", agent, kernel="tested")
    assert result.verification.ok
    assert not result.ok
    assert "$1e-06 limit was reached" in result.unfinished
    failing = Agent(ScriptedProvider([add("kept = 1"), ServerError("down")]))
    with pytest.raises(ServerError, match="down"):
        await write_notebook(tmp_path / "b.ipynb", "Count.", failing, kernel="tested")
    assert [cell.source for cell in nbformat.read(tmp_path / "b.ipynb", as_version=4).cells] == ["kept = 1"]
    with pytest.raises(ConfigurationError, match="there is no notebook"):
        await fix_notebook(tmp_path / "c.ipynb", agent)


def command(monkeypatch, *arguments, turns=()):
    """The exit status of a command whose model has these turns."""
    monkeypatch.setattr(terminal, "Agent", lambda model, **options: Agent(script(*turns), **options))
    return main([*map(str, arguments), "--kernel", "tested"])


def test_the_commands_print_the_outcome(tmp_path, monkeypatch, capsys):
    path = tmp_path / "report.ipynb"
    assert command(monkeypatch, "write", path, "How many?", turns=WRITTEN) == 0
    shown = capsys.readouterr()
    assert shown.out == (
        f"There are two orders.\n\n{path}: 2 cells added, for $0.0000.\n"
        f"{path}: 1 code cell ran in a fresh kernel, and the outputs match the saved ones.\n"
    )
    assert "failed   orders = [3, 4]\n         NameError" in shown.err

    text = path.read_text().replace("len(orders)", "len(order)")
    path.write_text(text)
    assert command(monkeypatch, "verify", path) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"nbagent: {path} does not run again. Of 1 code cell, 1 has a problem:\n- cell 2 (" in shown.err
    assert "needs 'order', which no cell defines" in shown.err
    assert path.read_text() == text

    cell_id = nbformat.read(path, as_version=4).cells[1].id
    mend = FunctionCall("edit_cell", {"cell": cell_id, "source": "orders = [3, 4]\nlen(orders)"})
    turns = [FunctionCall("read_cell", {"cell": cell_id}), mend, "Mended."]
    assert command(monkeypatch, "fix", path, turns=turns) == 0
    shown = capsys.readouterr()
    assert shown.out == (
        f"@@ cell 2 ({cell_id}) @@\n orders = [3, 4]\n-len(order)\n+len(orders)\n\n"
        f"{path}: 1 cell edited, for $0.0000.\n"
        f"{path}: 1 code cell ran in a fresh kernel, and the outputs match the saved ones.\n"
    )
    assert command(monkeypatch, "fix", path) == 0
    assert capsys.readouterr().out.startswith(f"{path}: no cell changed.\n")


async def test_a_program_that_nobody_approved_never_runs_later(tmp_path):
    path, made = tmp_path / "report.ipynb", tmp_path / "made"
    turns = [add(f"!touch {made}"), run, "It may not run."]
    result = await write_notebook(path, "Touch it.", Agent(script(*turns, *["No."] * TRIES)), kernel="tested")
    again = await fix_notebook(path, Agent(ScriptedProvider(["No."] * TRIES)), kernel="tested")
    assert (result.ok, again.ok, made.exists()) == (False, False, False)
    assert "starts a program, which nobody approved: it was not run" in str(again.verification)


def test_a_model_that_writes_nothing_and_a_missing_kernel_are_failures(tmp_path, monkeypatch, capsys):
    path = tmp_path / "report.ipynb"
    assert command(monkeypatch, "write", path, "How many?", turns=["Two, I guess."]) == 1
    assert "nbagent: The analyst wrote no cell." in capsys.readouterr().err
    assert main(["write", str(path), "How many?", "--kernel", "none"]) == 1
    assert "no kernel 'none' is installed here. Installed kernels: " in capsys.readouterr().err
    assert not path.exists()


def test_ctrl_c_ends_the_kernel_and_leaves_a_valid_notebook(tmp_path):
    path, pid = tmp_path / "report.ipynb", tmp_path / "pid"
    write_spec(tmp_path)
    program = f"""
import sys
sys.path.insert(0, {os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))!r} + "/tests")
from support.kernels import METADATA
from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.cli import main
from nbagent.notebook.analyst import terminal
from nbagent.notebook.analyst.write import TRIES
source = "import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
turns = [FunctionCall("add_cell", {{"source": source}})]
def turn(messages, tools):
    import re
    if turns: return turns.pop()
    return FunctionCall("run_cells", {{"cells": re.findall(r"id (\\w+)", messages[-1].text)}})
terminal.Agent = lambda model, **options: Agent(ScriptedProvider(turn), **options)
sys.exit(main(["write", {str(path)!r}, "Wait.", "--kernel", "tested"]))
"""
    environment = {**os.environ, "JUPYTER_PATH": str(tmp_path)}
    child = pexpect.spawn(sys.executable, ["-c", program], env=environment, timeout=120, encoding="utf-8")
    child.expect("added    import os, time")
    while not (pid.exists() and pid.read_text()):
        child.expect([pexpect.TIMEOUT, r"\d+:\d\d"], timeout=0.2)
    child.kill(signal.SIGINT)
    child.expect("nbagent: stopped")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    nbformat.validate(nbformat.read(path, as_version=4))
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)

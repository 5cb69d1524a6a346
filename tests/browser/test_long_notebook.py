"""The cost of changing the open notebook does not grow with its length, nor with earlier changes."""

import json
import os

import pytest

pytestmark = pytest.mark.browser

#: Cells that an agent adds.
NUMBER = 500 if os.environ.get("NBAGENT_FULL") else 40
#: Counts the bytes of all messages between kernel and page.
MEASURE = """import json
from pathlib import Path
from nbagent.core.current import changed
from nbagent.core.run_context import RunContext
from nbagent.notebook.document.live import live_notebook, notebook_pages
notebook, pages = await live_notebook(), notebook_pages()
sent, send, hear = [], pages.send, pages._on_message
pages.send = lambda message, buffers=None: sent.append(len(json.dumps(message))) or send(message)
pages._on_message = lambda message: sent.append(len(json.dumps(message))) or hear(message)
costs = {}
async def measured(name, change):
    sent.clear()
    result = await change
    costs[name] = sum(sent)
    return result
async def each_change(size):
    with changed(call=RunContext(run_id=size)):
        cell = await measured(f"insert {size}", notebook.insert("1", below=""))
        await measured(f"edit {size}", notebook.edit(cell.id, "2"))
        await measured(f"run {size}", notebook.run(cell.id))
        await measured(f"move {size}", notebook.move(cell.id, below=first.id))
        await measured(f"delete {size}", notebook.delete(cell.id))
    await measured(f"undo {size}", notebook.undo(size))
async def many():
    with changed(call=RunContext(run_id="many")):
        for n in range(NUMBER):
            await notebook.insert(f"# {n}")
(first,) = await notebook.cells()
await each_change("few")
await measured("add all", many())
await each_change("many")
await measured("undo all", notebook.undo("many"))
Path("costs.json").write_text(json.dumps(costs))"""


def test_a_change_costs_the_same_bytes_in_a_long_notebook(lab):
    lab.open("long.ipynb", ["'first'"])
    lab.execute("%load_ext nbagent")
    lab.execute(MEASURE.replace("NUMBER", str(NUMBER)))
    costs = json.loads((lab.folder / "costs.json").read_text())
    for what in ("insert", "edit", "run", "move", "delete"):
        assert costs[f"{what} many"] < 1.5 * costs[f"{what} few"], costs
    assert costs["add all"] < 1.5 * NUMBER * costs["insert few"], costs
    assert costs["undo all"] < NUMBER * costs["undo few"], costs

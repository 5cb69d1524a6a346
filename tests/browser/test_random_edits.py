"""Random changes by a person in the page and agents in turn: the page and a file stay equal, and undo is exact."""

import os
import shutil
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from unittest.mock import patch

import nbformat
import pytest

from nbagent.core.background import run_sync
from nbagent.core.current import changed
from nbagent.core.run_context import RunContext
from nbagent.notebook.document import cell as cell_module
from nbagent.notebook.document.cell import NotebookCell
from nbagent.notebook.document.file import FileNotebook

pytestmark = pytest.mark.browser

SEEDS = 12 if os.environ.get("NBAGENT_FULL") else 2
OLD = [f"print('old {n}')" for n in range(5)]
#: What it shows grows while it runs.
GROWS = "import time\nprint('text {}', flush=True)\ntime.sleep(0.1)\nprint('more')"
AGENT = {
    "add": "insert(text, below=below)",
    "edit": "edit(cell, text)",
    "move": "move(cell, below=below)",
    "delete": "delete(cell)",
    "run": "run(cell)",
}
KERNEL = """%load_ext nbagent
from nbagent.core.current import changed
from nbagent.core.run_context import RunContext
from nbagent.notebook.document.live import live_notebook
notebook = await live_notebook()"""
#: What a person does, by JupyterLab's own commands. Afterwards it is four seconds later for `live.js`.
PERSON = """async ([what, at, place, text]) => {
    const { content } = window.jupyterapp.shell.currentWidget;
    const execute = (name) => window.jupyterapp.commands.execute(`notebook:${name}`);
    content.activeCellIndex = at;
    if (what === "add") await execute("insert-cell-below");
    if (what === "add" || what === "edit") content.activeCell.model.sharedModel.setSource(text);
    if (what === "move") {
        for (let n = at; n < place; n++) await execute("move-cell-down");
        for (let n = at; n > place; n--) await execute("move-cell-up");
    }
    if (what === "delete") await execute("delete-cell");
    if (what === "run") await execute("run-cell");
    if (what === "turn") await execute("change-cell-to-markdown");
    const now = performance.now.bind(performance);
    performance.now = () => now() + 4000;
}"""
CELLS = """() => {
    const { sharedModel } = window.jupyterapp.shell.currentWidget.context.model;
    return [sharedModel.cells.map((cell) => cell.toJSON()), sharedModel.getMetadata("nbagent") ?? {}];
}"""


DIFFERS = ("execution_count", "trusted", "attachments")


def plain(data):
    """Without what differs between two kernels, and between a page and a file."""
    if isinstance(data, dict):
        return {key: plain(value) for key, value in data.items() if key not in DIFFERS}
    return [plain(each) for each in data] if isinstance(data, list) else data


class Both:
    """A notebook in the page, and the same in a file that only this process changes."""

    def __init__(self, lab, page, name):
        self.lab, self.page, self.path = lab, page, lab.folder / name
        self.file = FileNotebook(shutil.copy(self.path, lab.folder / f"file-{name}"))
        lab.execute(KERNEL)

    def shown(self):
        return plain(self.page.evaluate(CELLS))

    def kept(self):
        return [plain([cell.to_nbformat() for cell in run_sync(self.file.cells())]), plain(run_sync(self.file._note()))]

    def ids(self):
        return [cell["id"] for cell in self.shown()[0]]

    def person(self, what, at, place, text):
        self.page.evaluate(PERSON, [what, at, place, text])
        cell = run_sync(self.file.cells())[at]
        if what == "add":
            run_sync(self.file._insert(at + 1, NotebookCell("code", text, self.ids()[at + 1])))
        elif what == "edit":
            run_sync(self.file._replace(replace(cell, source=text), cell.source))
        elif what == "move":
            run_sync(self.file._move(cell.id, place))
        elif what == "delete":
            run_sync(self.file._delete(cell.id, cell.source))
        elif what == "turn":
            turned = NotebookCell("markdown", cell.source, cell.id, metadata=cell.metadata)
            run_sync(self.file._replace(turned, cell.source))
        elif cell.kind == "code":
            run_sync(self.file._execute(cell, 60))

    def agent(self, run_id, call, **names):
        before = self.ids()
        self.lab.execute(
            f"{names=}\nwith changed(call=RunContext(run_id={run_id!r})):\n"
            f"    done = await eval('notebook.{call}', {{**names, 'notebook': notebook}})"
        )
        new = [SimpleNamespace(hex=each) for each in self.ids() if each not in before]
        with changed(call=RunContext(run_id=run_id)), patch.object(cell_module, "uuid4", lambda: new[0]):
            run_sync(eval(f"file.{call}", {**names, "file": self.file}))

    def step(self, random, who, number):
        ids, text = self.ids(), GROWS.format(number)
        at = random.randrange(len(ids))
        what = random.choice([*AGENT, *(["turn"] if who == "person" else [])])
        if what == "delete" and len(ids) == 1:
            return
        if who == "person":
            self.person(what, at, random.randrange(len(ids)), text)
        else:
            below = random.choice(["", *(each for each in ids if what == "add" or each != ids[at])])
            self.agent(who, AGENT[what], cell=ids[at], below=below, text=text)
        assert self.shown() == self.kept(), (number, who, what)

    def undo(self, run_id):
        self.agent("undo", "undo(run)", run=run_id)
        assert self.shown() == self.kept(), run_id


@pytest.mark.parametrize("seed", range(SEEDS))
def test_page_and_file_stay_equal_and_undo_takes_back_only_what_agents_did(lab, seed):
    page = lab.open(f"edits-{seed}.ipynb", OLD)
    both, random = Both(lab, page, f"edits-{seed}.ipynb"), Random(seed)
    try:
        for number in range(16):
            both.step(random, random.choice(["person", "person", "run 1", "run 2"]), number)
        for run_id in ("run 2", "run 1"):
            both.undo(run_id)
        old = both.shown()
        for number in range(16, 30):
            both.step(random, "run 3" if number < 23 else "run 4", number)
        for run_id in ("run 4", "run 3"):
            both.undo(run_id)
        assert both.shown() == old
        page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save()")
        saved = nbformat.read(both.path, 4)
        nbformat.validate(saved)
        assert plain([dict(cell) for cell in saved.cells]) == plain(both.kept()[0])
    finally:
        page.evaluate("() => delete performance.now")
        run_sync(both.file.kernel.stop())

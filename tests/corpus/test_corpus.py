"""Each notebook of the corpus is run, its errors are read, its cells mended and run again, until it is verified.

The model is scripted: it knows each mend. What is tested is the loop, and what becomes of the file.
"""

import json

import nbformat
import pytest
import pytest_asyncio
from corpus.cases import ADD, CASES, EDIT, MOVE
from support.kernels import write_spec

from nbagent import Agent, FunctionCall, ScriptedProvider, fix_notebook
from nbagent.notebook.analyst import verify
from nbagent.notebook.document import file, own_kernel

pytestmark = pytest.mark.kernel

THEIRS = {"theirs": {"z": 1.50, "a": ["ü"]}, "kernelspec": {"name": "tested", "display_name": "tested"}}


class SharedKernel(own_kernel.OwnKernel):
    """One process for many notebooks: where others end it, it forgets its variables. It works in the last folder."""

    async def stop(self):
        if self.is_running:
            await super().run(f"%reset -f\nimport os; os.chdir({str(self.folder)!r}); del os", 60)

    async def end(self):
        await super().stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kernels(tmp_path_factory):
    """Makes the kernel of a notebook, and of its verification, the same for all notebooks."""
    folder = tmp_path_factory.mktemp("jupyter")
    write_spec(folder)
    made = [SharedKernel(folder, "tested") for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder))
        yield made
    for kernel in made:
        await kernel.end()


async def share(kernels, folder, monkeypatch):
    """Use them for the notebook in this folder."""
    for module, kernel in zip((file, verify), kernels, strict=True):
        kernel.folder = folder
        await kernel.stop()
        monkeypatch.setattr(module, "OwnKernel", lambda *where, kernel=kernel: kernel)


def written(case, path):
    """The notebook: cells c1, c2, ... below a heading, with metadata of other tools."""
    for name, text in case.files.items():
        (path.parent / name).parent.mkdir(exist_ok=True)
        (path.parent / name).write_text(text)
    head = {"cell_type": "markdown", "id": "head", "metadata": {"b": 2, "a": 1}, "source": [f"# {case.name}"]}
    cells = [head]
    for number, source in enumerate(case.cells, 1):
        lines = source.splitlines(keepends=True)
        about = {"id": f"c{number}", "metadata": {"tags": ["theirs"], "collapsed": False}}
        cells.append({"cell_type": "code", "execution_count": None, **about, "outputs": [], "source": lines})
    data = {"cells": cells, "metadata": THEIRS, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False), encoding="utf-8")


def script(case):
    """The turns of a model that knows the mends."""
    turns = []
    for mends in case.mends:
        for kind, where, what in mends:
            if kind == EDIT:
                turns.append(FunctionCall("read_cell", {"cell": f"c{where}"}))
                turns.append(FunctionCall("edit_cell", {"cell": f"c{where}", "source": what}))
                turns.append(FunctionCall("run_cells", {"cells": [f"c{where}"]}))
            elif kind == ADD:
                turns.append(FunctionCall("add_cell", {"source": what, "below": where}))
            elif kind == MOVE:
                turns.append(FunctionCall("move_cell", {"cell": f"c{where}", "below": what}))
        turns.append("Mended.")
    return turns


def kept(path, mended):
    """Text of what a mend must leave: all but our marks, outputs, counts and the sources of the mended cells."""
    data = json.loads(path.read_text("utf-8"))
    data["metadata"].pop("nbagent", None)
    cells = {cell["id"]: cell for cell in data.pop("cells")}
    for cell_id, cell in cells.items():
        for key in ("outputs", "execution_count", *(["source"] if cell_id in mended else [])):
            cell.pop(key, None)
        cell["metadata"].pop("nbagent", None)
    return {"": json.dumps(data), **{cell_id: json.dumps(cell) for cell_id, cell in cells.items()}}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_it_is_mended(case, kernels, tmp_path, monkeypatch):
    monkeypatch.setattr(own_kernel, "MOST_CHARS", 20_000)
    if not case.alone:
        await share(kernels, tmp_path, monkeypatch)
    path = tmp_path / "broken.ipynb"
    written(case, path)
    mended = {f"c{where}" for mends in case.mends for kind, where, _ in mends if kind == EDIT}
    before = kept(path, mended)
    provider = ScriptedProvider(script(case))
    result = await fix_notebook(path, Agent(provider), seconds=2 if case.alone else 60)

    assert result.ok, result.verification
    assert len(result.runs) == len(case.mends)
    told = [messages[-1].text for messages, _ in provider.requests if messages[-1].role == "user"]
    assert [text for text in case.told if text not in told[0]] == []
    assert not any("Error:" in call["result"][:6] for run in result.runs for call in run.function_calls)
    nbformat.validate(json.loads(path.read_text("utf-8")))
    after = kept(path, mended)
    assert {key: after.get(key) for key in before} == before
    added = sum(kind == ADD for mends in case.mends for kind, *_ in mends)
    assert len(after) == len(before) + added
    assert {change.cell_id for change in result.changes if change.before is not None} == mended

"""`FileNotebook`: a file's cells are changed and run, and everything else in it stays unchanged."""

import asyncio
import gc
import json

import nbformat
import pytest

from nbagent.core.current import changed
from nbagent.core.run_context import RunContext
from nbagent.errors import ConfigurationError
from nbagent.notebook.document import own_kernel
from nbagent.notebook.document.document import KEPT_CHARS, CellChangedError
from nbagent.notebook.document.file import FileNotebook

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("tested_kernel")]

#: As Jupyter writes it, but with an order of keys and numbers of somebody else's.
CELLS = [
    {"cell_type": "markdown", "id": "head", "metadata": {"z": 1.5, "a": "ü"}, "source": ["# Orders\n", "of 2026"]},
    {
        "cell_type": "code",
        "execution_count": 7,
        "id": "load",
        "metadata": {"tags": ["keep"], "slideshow": {"slide_type": "skip"}},
        "outputs": [{"name": "stdout", "output_type": "stream", "text": ["3 orders\n"]}],
        "source": ["orders = [1, 2, 3]"],
    },
]
METADATA = {"widgets": {"b": None, "a": [1e-7]}, "kernelspec": {"name": "tested", "display_name": "tested"}}


def written(path, minor=5, cells=CELLS, **style):
    data = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": minor}
    path.write_text(json.dumps(data, **{"indent": 1, "ensure_ascii": False, **style}) + "\n", encoding="utf-8")
    return path


def valid(path):
    nbformat.validate(json.loads(path.read_text()))
    return nbformat.read(path, as_version=4)


async def test_the_first_change_creates_the_file_and_its_cells_run(tmp_path):
    async with FileNotebook(tmp_path / "new.ipynb", kernel="tested") as document:
        assert await document.cells() == []
        assert not document.path.exists()
        cell = await document.insert("total = 40 + 2\nprint(total)\ntotal")
        assert (await document.run(cell.id)).execution_count == 1
        assert "Printed:\n42\nReturned:\n42" in await document.read(cell.id)
        failing = await document.insert("import os\nos.getcwd(), 1 / 0")
        assert "ZeroDivisionError" in await document.read((await document.run(failing.id)).id)
        slider = await document.insert("import ipywidgets\nipywidgets.IntSlider(7)")
        shown = (await document.run(slider.id)).outputs[0]["data"]["application/vnd.jupyter.widget-view+json"]
        where = await document.insert("import os; os.path.basename(os.getcwd())")
        assert tmp_path.name in await document.read((await document.run(where.id)).id)
    saved = valid(document.path)
    assert [cell.execution_count for cell in saved.cells] == [1, 2, 3, 4]
    states = saved.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    assert states[shown["model_id"]]["state"]["value"] == 7


@pytest.mark.parametrize(
    "style",
    [{}, {"indent": 2}, {"indent": None, "separators": (",", ":")}, {"ensure_ascii": True}],
    ids=["jupyter", "colab", "compact", "ascii"],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["lf", "crlf"])
async def test_unchanged_parts_stay_byte_for_byte(tmp_path, style, line_end):
    path = written(tmp_path / "theirs.ipynb", **style)
    text = path.read_text("utf-8").replace("1.5", "1.50").replace("1e-07", "1E-7").replace("\n", line_end)
    path.write_text(text, "utf-8", newline="")
    before = path.read_bytes()
    document = FileNotebook(path)
    cell = await document.insert("len(orders)", below="load")
    with_cell = path.read_bytes()
    assert with_cell != before
    await document.move(cell.id, below="head")
    await document.edit("load", "orders = [1]")
    await document.edit("head", "# Fewer orders")
    changed = valid(path)
    assert changed.cells[2].metadata.tags == ["keep"]
    assert changed.metadata.widgets == METADATA["widgets"]
    assert json.dumps(METADATA["widgets"]) in json.dumps(json.loads(path.read_text())["metadata"])
    assert await FileNotebook(path).undo() == []  # as another process
    assert path.read_bytes() == before


async def test_outputs_too_long_for_the_journal_are_named_after_an_undo_by_another_process(tmp_path):
    long = [{"name": "stdout", "output_type": "stream", "text": ["x" * KEPT_CHARS]}]
    path = written(tmp_path / "long.ipynb", cells=[{**CELLS[1], "outputs": long}])
    document = FileNotebook(path)
    await document.edit("load", "orders = [1]")
    assert path.stat().st_size < KEPT_CHARS
    assert await FileNotebook(path).undo() == []
    assert "too long to be kept" in await document.read("load")


async def test_a_restored_cell_has_no_mark_of_an_accepted_run(tmp_path):
    document = FileNotebook(written(tmp_path / "theirs.ipynb"))
    with changed(call=RunContext(run_id="run 1")):
        await document.edit("load", "orders = []")
    with changed(call=RunContext(run_id="run 2")):
        await document.delete("load")
    await document.accept("run 1")
    assert await document.undo("run 2") == []
    assert (await document.cell("load")).run_id is None


async def test_the_first_change_adds_missing_cell_ids(tmp_path):
    cells = [{key: value for key, value in cell.items() if key != "id"} for cell in CELLS]
    path = written(tmp_path / "old.ipynb", minor=4, cells=cells)
    before = path.read_bytes()
    document = FileNotebook(path)
    ids = [cell.id for cell in await document.cells()]
    assert path.read_bytes() == before
    await document.insert("1", below=ids[0])
    assert [cell.id for cell in valid(path).cells][::2] == ids


async def test_changes_saved_by_others_are_read(tmp_path):
    path = written(tmp_path / "shared.ipynb")
    document = FileNotebook(path)
    read = (await document.cell("load")).source
    written(path, cells=[CELLS[0], {**CELLS[1], "source": ["orders = []  # the person's"]}])
    with pytest.raises(CellChangedError, match="cell 2 .* changed since you read it"):
        await document.edit("load", "orders = [4]", expected=read)
    assert (await document.cell("load")).source == "orders = []  # the person's"
    with pytest.raises(CellChangedError, match="'gone'"):
        await document.delete("gone")


async def test_long_cells_are_stopped_with_a_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(own_kernel, "MOST_CHARS", 10_000)
    monkeypatch.setattr(own_kernel, "GRACE_SECONDS", 3.0)
    async with FileNotebook(tmp_path / "long.ipynb", kernel="tested") as document:
        for source, seconds, told in [
            ("kept = 1\nwhile True: pass", 0.3, "KeyboardInterrupt: stopped after 0.3 seconds, the longest"),
            ("while True: print('x' * 100)", 60, "stopped: it showed more than 10,000 characters"),
            ("kept", 60, "Returned:\n1"),
            ("import os; os._exit(1)", 60, "DeadKernelError: the kernel died"),
            ("kept", 60, "NameError"),
            (
                "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
                0.3,
                "stopped after 0.3 seconds, the longest that a cell may run; all variables are gone",
            ),
        ]:
            cell = await document.insert(source)
            assert told in await document.read((await document.run(cell.id, seconds)).id)
    assert document.path.stat().st_size < 40_000
    assert len(valid(document.path).cells) == 6


async def test_a_cancelled_run_ends_its_kernel_quietly(tmp_path):
    said = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: said.append(context))
    document = FileNotebook(tmp_path / "long.ipynb", kernel="tested")
    cell = await document.insert("import time\nopen('begun', 'w')\ntime.sleep(600)")
    running = asyncio.ensure_future(document.run(cell.id))
    while not (tmp_path / "begun").exists():
        await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not document.kernel.is_running
    while left := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(left)
    gc.collect()
    assert said == []


@pytest.mark.parametrize("text", ["", "[]", '{"cells": 3}', '{"nbformat": 4, "nbformat_minor": 5, "cells": []}'])
def test_other_files_are_refused_and_stay_unchanged(tmp_path, text):
    path = tmp_path / "notes.ipynb"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"notes.ipynb' is not a notebook"):
        FileNotebook(path)
    assert path.read_text() == text


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="there is no folder .*none': create it first"):
        FileNotebook(tmp_path / "none" / "new.ipynb")


async def test_an_unknown_kernel_is_named_with_the_known_ones(tmp_path):
    async with FileNotebook(tmp_path / "new.ipynb", kernel="julia-9") as document:
        cell = await document.insert("1")
        with pytest.raises(
            ConfigurationError, match="no kernel 'julia-9' is installed here. Installed kernels: .*tested"
        ):
            await document.run(cell.id)


async def test_each_change_is_written_once_with_its_journal_and_so_is_an_undo(tmp_path, monkeypatch):
    notebook, saves = FileNotebook(written(tmp_path / "a.ipynb")), []

    def write_text(path, text):
        saves.append(json.loads(text))
        path.write_text(text)

    monkeypatch.setattr("nbagent.notebook.document.file.write_text", write_text)
    for number in range(3):
        await notebook.insert(f"# {number}", "markdown")
        assert len(saves) == number + 1
        assert len(saves[-1]["cells"]) - 2 == len(saves[-1]["metadata"]["nbagent"]["changes"]) == number + 1
    assert await notebook.undo() == []
    assert [len(saved["cells"]) for saved in saves] == [3, 4, 5, 2]
    assert "nbagent" not in saves[-1]["metadata"]

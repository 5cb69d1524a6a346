"""`verify_notebook`: checks a notebook in a fresh kernel."""

from dataclasses import replace

import pytest

from nbagent import verify_notebook
from nbagent.errors import ConfigurationError
from nbagent.notebook.document.file import FileNotebook

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("tested_kernel")]


async def notebook(path, *sources, run=True):
    async with FileNotebook(path, kernel="tested") as document:
        cells = [await document.insert(source) for source in sources]
        for cell in cells if run else ():
            await document.run(cell.id)
    return cells


async def test_a_notebook_that_runs_again_with_the_same_outputs_is_ok(tmp_path):
    await notebook(
        tmp_path / "good.ipynb",
        "%matplotlib inline\nimport matplotlib.pyplot as plt, os\nprint(object())",
        "plt.plot([1, 2])  # a plot",
        "print(os.getpid())  # another one in each kernel\n# NBVAL_IGNORE_OUTPUT",
        "await __import__('asyncio').sleep(0, 'done')",
    )
    before = (tmp_path / "good.ipynb").read_bytes()
    seen = []
    verified = await verify_notebook(tmp_path / "good.ipynb", kernel="tested", on_cell=lambda *at: seen.append(at))
    assert str(verified) == "4 code cells ran in a fresh kernel, and the outputs match the saved ones."
    assert verified.ok
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert (tmp_path / "good.ipynb").read_bytes() == before


async def test_each_problem_is_named_with_its_cell_and_cause(tmp_path):
    path = tmp_path / "bad.ipynb"
    await notebook(
        path,
        "import os\nprint(os.getpid())",  # differs
        "orders = [1, 2]; rows = 2",
        "orders.append(3)",
        "print(len(frame))",  # defined below only, and there was a `frame` when it ran
        "frame = orders",
        "gone + 1",
        "raise ValueError('what')",
        "late = missing['x']\nlate",
        "late",
        "raise KeyError  # on purpose",
    )
    async with FileNotebook(path) as document:
        last = (await document.cells())[-1]
        await document._replace(replace(last, metadata={"tags": ["raises-exception"]}), last.source)
        verified = await verify_notebook(document, kernel="tested")
    assert [(problem.number, problem.kind) for problem in verified.problems] == [
        (1, "differs"), (4, "hidden"), (6, "hidden"), (7, "failed"), (8, "hidden"), (9, "hidden"),
    ]  # fmt: skip
    told = str(verified)
    assert "Of 10 code cells, 6 have problems" in told
    assert "needs 'frame', which only cell 5 below it defines" in told
    assert "needs 'gone', which no cell defines" in told
    assert "raises ValueError: what" in told
    assert "needs 'late' of cell 8, which failed" in told


async def test_a_dead_kernel_ends_it(tmp_path):
    await notebook(tmp_path / "dead.ipynb", "x = 1", "import os; os._exit(1)", "x", run=False)
    verified = await verify_notebook(tmp_path / "dead.ipynb", kernel="tested")
    assert verified.cells == 2
    assert "raises DeadKernelError: the kernel died" in str(verified)


async def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="there is no notebook '.*none.ipynb'"):
        await verify_notebook(tmp_path / "none.ipynb")

"""For nbval: the solution of a notebook's exercise runs after its cells, in the same kernel.

Kernels are reached through files, since another worker's kernel could take a free port first. When the tests
run too, kernels are forked like theirs (`tests/support/forked_kernels.py`). Otherwise each is a new process.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from tempfile import TemporaryDirectory
from typing import Any

import nbval.kernel
import pytest
from jupyter_client.manager import KernelManager
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell
from nbval.plugin import IPyNbCell, IPyNbFile

try:
    from support.forked_kernels import METADATA
except ImportError:  # the tests are not there
    METADATA = {}

FOLDED = re.compile(r"<details>\n<summary>A solution</summary>\n\n(.*)\n\n</details>", re.DOTALL)
BLOCK = re.compile(r"^```(?:python)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)

sockets = TemporaryDirectory(prefix="kernels")
numbers = count()


def through_files(**options: Any) -> KernelManager:
    """What nbval uses in place of `KernelManager`."""
    manager = KernelManager(transport="ipc", ip=f"{sockets.name}/{next(numbers)}", **options)
    manager.kernel_spec.metadata.update(METADATA)
    return manager


nbval.kernel.KernelManager = through_files


def solution_of(notebook: NotebookNode) -> list[str]:
    """The sources of the solution's cells. It stands folded in the last cell."""
    folded = FOLDED.fullmatch(notebook.cells[-1].source.strip())
    assert folded, f"the last cell is no folded solution: {notebook.cells[-1].source[:200]}"
    return [block.strip() for block in BLOCK.findall(folded[1])]


class SolutionCell(IPyNbCell):
    """A cell that must run; the last one of a solution shows something. Their outputs aren't saved."""

    def runtest(self) -> None:
        super().runtest()
        assert self.test_outputs or not self.options["last"], "the solution shows nothing"


def collect_with_solution(self: IPyNbFile) -> Iterator[pytest.Item]:
    yield from collect(self)
    sources = solution_of(self.nb)
    for number, source in enumerate(sources):
        options = defaultdict(bool, last=number == len(sources) - 1)
        name, cell = f"Solution {number}", new_code_cell(source)
        yield SolutionCell.from_parent(self, name=name, cell_num=number, cell=cell, options=options)


collect = IPyNbFile.collect
IPyNbFile.collect = collect_with_solution

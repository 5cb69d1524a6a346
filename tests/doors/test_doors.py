"""A table: what each door shows for each case."""

from contextlib import AsyncExitStack
from functools import cached_property
from pathlib import Path

import pytest
import pytest_asyncio
from support.kernels import Kernel
from support.serving import served

from doors.cases import AFTER, CASES, agent, begin, with_facts
from doors.differences import DIFFERENT, MISSING, expected, is_missing
from doors.drivers import acp, ag_ui, agent_chat, cell, completions, mcp, panel, plain, responses

DOORS = {
    "plain Python": plain.Door(),
    "/agent/chat whole": agent_chat.Door(),
    "/agent/chat streamed": agent_chat.Streamed(),
    "completions whole": completions.Door(),
    "completions streamed": completions.Streamed(),
    "responses whole": responses.Door(),
    "responses streamed": responses.Streamed(),
    "AG-UI": ag_ui.Door(),
    "ACP": acp.Door(),
    "cell": cell.Door(),
    "panel": panel.Door(),
    "MCP": mcp.Door(),
}


IN_KERNEL = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from doors import cases
from nbagent.core.content.images import Image
dot = Image.from_part(cases.PICTURE)
"""


class Places(AsyncExitStack):
    """One server for all doors that need one. Each door is opened once."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self._opened = folder, set()

    async def door(self, name):
        if name not in self._opened:
            self._opened.add(name)
            await DOORS[name].open(self)
        return DOORS[name]

    @cached_property
    def server(self):
        return self.enter_context(served(agent(), requests_per_minute=None))

    @cached_property
    def kernel(self):
        kernel = self.enter_context(Kernel(self.folder))
        kernel.ok(IN_KERNEL)
        return kernel


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def places(tmp_path_factory):
    async with Places(tmp_path_factory.mktemp("doors")) as places:
        yield places


KERNEL = ("cell", "panel", "MCP")
TABLE = [
    pytest.param(door, name, marks=[pytest.mark.kernel] * (door in KERNEL))
    for door in DOORS
    for name in CASES
    if not is_missing(door, name)
]


@pytest.mark.parametrize(("door", "name"), TABLE)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_door_shows(places, door, name):
    opened, case = await places.door(door), CASES[name]
    begin()
    seen = await opened.see(case)
    facts = await opened.happened()
    assert with_facts(seen, facts, await opened.again(AFTER)) == expected(door, name, case)
    assert facts["source"] == opened.source


def test_each_difference_belongs_to_the_table():
    for door, case in (*MISSING, *DIFFERENT):
        assert case in (*CASES, "*")
        assert any(name.startswith(door) for name in DOORS)

"""The notebook tools and their modes in a real kernel: with commands, in a panel, for MCP clients and in an editor."""

from pathlib import Path

import acp
import pytest
from acp import schema
from mcp_types import Implementation
from support.acp_editor import edited
from support.mcp_sessions import configured, session, text_of
from support.panels import Panel

pytestmark = pytest.mark.kernel

HELPERS = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from support.memory_notebook import MemoryNotebook
from nbagent.notebook.document.cell import NotebookCell
from nbagent.notebook.document.tools import notebook_tools
"""
SETUP = """
notebook = MemoryNotebook(NotebookCell("code", "x = 1\\nx + 1", id="sum"))
agent = Agent(ScriptedProvider({turns}), tools=notebook_tools(notebook))
"""


@pytest.fixture
def kernel(shared):
    shared.ok(SETUP.format(turns=[]))
    return shared


def test_the_mode_is_shown_and_chosen(kernel):
    shown = kernel.ok("%agent mode").stdout
    assert shown.splitlines()[0] == "● ask       each change and each run asks"
    assert kernel.ok("%agent mode auto").stdout.splitlines()[2].startswith("● auto ")
    assert "did you mean auto-edit?" in kernel.run("%agent mode autoedit").stderr
    kernel.ok("agent = Agent(tools=[])")
    assert "%agent tools add notebook adds them" in kernel.run("%agent mode").stderr


def test_the_tools_are_added_once_and_keep_their_mode(kernel):
    kernel.ok("agent = Agent(tools=[])\n%agent tools add notebook\n%agent mode auto-edit")
    kernel.ok("%agent tools drop notebook\n%agent tools add notebook")
    assert len(kernel.value("agent.offered_tools()")) == 7
    assert "● auto-edit" in kernel.ok("%agent mode").stdout


def test_the_panel_shows_the_mode_and_follows_it(kernel):
    panel = Panel(kernel)
    assert panel.state["mode"]["now"] == "ask"
    panel.tell("mode", "auto")
    panel.until(lambda: panel.state["mode"]["now"] == "auto")
    assert "● auto " in kernel.ok("%agent mode").stdout
    kernel.ok("%agent mode auto-edit")
    panel.until(lambda: panel.state["mode"]["now"] == "auto-edit")
    panel.tell("mode", "anything")
    kernel.ok("agent.function_registry.unregister('run_cells'); 1")
    assert kernel.value("agent.function_registry.get_function('add_cell').func.__self__.mode") == "auto-edit"


def test_a_person_sees_edits_and_denies_in_the_panel(kernel):
    turns = [
        """FunctionCall("read_cell", {"cell": "sum"}, "a")""",
        """FunctionCall("edit_cell", {"cell": "sum", "source": "x = 2\\nx + 1"}, "b")""",
        """FunctionCall("run_cells", {"cells": ["sum"]}, "c")""",
        """lambda messages, functions: messages[-1].text""",
    ]
    kernel.ok(SETUP.format(turns=f"[{', '.join(turns)}]"))
    panel = Panel(kernel)
    panel.ask("double it")
    panel.until_text("edit_cell asks to edit cell 1 (sum)", "x = 1\nx = 2\nx + 1")
    panel.click("Edit")
    panel.set({"value": "x = 3\nx + 1"}, description="source")
    panel.click("Approve")
    panel.until_text("run_cells asks to run cell 1 (sum)", "x = 3\nx + 1")
    assert kernel.value("notebook.sources") == ["x = 3\nx + 1"]
    panel.set({"value": "it is late"}, description="Reason")
    panel.click("Deny")
    panel.until_text("The user denied this call: it is late.")
    kinds = kernel.value("agent.trace.cells[['kind', 'before', 'after']].values.tolist()")
    assert kinds == [["edit", "x = 1\nx + 1", "x = 3\nx + 1"]]


async def test_an_mcp_client_works_in_the_notebook(kernel):
    kernel.ok("%agent mode auto")
    server = configured(kernel.ok("%agent serve --mcp").text)
    async with session(server, client_info=Implementation(name="editor", version="1")) as client:
        assert text_of(await client.call_tool("list_cells")) == "1. sum (code, not run, 12 tokens): x = 1"
        added = text_of(await client.call_tool("add_cell", {"source": "print(2 + 2)"}))
        cell_id = kernel.value("notebook.list[1].id")
        assert added == f"Added code cell 2, id {cell_id}."
        ran = text_of(await client.call_tool("run_cells", {"cells": [cell_id]}))
        assert ran == f"Cell 2, id {cell_id}, code, ran as In [1]:\nPrinted:\n4"
        kernel.ok("notebook.type_into('sum', 'x = 5')")
        unread = await client.call_tool("edit_cell", {"cell": "sum", "source": "x = 6"})
        assert unread.is_error
        assert "you have not read it yet. It now reads:" in text_of(unread)
    kernel.ok("%agent serve --stop")
    sources = kernel.value("agent.trace.cells.merge(agent.trace.runs, on='run_id')[['kind', 'source']].values.tolist()")
    assert sources == [["add", "mcp-client:editor"], ["run", "mcp-client:editor"]]


EDITORS_AGENT = """
from nbagent import Agent, FunctionCall, ScriptedProvider
def turn(messages, functions):
    if messages[-1].role == "tool":
        return messages[-1].text
    return FunctionCall("notebook_add_cell", {"source": "print(2 + 2)"})
agent = Agent(ScriptedProvider(turn))
"""


async def test_an_editors_agent_works_in_the_notebook(kernel, tmp_path):
    kernel.ok("%agent mode auto")
    server = configured(kernel.ok("%agent serve --mcp").text)
    headers = [schema.HttpHeader(name=name, value=value) for name, value in server["headers"].items()]
    given = schema.HttpMcpServer(type="http", name="notebook", url=server["url"], headers=headers)
    async with edited(tmp_path, EDITORS_AGENT) as (editor, client, _):
        await client.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session_id = (await client.new_session(cwd=str(tmp_path), mcp_servers=[given])).session_id
        editor.answers = ["allow"]
        await client.prompt(session_id=session_id, prompt=[acp.text_block("Print 2 + 2.")])
        assert editor.text() == f"Added code cell 2, id {kernel.value('notebook.list[1].id')}."
        assert [asked.title.split()[0] for asked, _ in editor.asked] == ["notebook_add_cell"]
    assert kernel.value("notebook.list[1].source") == "print(2 + 2)"
    kernel.ok("%agent serve --stop")

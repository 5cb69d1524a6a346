"""The notebook as an MCP server in JupyterLab: what a person sees of it, and approves."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import nbformat
import pytest
from mcp_types import Implementation
from support.lab import BEGIN
from support.mcp_sessions import configured, session, text_of

pytestmark = pytest.mark.browser

WIPE = """
agent = Agent(ScriptedProvider([]), tools=nbagent.live)
@tool(approve=True)
def wipe(table: str) -> str:
    '''Delete.'''
    return f"{table} is gone."
"""


async def call(server, **arguments):
    async with session(server, client_info=Implementation(name="editor", version="1")) as client:
        return text_of(await client.call_tool("wipe", arguments))


def test_a_client_asks_and_a_person_approves(lab):
    cells = [f"import nbagent\n{BEGIN}{WIPE}", "%agent serve --mcp", "%agent serve --stop"]
    page = lab.open("serving.ipynb", cells)
    lab.command(page, "notebook:run-cell-and-select-next")
    lab.command(page, "notebook:run-cell-and-select-next")
    line = page.locator(".jp-OutputArea-output pre", has_text="mcpServers")
    server = configured(line.inner_text())
    with ThreadPoolExecutor() as threads:
        called = threads.submit(asyncio.run, call(server, table="cities"))
        page.get_by_text("mcp-client:editor calls a tool:").wait_for()
        page.get_by_role("button", name="Approve", exact=True).click()
        assert called.result() == "cities is gone."
        called = threads.submit(asyncio.run, call(server, table="people"))
        page.get_by_role("button", name="Deny", exact=True).click()
        assert "not approved" in called.result()
    page.get_by_text("calls a tool:").wait_for(state="detached")
    page.locator(".jp-CodeCell .jp-InputArea-editor").nth(2).click()  # the clicks have chosen another cell
    lab.command(page, "notebook:run-cell-and-select-next")
    page.get_by_text("The MCP server has ended.").first.wait_for()
    line.wait_for(state="detached")
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    saved = nbformat.writes(nbformat.read(lab.folder / "serving.ipynb", as_version=4))
    assert "The MCP server has ended." in saved
    assert "Bearer" not in saved

"""The notebook tools, as a model calls them: their results, and what stays unchanged."""

import asyncio
from dataclasses import replace

import pytest
from support.memory_notebook import MemoryNotebook

from nbagent import Agent, ScriptedProvider
from nbagent.chat.approval import where_asked
from nbagent.core.messages import FunctionCall
from nbagent.errors import ConfigurationError
from nbagent.functions.executor import ToolExecutor
from nbagent.functions.live import as_registry
from nbagent.notebook.display.approval import denied
from nbagent.notebook.document.cell import NotebookCell
from nbagent.notebook.document.modes import runs_shell
from nbagent.notebook.document.tools import NOTEBOOK_TOOLS, notebook_tools

PIXEL = "iVBORw0KGgo="


@pytest.fixture
def notebook():
    return MemoryNotebook(
        NotebookCell("markdown", "# Orders", id="top"),
        NotebookCell("code", "x = 20\nx + 1", id="sum"),
        NotebookCell("code", "", id="empty"),
    )


def model(notebook, mode="auto", approver=lambda call, definition: True, **options):
    """Calls a tool as a model does, and returns what the model reads."""
    executor = ToolExecutor(as_registry(notebook_tools(notebook, mode, **options)), approver=approver)

    async def call(name, **arguments):
        return (await executor.run(FunctionCall(name, arguments))).content

    return call


async def test_the_list_names_each_cell_with_its_state(notebook):
    call = model(notebook)
    await call("run_cells", cells=["sum"])
    await call("add_cell", source="1 / 0")
    await call("run_cells", cells=[notebook.list[-1].id])
    notebook.list[2] = NotebookCell("code", "password = 'a8Xk29sLq0pZ'", id="secret")
    *lines, failed = (await call("list_cells")).splitlines()
    assert lines == [
        "1. top (markdown, 12 tokens): # Orders",
        "2. sum (code, ran as In [1], 16 tokens): x = 20",
        "3. secret (code, not run, 15 tokens): password = '(hidden)'",
    ]
    assert failed.startswith(f"4. {notebook.list[-1].id} (code, failed as In [2], ")
    assert await model(MemoryNotebook())("list_cells") == "The notebook has no cells."


async def test_a_cell_is_added_run_moved_and_deleted(notebook):
    call = model(notebook)
    assert await call("add_cell", source="print(2 + 2)", below="top") == f"Added code cell 2, id {notebook.list[1].id}."
    added = notebook.list[1].id
    assert await call("run_cells", cells=[added]) == f"Cell 2, id {added}, code, ran as In [1]:\nPrinted:\n4"
    assert await call("move_cell", cell=added, below="") == f"Moved: it is cell 1 now, id {added}."
    assert await call("move_cell", cell=added, below=added) == f"Moved: it is cell 1 now, id {added}."
    assert await call("delete_cell", cell=added) == f"Deleted cell 1, id {added}. The cells below it have new numbers."
    assert [cell.id for cell in notebook.list] == ["top", "sum", "empty"]
    await notebook.undo()
    assert [cell.id for cell in notebook.list] == ["top", "sum", "empty"], "all of that left nothing behind"


async def test_cells_are_added_one_below_the_other(notebook):
    call = model(notebook)
    await call("add_cell", source="first", below="top")
    await call("add_cell", source="second", kind="markdown")
    assert notebook.sources == ["# Orders", "first", "second", "x = 20\nx + 1", ""]
    assert notebook.list[2].kind == "markdown"


async def test_the_cell_that_was_written_last_runs_by_default(notebook):
    call = model(notebook)
    assert "you have not added or edited a cell yet" in await call("run_cells")
    await call("add_cell", source="1 + 1")
    await call("read_cell", cell="sum")
    await call("edit_cell", cell="sum", source="2 + 2")
    assert await call("run_cells") == "Cell 2, id sum, code, ran as In [1]:\nReturned:\n4"


async def test_runs_stop_at_the_first_cell_that_fails(notebook):
    call = model(notebook)
    await call("add_cell", source="1 / 0")
    failing = notebook.list[-1].id
    content = await call("run_cells", cells=["top", failing, "empty"])
    assert content.startswith("Cell 1, id top, is markdown: there is nothing to run.\nCell 4, id ")
    assert "Raised:" in content
    assert content.endswith("ZeroDivisionError: division by zero\nNot run, because of that: empty.")
    assert "'nowhere'" in await call("run_cells", cells=["sum", "nowhere"])
    assert notebook.list[1].execution_count is None, "nothing runs if one of the cells does not exist"


async def test_a_cell_that_runs_too_long_is_stopped_without_a_limit_for_the_call(notebook):
    notebook.namespace["sleeps"] = 5
    content = await model(notebook, seconds=0.05)("run_cells", cells=["sum"])
    assert content.endswith("\nTimeoutError")


async def test_a_plot_is_an_image_for_the_model(notebook):
    notebook.list[1] = NotebookCell(
        "code", "plot()", "sum", [{"output_type": "display_data", "data": {"image/png": PIXEL}, "metadata": {}}], 3
    )
    *texts, image = await model(notebook)("read_cell", cell="sum")
    assert texts[0]["text"] == "Cell 2, id sum, code, ran as In [3]:\nplot()"
    assert image == {"type": "image", "media_type": "image/png", "data": PIXEL}


# -- what the model does not know is not overwritten ------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["edit_cell", "delete_cell"])
async def test_a_cell_that_the_person_changed_is_not_overwritten_but_read(notebook, tool):
    asked = []
    call = model(notebook, approver=lambda call, definition: asked.append(call.name) or True)
    new = {"source": "x = 1"} if tool == "edit_cell" else {}
    unread = "Error: cell 2 was not changed: you have not read it yet. It now reads:\nCell 2, id sum"
    assert (await call(tool, cell="sum", **new)).startswith(unread)
    notebook.type_into("sum", "x = 30")
    content = await call(tool, cell="sum", **new)
    assert content.startswith("Error: cell 2 was not changed: it changed since you read it.")
    assert content.endswith("x = 30")
    assert notebook.sources[1] == "x = 30"
    await call(tool, cell="sum", **new)
    assert notebook.sources == (["# Orders", "x = 1", ""] if new else ["# Orders", ""]), "now the model knows it"


async def test_the_list_says_which_cells_have_changed(notebook):
    call = model(notebook)
    await call("read_cell", cell="sum")
    notebook.type_into("sum", "x = 30\nx")
    assert "2. sum (code, not run, 11 tokens, changed since you read it): x = 30" in await call("list_cells")


async def test_a_cell_of_one_line_is_known_from_the_list(notebook):
    call = model(notebook)
    await call("list_cells")
    assert await call("edit_cell", cell="top", source="# Customers") == "Edited cell 1, id top."
    assert notebook.sources[0] == "# Customers"


async def test_the_model_can_not_replace_what_it_can_not_see(notebook):
    call = model(notebook)
    notebook.type_into("sum", "key = 'sk-proj-a8Xk29sLq0pZa8Xk29sLq0pZ'\nuse(key)")
    await call("read_cell", cell="sum")
    assert "(hidden)" in await call("edit_cell", cell="sum", source="key = '(hidden)'\nuse(key, 2)")
    notebook.type_into("empty", "x = 1\n" * 3_000)
    await call("read_cell", cell="empty")
    assert "too long for you to read all of it" in await call("edit_cell", cell="empty", source="y = 1")
    assert notebook.sources[1:] == ["key = 'sk-proj-a8Xk29sLq0pZa8Xk29sLq0pZ'\nuse(key)", "x = 1\n" * 3_000]


async def test_errors_for_numbers_and_unknown_ids_name_the_remedy(notebook):
    call = model(notebook)
    assert await call("read_cell", cell="2") == (
        "Error: cells are named by their ids, since numbers change: cell 2 has the id 'sum'"
    )
    assert await call("move_cell", cell="sum", below="gone") == (
        "Error: there is no cell 'gone'. Call list_cells to see the ids."
    )


# -- modes ------------------------------------------------------------------------------------------------------------

CALLS = {
    "list_cells": {},
    "read_cell": {"cell": "top"},
    "add_cell": {"source": "1"},
    "edit_cell": {"cell": "top", "source": "# Sales"},
    "move_cell": {"cell": "empty", "below": ""},
    "run_cells": {"cells": ["sum"]},
    "delete_cell": {"cell": "empty"},
}


@pytest.mark.parametrize(
    ("mode", "asked"),
    [
        ("ask", ["add_cell", "edit_cell", "move_cell", "run_cells", "delete_cell"]),
        ("auto-edit", ["run_cells", "delete_cell"]),
        ("auto", ["delete_cell"]),
    ],
)
async def test_each_mode_asks_for_approval_of_its_calls(notebook, mode, asked):
    questions = []
    call = model(notebook, mode, lambda call, definition: questions.append(call.name))
    before = notebook.sources
    await call("list_cells")  # so that the one-line cells are known
    for name, arguments in CALLS.items():
        await call(name, **arguments)
    assert questions == asked
    if mode == "ask":
        assert notebook.sources == before, "nobody said yes"


async def test_auto_asks_before_a_cell_that_starts_programs(notebook):
    questions = []
    call = model(notebook, "auto", lambda call, definition: questions.append(call.arguments))
    notebook.type_into("empty", "%pip install pandas")
    assert "not approved" in await call("run_cells", cells=["sum", "empty"])
    assert questions == [{"cells": ["sum", "empty"]}]
    assert notebook.count == 0


async def test_each_approval_form_shows_the_change(notebook):
    asked = []

    def approver(call, definition):
        asked.append(f"{where_asked(call, definition)}\n{call.preview.to_text()}")
        return call.name == "add_cell"

    call = model(notebook, "ask", approver)
    notebook.type_into("sum", "".join(f"x{n} = {n}\n" for n in range(9)))
    await call("read_cell", cell="sum")
    await call("add_cell", source="y = 1", below="top")
    notebook.list[1] = replace(notebook.list[1], id="added")
    await call("edit_cell", cell="sum", source=notebook.list[2].source.replace("x7 = 7", "x7 = 6"))
    notebook.type_into("sum", "x = 1\nx + 1")
    await call("run_cells", cells=["added", "top", "sum"])
    await call("run_cells", cells=["added"])
    await call("list_cells")
    await call("delete_cell", cell="added")
    await call("move_cell", cell="added", below="")
    assert asked == [
        "add a code cell below cell 1 (top)\ny = 1",
        "edit cell 3 (sum)\n… [4 unchanged lines]\n  x4 = 4\n  x5 = 5\n  x6 = 6\n- x7 = 7\n+ x7 = 6\n  x8 = 8",
        "run 2 cells\nCell 2 (added):\ny = 1\n\nCell 3 (sum):\nx = 1\nx + 1",
        "run cell 2 (added)\ny = 1",
        "delete cell 2 (added)\n- y = 1",
        "move cell 2 (added) to the top\ny = 1",
    ]


async def test_edited_arguments_are_used_and_the_model_reads_the_reason_for_a_denial(notebook):
    def approver(call, definition):
        if call.name == "add_cell":
            return {**call.arguments, "source": "y = 2"}
        raise denied(call, "use the copy")

    call = model(notebook, "ask", approver)
    content = await call("add_cell", source="y = 1")
    assert notebook.sources[-1] == "y = 2"
    assert content.startswith("The user changed the arguments to {")
    assert "The user denied this call: use the copy." in await call("run_cells", cells=["sum"])


async def test_only_the_source_that_was_shown_runs(notebook):
    def approver(call, definition):
        notebook.type_into("sum", "wipe()")  # by another agent, while the call waits for approval
        return True

    content = await model(notebook, "auto-edit", approver)("run_cells", cells=["sum"])
    assert content == "Error: cell 2 changed before it was run, so no cell was run. Read it again."
    assert notebook.count == 0


@pytest.mark.parametrize(
    "source",
    [
        "!ls",
        "files = !ls",
        "if True:\n    !ls",
        "%pip install a",
        "pip install a",  # one line: IPython runs it as a magic
        "%%bash\nls",
        "\n%%sh\nls",
        "out = %system ls",
        "%sx ls",
        "%rm -r data",
        "%time !ls",
        "%%time\nx = 1\n!ls",
        "%%capture out\n%pip install a",
        "get_ipython().system('ls')",
        "get_ipython().run_line_magic(name, 'ls')",
    ],
)
def test_programs_are_detected_as_ipython_parses_the_cell(source):
    assert runs_shell(source)


@pytest.mark.parametrize(
    "source",
    [
        "x = 1",
        "",
        "print('!ls')",
        "text = '''\n!ls\n%pip install a\n'''",
        "%matplotlib inline",
        "%%time\nx % 2",
        "%timeit -n 3 sum(range(9))",
        "df?",
        "await load()",
        "x = 1\npip install",
    ],
)
def test_other_code_starts_no_program(source):
    assert not runs_shell(source)


def test_a_wrong_mode_or_document_is_named(notebook):
    with pytest.raises(ConfigurationError, match="mode"):
        notebook_tools(notebook, "yolo")
    with pytest.raises(ConfigurationError, match="document"):
        notebook_tools("report.ipynb")
    assert [tool.name for tool in notebook_tools(notebook)] == list(NOTEBOOK_TOOLS)


async def test_calls_in_one_answer_change_the_notebook_in_order(notebook):
    adds = [FunctionCall("add_cell", {"source": f"cell {n}"}, f"c{n}") for n in range(5)]
    agent = Agent(ScriptedProvider([adds, "done"]), tools=notebook_tools(notebook, "auto"))
    result = await agent.chat("write")
    assert notebook.sources[3:] == [f"cell {n}" for n in range(5)]
    assert {cell.run_id for cell in notebook.list[3:]} == {result.run_id}
    await asyncio.gather(notebook.undo())
    assert len(notebook.list) == 3


@pytest.mark.local_model
async def test_the_embedded_model_adds_and_runs_cells(notebook):
    agent = Agent("local", tools=notebook_tools(notebook, "auto"))
    await agent.chat("Add a cell that prints 2 + 2.")
    result = await agent.chat("Run it.")
    assert "ran as In [1]:\nReturned:\n4" in result.content
    await agent.chat('Add a Markdown heading "## Results".')
    assert [(cell.kind, cell.source) for cell in notebook.list[3:]] == [("code", "2 + 2"), ("markdown", "## Results")]

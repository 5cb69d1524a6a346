"""`trace.to_notebook`: past turns as cells that run without the agent."""

import json
from dataclasses import replace

import nbformat
import pytest
from support.memory_notebook import MemoryNotebook

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Trace
from nbagent.errors import ConfigurationError
from nbagent.functions.registry import FunctionDefinition
from nbagent.notebook.document.tools import notebook_tools
from nbagent.notebook.kernel_tools.kernel_tools import kernel_tools

ORDERS = "import pandas as pd\norders = pd.DataFrame({'city': ['Bonn', 'Bonn', 'Köln'], 'total': [1.0, 3.0, 8.0]})"


def mean_of(column: str, by: str = "city", first: int | None = None) -> dict:
    """The mean of a column of the orders, for each group.

    In Python:
        means = orders.groupby(by)[column].mean()
        means.head(first or len(means))

    Args:
        column: its name
    """
    return {"Bonn": 2.0, "Köln": 8.0}


def weather(city: str) -> str:
    """The weather."""
    return "``` 7 °C <b>and</b> rain"


def script(*calls: FunctionCall, says: str = "", ends: str = "Köln.") -> ScriptedProvider:
    return ScriptedProvider([LLMResponse(says, [call]) for call in calls] + [ends])


def sources(notebook: dict, kind: str) -> list[str]:
    return [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == kind]


async def test_calls_become_cells_that_run_without_the_agent(tmp_path):
    calls = [
        FunctionCall("run_code", {"code": ORDERS}, "1"),
        FunctionCall("run_code", {"code": "orders.oops"}, "2"),
        FunctionCall("list_variables", {}, "3"),
        FunctionCall("mean_of", {"column": "total"}, "4"),
        FunctionCall("peek_dataframe", {"name": "orders", "rows": 2, "columns": ["city"]}, "5"),
        FunctionCall("weather", {"city": "Bonn"}, "6"),
    ]
    tools = [*kernel_tools({}), mean_of, weather]
    agent = Agent(script(*calls, says="Look."), tools=tools, approve=lambda *_: True)
    result = await agent.chat("Where are orders largest?\nAnd why?")
    path = tmp_path / "orders.ipynb"
    notebook = agent.trace.to_notebook(result.run_id, path)
    nbformat.validate(notebook)
    assert nbformat.read(path, 4) == notebook
    code = sources(notebook, "code")
    assert code == [
        ORDERS,
        "means = orders.groupby('city')['total'].mean()\nmeans.head(None or len(means))",
        "orders[['city']].head(2)",
    ]
    ran: dict = {}
    exec("\n".join(code), ran)
    assert ran["means"].to_dict() == {"Bonn": 2.0, "Köln": 8.0}
    assert "nbagent" not in json.dumps(notebook)
    texts = sources(notebook, "markdown")
    assert texts[0] == "## Where are orders largest?\n\n> Where are orders largest?\n> And why?"
    assert texts[-2] == (
        "```python\nweather(city='Bonn')\n```\n\nThe agent read:\n\n````text\n``` 7 °C <b>and</b> rain\n````"
    )
    assert texts[-1] == "Köln."
    with pytest.raises(ConfigurationError, match="exists"):
        agent.trace.to_notebook(path=path)


async def test_all_turns_of_a_trace_and_of_a_file(tmp_path):
    agent = Agent(script(FunctionCall("mean_of", {"column": "total", "by": "x'); oops('"}, "1")), tools=[mean_of])
    await agent.chat("First")
    agent.provider = ScriptedProvider(["Second answer."])
    await agent.chat("Second")
    agent.trace.save(tmp_path / "t.sqlite")
    notebook = Trace.load(tmp_path / "t.sqlite").to_notebook()
    assert agent.trace.tool_calls["python"].tolist() == sources(notebook, "code")
    assert notebook == agent.trace.to_notebook() == agent.trace.to_notebook(agent.trace.runs["run_id"])
    assert sources(notebook, "markdown") == ["## First", "Köln.", "## Second", "Second answer."]
    assert sources(notebook, "code")[0].startswith("""means = orders.groupby("x'); oops('")['total']""")
    with pytest.raises(ConfigurationError, match="run_id"):
        agent.trace.to_notebook("nobody")


async def test_an_mcp_server_cannot_put_code_into_a_cell():
    foreign = FunctionDefinition("weather", "The weather.\n\nIn Python: print(city)", None, weather, source="mcp:sky")
    for tool, code in ((foreign, []), (replace(foreign, source=""), ["print('Bonn')"])):
        agent = Agent(script(FunctionCall("weather", {"city": "Bonn"}, "1")), tools=[tool])
        await agent.chat("How is the weather?")
        assert sources(agent.trace.to_notebook(), "code") == code


async def test_added_cells_have_their_final_source():
    document = MemoryNotebook("mine = 1")

    async def play(messages, functions):
        ids = [cell.id for cell in await document.cells()]
        turns = [
            [FunctionCall("add_cell", {"source": "## Two", "kind": "markdown"}, "1")],
            [FunctionCall("add_cell", {"source": "tow = 2"}, "2"), FunctionCall("add_cell", {"source": "gone"}, "3")],
            [FunctionCall("edit_cell", {"cell": ids[min(2, len(ids) - 1)], "source": "two = 2"}, "4")],
            [FunctionCall("run_cells", {"cells": [ids[min(2, len(ids) - 1)]]}, "5")],
            [FunctionCall("delete_cell", {"cell": ids[-1]}, "6")],
            "Done.",
        ]
        return turns[sum(message.role == "assistant" for message in messages)]

    agent = Agent(ScriptedProvider(play), tools=notebook_tools(document, "auto"), approve=lambda *_: True)
    await agent.chat("Two?")
    assert document.sources == ["mine = 1", "## Two", "two = 2"]
    notebook = agent.trace.to_notebook()
    assert [cell["source"] for cell in notebook["cells"]] == ["## Two?", "## Two", "two = 2", "Done."]
    nbformat.validate(notebook)

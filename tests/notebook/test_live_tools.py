"""Live tools in a real kernel: each request offers what cells have defined, redefined, deleted or shadowed.

`tests/functions/test_live.py` has the same without a kernel, with other functions and types.
"""

import json
import os
import time

import pytest

pytestmark = pytest.mark.kernel

HELPERS = """
import json
async def call(name, /, **arguments):
    "What the model reads, and what the trace keeps."
    agent.provider = ScriptedProvider([FunctionCall(name, arguments, "c"), "done"])
    return (await agent.chat("go")).function_calls[0]["result"]

def offered():
    "Each tool with its description and the names of its parameters."
    functions = agent.function_registry.list_functions()
    print(json.dumps({f["name"]: [f["description"], [*f["parameters"]["properties"]]] for f in functions}))

def schema(name, parameter):
    print(json.dumps(agent.function_registry.get_function(name).parameters["properties"][parameter]))
"""


@pytest.fixture
def kernel(shared):
    shared.ok("nbagent.live._entries.clear()\nagent = Agent(tools=nbagent.live)")
    return shared


def define(kernel, *cells):
    """Run cells. Returns the tools that are offered afterwards."""
    for cell in cells:
        kernel.ok(cell)
    return json.loads(kernel.ok("offered()").stdout)


def call(kernel, name, /, **arguments):
    return kernel.ok(f"print(await call({name!r}, **{arguments!r}))").stdout.rstrip("\n")


MODULE = """
class Shop:
    def price(self, {0}: {1}) -> str:
        "{0} price."
        return "{0}"

def area({0}: {1}) -> str:
    "{0} area."
    return "{0}"
"""


def test_autoreload_of_a_module_on_disk(kernel, tmp_path):
    module = tmp_path / "toolbox.py"
    module.write_text(MODULE.format("old", "str"))
    kernel.ok(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n%load_ext autoreload\n%autoreload 2")
    kernel.ok("import toolbox\nfrom toolbox import area\nbox = toolbox.Shop()\ntool(area)")
    kernel.ok("%agent tools add box.price")
    try:
        for moment, (name, kind, wanted) in enumerate([("old", "str", "string"), ("new", "int", "integer")]):
            module.write_text(MODULE.format(name, kind))
            os.utime(module, (stamp := time.time() + 10 * moment, stamp))
            assert define(kernel) == {"area": [f"{name} area.", [name]], "box_price": [f"{name} price.", [name]]}
            for tool in ("area", "box_price"):
                assert json.loads(kernel.ok(f"schema({tool!r}, {name!r})").stdout) == {"type": wanted}
                assert call(kernel, tool, **{name: 1}) == name
        versions = "agent.trace.tool_calls.groupby('name')['function_version'].nunique().tolist()"
        assert kernel.value(versions) == [2, 2]
    finally:
        kernel.ok("%autoreload 0")


def test_the_trace_knows_version_and_cell_of_each_tool(kernel):
    def ask(**arguments):
        kernel.ok(f"agent.provider = ScriptedProvider([FunctionCall('size', {arguments!r}, 'c'), 'done'])")
        kernel.ok("%%agent\ngo", cell_id="asking")
        columns = "['function_version', 'cell_id_of_definition', 'cell_id']"
        row = kernel.ok(f"print(agent.trace.tool_calls[{columns}].iloc[-1].to_json())").stdout
        return tuple(json.loads(row).values())

    source = "@tool\ndef size(n: int) -> int:\n    return n"
    kernel.ok(source, cell_id="first")
    first = ask(n=1)
    assert first[1:] == ("first", "asking")
    kernel.ok("def size(n: int) -> int:\n    return -n", cell_id="second")
    second = ask(n=1)
    assert second[1:] == ("second", "asking")
    assert second[0] != first[0]
    assert ask(n="wrong")[:2] == second[:2], "a call with wrong arguments counts for the same version"
    kernel.ok("%%capture\n" + source, cell_id="third")
    assert ask(n=1)[:2] == (first[0], "third"), "the same source is the same version"
    kernel.ok("def size(n: int) -> int:\n    return n + 1")
    assert ask(n=1)[1] is None, "a front end that sends no cell ids"

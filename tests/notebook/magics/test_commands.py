"""`%agent COMMAND` in a real kernel."""

import re

import pytest
from support.kernels import TIMEOUT

pytestmark = pytest.mark.kernel

DATA = """
answer = 42
def area(width: float, height: float = 1.0) -> float:
    '''Area of a rectangle.'''
    return width * height
class Shop:
    def price(self, item: str) -> float:
        '''Price of an item.'''
        return 9.5
    @staticmethod
    def tax(item: str) -> float:
        return 1.5
shop = Shop()
"""


@pytest.fixture
def kernel(shared):
    shared.ok(DATA + "\nagent = Agent(tools=[])\nnbagent.live._entries.clear()")
    return shared


def calls(kernel, name, /, **arguments):
    """The tool's result for the model. The call is approved if it needs approval."""
    kernel.ok("agent.tool_executor.approver = lambda call, definition: True")
    kernel.ok(f"result = await agent.tool_executor.run(FunctionCall({name!r}, {arguments!r}))")
    return kernel.ok("print(result.content)").stdout.rstrip("\n")


def offered(kernel):
    return kernel.ok("agent.offered_tools()").result


def test_the_agent_shows_its_model_tools_and_limits(kernel):
    kernel.ok("agent = Agent(tools=[area], limits=nbagent.Limits(max_cost=0.5))")
    for code in ("%agent", "agent"):
        bundle = kernel.ok(code).of("execute_result")[-1]["data"]
        lines = [line.split(maxsplit=1) for line in bundle["text/plain"].splitlines()]
        assert lines[1][1].startswith("local:SmolLM2")
        assert lines[2:] == [["tools", "area"], ["messages", "none yet"], ["limits", "max_cost=0.5"]]
        assert all(f"<td>{text}</td>" in bundle["text/html"] for _, text in lines)
    assert kernel.ok("agent._provider").result == ""  # looking decides nothing


def test_all_models_of_a_provider_are_shown(kernel):
    kernel.ok("""from nbagent.providers.base import ListedModel
class Many(nbagent.ScriptedProvider):
    async def model_list(self):
        return [ListedModel(f"model-{number}") for number in range(99)]
agent.provider = Many(["Hi"])""")
    shown = kernel.ok("%agent models").of("display_data")[-1]["data"]
    assert all(f"model-{number}" in shown["text/plain"] for number in range(99))
    assert "<td>model-50</td>" in shown["text/html"]


def test_tools_are_added_and_dropped(kernel):
    assert kernel.ok("%agent tools add area shop.price").stdout == "area, shop_price: on. 2 of 2 tools are on.\n"
    table = kernel.ok("%agent tools").result
    assert "Area of a rectangle." in table
    assert "Price of an item." in table
    assert offered(kernel) == "['area', 'shop_price']"
    assert calls(kernel, "shop_price", item="tea") == "9.5"
    kernel.ok("def area(width: float) -> float:\n    return -width")
    assert calls(kernel, "area", width=2) == "-2.0"
    assert kernel.ok("%agent tools drop area").stdout == "area: off. 1 of 2 tools are on.\n"
    assert offered(kernel) == "['shop_price']"
    kernel.ok("shop = Shop()\nshop.price = lambda item: 8.5")
    kernel.ok("%agent tools add shop.price area")
    assert offered(kernel) == "['area', 'shop_price']"
    assert calls(kernel, "shop_price", item="tea") == "8.5"
    kernel.ok("%agent tools add Shop.tax")
    assert calls(kernel, "Shop_tax", item="tea") == "1.5"
    kernel.ok("shop = None")
    assert offered(kernel) == "['area', 'Shop_tax']"


def test_a_variable_with_the_same_name_does_not_hide_the_kernel_tools(kernel):
    kernel.ok("kernel = run_code = [[0, 1], [1, 0]]\n%agent tools add kernel")
    assert len(kernel.value("agent.offered_tools()")) == 5
    kernel.ok("del kernel, run_code")


def test_the_table_shows_state_origin_and_approval_of_each_tool(kernel):
    code = "@tool(approve=True)\ndef wipe(table: str = 'a<b') -> None:\n    'Delete <i>rows</i>.\\n\\nFor good.'"
    cell = kernel.ok(f"agent = Agent(tools=nbagent.live)\n{code}")
    kernel.ok("@tool(approve=lambda path: path > 'm')\ndef write(path: str) -> None: ...\nfrom textwrap import dedent")
    kernel.ok("%agent tools add dedent")
    shown = kernel.ok("%agent tools").of("execute_result")[-1]["data"]
    line = next(line for line in shown["text/plain"].splitlines() if line.startswith("wipe"))
    count = cell.of("execute_input")[-1]["execution_count"]
    assert re.split(r"\s{2,}", line) == [
        "wipe", "● on", "(table: str = 'a<b') -> None", "Delete <i>rows</i>.", "always", f"In[{count}]",
    ]  # fmt: skip
    assert re.search(r"write .*\(path: str\) -> None .*depends", shown["text/plain"])
    assert re.search(r"dedent .*textwrap\.py", shown["text/plain"])
    assert ">Delete &lt;i&gt;rows&lt;/i&gt;.<" in shown["text/html"]
    kernel.ok("%agent tools drop wipe write dedent")
    assert "○ off" in kernel.ok("%agent tools").result
    assert "No tools" in kernel.ok("agent = Agent()\n%agent tools").result


def test_a_tool_that_was_switched_off_comes_back_with_its_options(kernel):
    kernel.ok("agent = Agent(tools=nbagent.live)\n@tool(approve=True)\ndef wipe(n: int) -> int:\n    return n")
    kernel.ok("other = Agent(tools=nbagent.live)\n%agent tools drop wipe")
    assert kernel.value("agent.offered_tools(), other.offered_tools()") == ([], ["wipe"])
    kernel.ok("agent.provider = asked = ScriptedProvider(['a', 'b'])")
    kernel.ok("%%agent\nx")
    kernel.ok("%%agent -t wipe\nx")
    assert kernel.value("[[f['name'] for f in r[1] or []] for r in asked.requests]") == [[], ["wipe"]]
    kernel.ok("def wipe(n: int) -> int:\n    return -n")
    kernel.ok("%agent tools add wipe")
    assert kernel.value("agent.function_registry.get_function('wipe').approve") is True
    assert calls(kernel, "wipe", n=3) == "-3"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tools add", "%agent tools [add NAME"),
        ("tools add nothing", "nothing is not defined: give kernel, notebook or a function of this notebook"),
        ("tools add list_variable", "list_variable is not defined; did you mean list_variables?"),
        ("tools add answer", "answer: expected a function, got int"),
        ("tools add shop.rent", "Shop has no attribute rent"),
        ("tools drop area", "area is not a tool of this agent; there are none"),
        ("model nobody", "Unknown provider 'nobody'"),
        ("panel --dok", "%agent panel [--dock]; did you mean --dock?"),
        ("conversations 2", "%agent conversations [N], where N is from 1 to 1"),
        ("nest", "%agent nest on | off; it is off"),
        ("stop nobody", "there is no agent nobody; there are agent"),
        ("key nobody", "where PROVIDER is one of openai, claude"),
        ("load missing.json", "No such file"),
        ("who is there", "not a command; write a prompt below a %%agent line"),
        ("tool", "%agent tool: not a command; did you mean tools?"),
    ],
)
def test_usage_is_explained(kernel, line, said):
    cell = kernel.run(f"%agent {line}")
    assert cell.status == "error" or "UsageError" in cell.text
    assert said in cell.stdout + cell.stderr + cell.traceback


def test_after_a_new_conversation_the_others_can_be_continued(kernel):
    kernel.ok("agent.provider = ScriptedProvider(lambda m, f: str(len(m)))")
    kernel.ok("%%agent\nWhich\x07 species?")
    assert "stays in %agent conversations: Which␇ species? · 1 prompt." in kernel.ok("%agent new").stdout
    kernel.ok("%%agent\nanother")
    listed = "1 ● another · 1 prompt\n2   Which␇ species? · 1 prompt\n"
    assert kernel.ok("%agent conversations").stdout == listed
    assert "2 ● Which␇ species?" in kernel.ok("%agent conversations 2").stdout
    kernel.ok("%%agent\nand more")
    assert kernel.value("[m.text for m in agent.conversation_history]") == ["Which\x07 species?", "1", "and more", "3"]


def test_a_key_is_typed_and_stays_out_of_the_outputs_and_of_the_environment(kernel):
    kernel.ok("import os; _ = os.environ.pop('ANTHROPIC_API_KEY', None)")
    refused = kernel.run("%agent key claude", allow_stdin=False)
    assert "no input is possible here; set ANTHROPIC_API_KEY, or add it to the file .env" in refused.stderr
    cell = kernel.send("%agent key claude")
    question = kernel.client.get_stdin_msg(timeout=TIMEOUT)["content"]
    assert (question["prompt"], question["password"]) == ("ANTHROPIC_API_KEY: ", True)
    kernel.client.input("sk-typed-secret")
    kernel.ok(cell)
    assert cell.stdout.endswith("ANTHROPIC_API_KEY is known to this kernel: %agent model claude uses it.\n")
    assert "sk-typed-secret" not in str(cell.messages)
    assert kernel.value("'sk-typed-secret' in str(os.environ)") is False
    assert kernel.value("nbagent.create_provider('claude').secrets") == ["sk-typed-secret"]
    kernel.ok("from nbagent.providers.keys import keys; keys._typed.clear()")


@pytest.mark.parametrize(
    ("cell", "sent"),
    [
        ("1 / 0", ["The cell:\n1 / 0\n", "ZeroDivisionError: division by zero"]),
        ("def f():\n    return [][1]\nf()", ["in f\n    return [][1]", "IndexError"]),
        ("for x in y\n    pass", ["The cell:\nfor x in y\n", "expected ':'"]),
        ("try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('outer') from e", ["KeyError: 'a'", "outer"]),
    ],
)
def test_the_last_error_is_explained(kernel, cell, sent):
    kernel.ok("agent.provider = asked = ScriptedProvider([RuntimeError('no network'), 'Like so.'])")
    assert kernel.run(cell).status == "error"
    assert kernel.run("%agent fxi").status == "error"
    assert kernel.run("%agent fix").error == "RuntimeError"
    assert "Like so." in kernel.ok("%agent fix").text
    text = kernel.ok("print(asked.requests[-1][0][-1].text)").stdout
    for part in sent:
        assert part in text
    assert "nbagent/" not in text
    assert "run_code(self" not in text


def test_the_corrected_cell_is_shown_as_a_diff(kernel):
    answer = "The list is **too short**:\n```python\nnumbers = [1]\nnumbers[0]\n```"
    kernel.ok(f"agent.provider = ScriptedProvider([{answer!r}])")
    failed = kernel.run("numbers = [1]\nnumbers[1]")
    assert "%agent fix explains this error" in failed.text
    assert ":\n\n  numbers = [1]\n- numbers[1]\n+ numbers[0]\n[" in (text := kernel.ok("%agent fix").text)
    assert text.count("numbers[0]") == 1
    kernel.ok("%agent hints off")
    assert "%agent fix" not in kernel.run("1 / 0").text
    kernel.ok("%agent hints on")
    assert "%agent fix" in kernel.run("1 / 0").text
    assert "%agent fix" not in kernel.run("%agent fxi").text


def test_without_an_error_there_is_nothing_to_explain(kernel):
    kernel.ok("from nbagent.notebook.magics.cell_errors import last_error; import sys\nlast_error.__init__()")
    kernel.ok("sys.last_exc = sys.last_value = None")
    for _ in range(2):  # the refusal is an error, too
        assert "no cell has failed yet" in str(kernel.run("%agent fix").messages)


def test_background_runs_are_stopped(kernel):
    kernel.ok("slow, other = (Agent(Gated('begun', 'never')) for _ in range(2))")
    kernel.ok("tasks = [asyncio.create_task(slow.chat(q)) for q in 'ab'] + [asyncio.create_task(other.chat('c'))]")
    kernel.ok("while not (slow.conversation_history and other.conversation_history): await asyncio.sleep(0.01)")
    assert kernel.ok("%agent stop slow").stdout == "2 runs stopped.\n"
    kernel.ok("_ = await asyncio.wait(tasks[:2])")
    assert kernel.value("[task.done() and task.cancelled() for task in tasks]") == [True, True, False]
    assert kernel.ok("%agent stop").stdout == "1 run stopped.\n"
    kernel.ok("_ = await asyncio.wait(tasks)")
    assert kernel.ok("%agent stop").stdout == "Nothing to stop.\n"


def test_nesting_is_refused_where_it_loses_cells(kernel):
    if kernel.takes_clicks:
        refused = kernel.run("%agent nest on")
        assert "loses queued cells and clicks under nest-asyncio. Write `await` in the cell" in str(refused.messages)
        assert kernel.value("hasattr(asyncio, '_nest_patched')") is False

"""`%agent COMMAND` and the kernel tools in a real kernel."""

import re

import pytest
from support.kernels import TIMEOUT

pytestmark = pytest.mark.kernel

DATA = """
import pandas as pd
cities = pd.DataFrame({"city": ["Köln", "Bonn"], "people": [1_073_096, 331_885]})
openai_api_key = "sk-very-secret"
numbers = [1, 2, 3, 4]
answer = 42
def area(width: float, height: float = 1.0) -> float:
    '''Area of a rectangle.'''
    return width * height
class Shop:
    def price(self, item: str) -> float:
        '''Price of an item.'''
        return 9.5
shop = Shop()
"""


@pytest.fixture
def kernel(shared):
    shared.ok(DATA + "\nagent = Agent(tools=[])\nnbagent.live._entries.clear()")
    return shared


def calls(kernel, name, /, **arguments):
    """What the model reads after a call of the tool, which is approved if it needs approval."""
    kernel.ok(
        f"agent.tool_executor.approver = lambda call, definition: True\nresult = await agent.tool_executor.run("
        f"FunctionCall({name!r}, {arguments!r}))"
    )

    return kernel.ok("print(result.content)").stdout.rstrip("\n")


def offered(kernel):
    return kernel.ok("agent.offered_tools()").result


@pytest.mark.parametrize("code", ["%agent", "%agent status", "agent"])
def test_the_agent_shows_its_model_tools_and_limits(kernel, code):
    kernel.ok("agent = Agent(tools=[area], limits=nbagent.Limits(max_cost=0.5))")
    bundle = kernel.ok(code).of("execute_result")[-1]["data"]
    lines = [line.split(maxsplit=1) for line in bundle["text/plain"].splitlines()]
    assert lines[0] == ["agent", "agent"]
    assert lines[1][1].startswith("local:SmolLM2")
    assert lines[2:] == [["tools", "area"], ["messages", "none yet"], ["limits", "max_cost=0.5"]]
    assert all(f"<td>{text}</td>" in bundle["text/html"] for _, text in lines)
    assert kernel.ok("agent._provider").result == ""  # looking decides nothing


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


def test_a_variable_of_their_name_does_not_hide_the_kernel_tools(kernel):
    kernel.ok("kernel = run_code = [[0, 1], [1, 0]]\n%agent tools add kernel")
    assert len(kernel.value("agent.offered_tools()")) == 5
    kernel.ok("%agent tools drop kernel")
    kernel.ok("%agent tools add run_code")
    assert kernel.value("agent.offered_tools()") == ["run_code"]
    kernel.ok("del kernel, run_code")


def test_the_table_shows_state_origin_and_approval_of_each_tool(kernel):
    code = "@tool(approve=True)\ndef wipe(table: str = 'a<b') -> None:\n    'Delete <i>rows</i>.\\n\\nFor good.'"
    cell = kernel.ok(f"agent = Agent(tools=nbagent.live)\n{code}")
    kernel.ok("@tool(approve=lambda path: path > 'm')\ndef write(path: str) -> None: ...\nfrom textwrap import dedent")

    kernel.ok("agent.register_tool('given', 'By schema.', {'properties': {'x': {}, 'y': {}}}, lambda x, y: x)")
    kernel.ok("%agent tools add dedent")
    shown = kernel.ok("%agent tools").of("execute_result")[-1]["data"]
    line = next(line for line in shown["text/plain"].splitlines() if line.startswith("wipe"))
    count = cell.of("execute_input")[-1]["execution_count"]
    assert re.split(r"\s{2,}", line) == [
        "wipe", "● on", "(table: str = 'a<b') -> None", "Delete <i>rows</i>.", "always", f"In[{count}]",
    ]  # fmt: skip
    assert re.search(r"write .*\(path: str\) -> None .*depends", shown["text/plain"])
    assert re.search(r"given .*\(x, y\) .*no ", shown["text/plain"])
    assert re.search(r"dedent .*textwrap\.py", shown["text/plain"])
    assert ">Delete &lt;i&gt;rows&lt;/i&gt;.<" in shown["text/html"]
    assert "wipe(table: str = &#x27;a&lt;b&#x27;) -&gt; None" in shown["text/html"]
    kernel.ok("%agent tools drop wipe")
    kernel.ok("tools = %agent tools")
    assert kernel.ok("tools.frame['on'].tolist()").result == "[False, True, True, True]"
    assert "○ off" in kernel.ok("tools").result
    kernel.ok("%agent tools drop write given dedent")
    assert "No tools" in kernel.ok("agent = Agent()\n%agent tools").result


def test_a_tool_that_was_switched_off_comes_back_with_its_options(kernel):
    kernel.ok("agent = Agent(tools=nbagent.live)\n@tool(approve=True)\ndef wipe(n: int) -> int:\n    return n")
    kernel.ok("other = Agent(tools=nbagent.live)\n%agent tools drop wipe")
    assert kernel.ok("agent.offered_tools(), other.offered_tools()").result == "([], ['wipe'])"
    kernel.ok("agent.provider = asked = ScriptedProvider(['a', 'b'])")
    kernel.ok("%%agent\nx")
    kernel.ok("%%agent -t wipe\nx")
    assert kernel.ok("[[f['name'] for f in r[1] or []] for r in asked.requests]").result == "[[], ['wipe']]"
    kernel.ok("def wipe(n: int) -> int:\n    return -n")
    kernel.ok("%agent tools add wipe")
    assert kernel.ok("agent.function_registry.get_function('wipe').approve").result == "True"
    assert calls(kernel, "wipe", n=3) == "-3"
    kernel.ok("plain = nbagent.FunctionRegistry(); plain.register('wipe', '', lambda n: n, approve=True)")
    kernel.ok("agent = Agent(function_registry=plain)\n%agent tools add wipe")
    assert kernel.ok("plain.get_function('wipe').approve").result == "True"
    assert calls(kernel, "wipe", n=3) == "-3"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tools add", "%agent tools [add NAME"),
        ("tools add nothing", "nothing is not defined: name a function of this notebook, or kernel"),
        ("tools add list_variable", "list_variable is not defined; did you mean list_variables?"),
        ("tools add answer", "answer: expected a function, got int"),
        ("tools add shop.rent", "Shop has no attribute rent"),
        ("tools drop area", "area is not a tool of this agent; there are none"),
        ("model", "%agent model VENDOR[:MODEL]"),
        ("model nobody", "Unknown provider 'nobody'"),
        ("panel --dok", "%agent panel [--dock]; did you mean --dock?"),
        ("new analyst", "new takes no arguments: it works on the agent in the variable agent"),
        ("tools drop kernel nothing", "nothing is not a tool of this agent"),
        ("conversations 2", "%agent conversations [N], where N is from 1 to 1"),
        ("nest", "%agent nest on | off; it is off"),
        ("stop nobody", "there is no agent nobody; there are agent"),
        ("key nobody", "where VENDOR is one of openai, claude"),
        ("save", "%agent save FILE"),
        ("load missing.json", "No such file"),
        ("waltz", "not a command; there are status, tools"),
        ("who is there", "not a command; write a question below a line %%agent"),
        ("tool", "%agent tool: not a command; did you mean tools?"),
    ],
)
def test_usage_is_explained(kernel, line, said):
    cell = kernel.run(f"%agent {line}")
    assert cell.status == "error" or "UsageError" in cell.text
    streams = "".join(content["text"] for content in cell.of("stream"))
    assert said in streams + cell.traceback


def test_a_new_conversation_leaves_the_others_to_go_on_with(kernel):
    kernel.ok("agent.provider = ScriptedProvider(lambda m, f: str(len(m)))")
    kernel.ok("%%agent\nWhich\x07 species?")
    assert "stays in %agent conversations: Which␇ species? · 1 question." in kernel.ok("%agent new").stdout
    kernel.ok("%%agent\nanother")
    kernel.ok("%%agent --new\nthird")
    listed = "1 ● third · 1 question\n2   another · 1 question\n3   Which␇ species? · 1 question\n"
    assert kernel.ok("%agent conversations").stdout == listed
    assert "3 ● Which␇ species?" in kernel.ok("%agent conversations 3").stdout
    kernel.ok("%%agent\nand more")
    assert kernel.ok("[m.text for m in agent.conversation_history]").result == (
        "['Which\\x07 species?', '1', 'and more', '3']"
    )
    runs = "agent.trace.runs.tail(4).groupby('branch', sort=False)['prompt'].apply(list).tolist()"
    assert kernel.ok(runs).result == "[['Which\\x07 species?', 'and more'], ['another'], ['third']]"


def test_a_key_is_typed_and_stays_out_of_the_outputs_and_of_the_environment(kernel):
    kernel.ok("import os; _ = os.environ.pop('ANTHROPIC_API_KEY', None)")
    cell = kernel.send("%agent key claude")
    question = kernel.client.get_stdin_msg(timeout=TIMEOUT)["content"]
    assert (question["prompt"], question["password"]) == ("ANTHROPIC_API_KEY: ", True)
    kernel.client.input("sk-typed-secret")
    kernel.ok(cell)
    assert cell.stdout.endswith("ANTHROPIC_API_KEY is known to this kernel: %agent model claude uses it.\n")
    assert "sk-typed-secret" not in str(cell.messages)
    assert kernel.ok("'sk-typed-secret' in str(os.environ)").result == "False"
    assert kernel.ok("nbagent.create_provider('claude').secrets").result == "['sk-typed-secret']"
    kernel.ok("from nbagent.providers.keys import keys; keys.forget('ANTHROPIC_API_KEY')")


COLAB = """
import sys, types
from nbagent.providers.catalog import CATALOG
from nbagent.providers.keys import keys
for row in CATALOG.values():
    for name in row.key_vars: os.environ.pop(name, None)
secrets = {"DASHSCOPE_API_KEY": "sk-from-colab"}
for name in ("google", "google.colab", "google.colab.userdata"): sys.modules[name] = types.ModuleType(name)
sys.modules["google.colab.userdata"].get = secrets.__getitem__
"""


def test_if_nobody_can_type_a_key_the_error_names_the_alternatives(kernel):
    cell = kernel.run("%agent key claude", allow_stdin=False)
    assert cell.error == "UsageError"
    assert "nobody can type here; set ANTHROPIC_API_KEY, or write it into the file .env" in cell.stderr


def test_loading_the_extension_makes_colabs_secrets_known_to_other_threads(kernel):
    kernel.ok(COLAB)
    ask = "await asyncio.to_thread(lambda: nbagent.create_provider('qwen').secrets)"
    assert kernel.ok(ask).result == "[]"
    kernel.ok("%reload_ext nbagent")
    assert kernel.ok(ask).result == "['sk-from-colab']"
    kernel.ok("for name in list(sys.modules):\n    if name.split('.')[0] == 'google': del sys.modules[name]")
    kernel.ok("keys._colab_answers.clear()")


def test_a_broken_env_file_does_not_keep_the_extension_from_loading(kernel, tmp_path):
    (tmp_path / ".env").write_bytes(b"OPENAI_API_KEY=\xff")
    kernel.ok(f"before = os.getcwd(); os.chdir({str(tmp_path)!r})")
    kernel.ok("%reload_ext nbagent")
    assert "is not UTF-8 text: correct" in kernel.run("%agent model qwen").traceback
    kernel.ok("os.chdir(before)")


@pytest.mark.parametrize(
    ("cell", "sent"),
    [
        ("1 / 0", ["The cell:\n1 / 0\n", "ZeroDivisionError: division by zero"]),
        ("def f():\n    return [][1]\nf()", ["in f\n    return [][1]", "IndexError"]),
        ("x = (1 +", ["The cell:\nx = (1 +\n", "SyntaxError"]),
        ("for x in y\n    pass", ["expected ':'"]),
        ("try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('outer') from e", ["KeyError: 'a'", "outer"]),
        ("await asyncio.wait_for(asyncio.sleep(9), 0.01)", ["TimeoutError"]),
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
    kernel.ok(f"agent.provider = ScriptedProvider([{answer!r}, 'No idea.'])")
    failed = kernel.run("numbers = [1]\nnumbers[1]")
    assert "%agent fix explains this error" in failed.text
    shown = kernel.ok("%agent fix")
    assert shown.text.endswith("  numbers = [1]\n- numbers[1]\n+ numbers[0]")
    assert "<del>numbers[1]" in shown.html
    assert "<del>" not in kernel.ok("%agent fix").html
    kernel.ok("%agent hints off")
    assert "%agent fix" not in kernel.run("1 / 0").text
    assert "are off" in str(kernel.run("%agent hints").messages)
    kernel.ok("%agent hints on")
    assert "%agent fix" in kernel.run("1 / 0").text
    assert "%agent fix" not in kernel.run("%agent fxi").text


@pytest.mark.parametrize("has_tools", [True, False])
def test_a_model_without_function_calling_explains_without_tools(kernel, has_tools):
    kernel.ok("class Model(ScriptedProvider):\n  def supports_function_calling(self): return has_tools")
    kernel.ok(f"has_tools = {has_tools}; agent.provider = asked = Model(['Like so.'])")
    kernel.ok("%agent tools add kernel")
    assert kernel.run("1 / 0").status == "error"
    assert "Like so." in kernel.ok("%agent fix").text
    assert kernel.value("'list_variables' in str(asked.requests)") is has_tools


def test_without_an_error_there_is_nothing_to_explain(kernel):
    kernel.ok("from nbagent.notebook.magics.cell_errors import last_error; import sys\nlast_error.__init__()")
    kernel.ok("sys.last_exc = sys.last_value = None")
    for _ in range(2):  # the refusal is an error, too
        refused = kernel.run("%agent fix")
        assert "no cell has failed yet" in str(refused.messages)
    kernel.ok("sys.last_value = KeyError('from before the extension was loaded')")
    kernel.ok("agent.provider = asked = ScriptedProvider(['.'])\n%agent fix")
    assert "from before" in kernel.ok("print(asked.requests[-1][0][-1].text)").stdout


def test_background_runs_are_stopped(kernel):
    assert kernel.ok("%agent stop").stdout == "Nothing to stop.\n"
    kernel.ok("import threading\nslow = Agent(Gated('begun', 'never')); other = Agent(Gated('begun', 'never'))")
    kernel.ok("tasks = [asyncio.create_task(slow.chat(q)) for q in 'ab'] + [asyncio.create_task(other.chat('c'))]")
    kernel.ok("while not (slow.conversation_history and other.conversation_history): await asyncio.sleep(0.01)")
    assert kernel.ok("%agent stop slow").stdout == "2 runs stopped.\n"
    kernel.ok("_ = await asyncio.wait(tasks[:2])")
    assert kernel.ok("[task.done() and task.cancelled() for task in tasks]").result == "[True, True, False]"
    assert kernel.ok("%agent stop").stdout == "1 run stopped.\n"
    kernel.ok("_ = await asyncio.wait(tasks)")
    assert kernel.ok("slow.trace.runs['status'].tolist()").result == "['interrupted']"
    assert kernel.ok("%agent stop").stdout == "Nothing to stop.\n"


def test_runs_of_panels_are_stopped_and_the_next_question_works(kernel):
    kernel.ok("inner = Agent(Gated('begun', 'never'))\npanel = nbagent.ChatPanel(inner); panel.ask('a')")
    kernel.ok("while len(inner.conversation_history) < 2: await asyncio.sleep(0.01)")
    assert kernel.ok("%agent stop").stdout == "1 run stopped.\n"
    kernel.ok("while inner.trace.runs['status'].tolist() != ['interrupted']: await asyncio.sleep(0.01)")
    kernel.ok("inner.provider = ScriptedProvider(['fine'])")
    assert kernel.ok("inner.chat_sync('b').content").result == "'fine'"
    kernel.ok("panel.close()")


def test_nesting_is_refused_where_it_loses_cells(kernel):
    if kernel.ok("import ipykernel; ipykernel.version_info[0] >= 7").result == "True":
        refused = kernel.run("%agent nest on")
        assert "loses queued cells and clicks under nest-asyncio" in str(refused.messages)
        assert "Write `await` in the cell" in str(refused.messages)
        assert kernel.ok("hasattr(asyncio, '_nest_patched')").result == "False"
        kernel.ok("%agent nest off")


# -- kernel tools -----------------------------------------------------------------------------------------------------

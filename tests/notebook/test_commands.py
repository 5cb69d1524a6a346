"""`%agent COMMAND` and the kernel tools in a real kernel."""

import re

import pytest
from kernels import Kernel

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


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with Kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        yield kernel


@pytest.fixture
def kernel(shared):
    ok(shared.run(DATA + "\nagent = Agent(tools=[])\nnbagent.live._entries.clear()"))
    return shared


def ok(cell):
    assert cell.status == "ok", cell.traceback
    return cell


def calls(kernel, name, /, **arguments):
    """What the model would read if it called a tool; approved, if it asks."""
    ok(
        kernel.run(
            f"agent.tool_executor.approver = lambda call, definition: True\nresult = await agent.tool_executor.run("
            f"FunctionCall({name!r}, {arguments!r}))"
        )
    )
    return ok(kernel.run("print(result.content)")).stdout.rstrip("\n")


def offered(kernel):
    return ok(kernel.run("agent.offered_tools()")).result


def test_tools_are_added_and_dropped(kernel):
    table = ok(kernel.run("%agent tools add area shop.price")).result
    assert "Area of a rectangle." in table
    assert "Price of an item." in table
    assert offered(kernel) == "['area', 'shop_price']"
    assert calls(kernel, "shop_price", item="tea") == "9.5"
    ok(kernel.run("def area(width: float) -> float:\n    return -width"))
    assert calls(kernel, "area", width=2) == "-2.0"
    ok(kernel.run("%agent tools drop area"))
    assert offered(kernel) == "['shop_price']"
    ok(kernel.run("shop = Shop()\nshop.price = lambda item: 8.5"))
    ok(kernel.run("%agent tools add shop.price area"))
    assert offered(kernel) == "['area', 'shop_price']"
    assert calls(kernel, "shop_price", item="tea") == "8.5"


def test_the_table_says_what_is_on_where_it_is_from_and_whether_it_asks(kernel):
    code = "@tool(approve=True)\ndef wipe(table: str = 'a<b') -> None:\n    'Delete <i>rows</i>.\\n\\nFor good.'"
    cell = ok(kernel.run(f"agent = Agent(tools=nbagent.live)\n{code}"))
    ok(
        kernel.run(
            "@tool(approve=lambda path: path > 'm')\ndef write(path: str) -> None: ...\nfrom textwrap import dedent"
        )
    )
    ok(kernel.run("agent.register_tool('given', 'By schema.', {'properties': {'x': {}, 'y': {}}}, lambda x, y: x)"))
    shown = ok(kernel.run("%agent tools add dedent")).of("execute_result")[-1]["data"]
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
    ok(kernel.run("dropped = %agent tools drop wipe"))
    assert ok(kernel.run("dropped.frame['on'].tolist()")).result == "[False, True, True, True]"
    assert "○ off" in ok(kernel.run("dropped")).result
    ok(kernel.run("%agent tools drop write given dedent"))
    assert "No tools" in ok(kernel.run("agent = Agent()\n%agent tools")).result


def test_what_was_switched_off_comes_back_as_it_was(kernel):
    ok(kernel.run("agent = Agent(tools=nbagent.live)\n@tool(approve=True)\ndef wipe(n: int) -> int:\n    return n"))
    ok(kernel.run("other = Agent(tools=nbagent.live)\n%agent tools drop wipe"))
    assert ok(kernel.run("agent.offered_tools(), other.offered_tools()")).result == "([], ['wipe'])"
    ok(kernel.run("agent.provider = asked = ScriptedProvider(['a', 'b'])"))
    ok(kernel.run("%%agent\nx"))
    ok(kernel.run("%%agent -t wipe\nx"))
    assert ok(kernel.run("[[f['name'] for f in r[1] or []] for r in asked.requests]")).result == "[[], ['wipe']]"
    ok(kernel.run("def wipe(n: int) -> int:\n    return -n"))
    ok(kernel.run("%agent tools add wipe"))
    assert ok(kernel.run("agent.function_registry.get_function('wipe').approve")).result == "True"
    assert calls(kernel, "wipe", n=3) == "-3"
    ok(kernel.run("plain = nbagent.FunctionRegistry(); plain.register('wipe', '', lambda n: n, approve=True)"))
    ok(kernel.run("agent = Agent(function_registry=plain)\n%agent tools add wipe"))
    assert ok(kernel.run("plain.get_function('wipe').approve")).result == "True"
    assert calls(kernel, "wipe", n=3) == "-3"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tools add", "%agent tools [add NAME"),
        ("tools add nothing", "nothing is not defined"),
        ("tools add answer", "answer is a int, not a function"),
        ("tools add shop.rent", "Shop has no attribute rent"),
        ("tools drop area", "area is no tool of this agent; its tools are none"),
        ("model", "%agent model VENDOR[:MODEL]"),
        ("model nobody", "Unknown provider 'nobody'"),
        ("tools drop kernel nothing", "nothing is no tool of this agent"),
        ("nest", "%agent nest on | off; it is off"),
        ("stop nobody", "nobody is no agent; there are agent"),
        ("key nobody", "where VENDOR is one of openai, claude"),
        ("save", "%agent save FILE"),
        ("load missing.json", "No such file"),
        ("dance", "not a command; there are status, tools"),
    ],
)
def test_usage_is_explained(kernel, line, said):
    cell = kernel.run(f"%agent {line}")
    assert cell.status == "error" or "UsageError" in cell.text
    streams = "".join(content["text"] for content in cell.of("stream"))
    assert said in streams + cell.traceback


def test_conversations_are_saved_and_loaded(kernel, tmp_path):
    ok(kernel.run("agent.provider = ScriptedProvider(['one', 'two'])\nresult = agent.chat_sync('first')"))
    ok(kernel.run(f"%agent save '{tmp_path}/our talk.json'"))
    ok(kernel.run("%agent new"))
    assert ok(kernel.run("len(agent.conversation_history)")).result == "0"
    ok(kernel.run(f"%agent load {tmp_path}/our talk.json"))
    assert ok(kernel.run("[m.text for m in agent.conversation_history]")).result == "['first', 'one']"


def test_a_key_is_typed_and_stays_out_of_the_outputs_and_of_the_environment(kernel):
    ok(kernel.run("import os; _ = os.environ.pop('ANTHROPIC_API_KEY', None)"))
    cell = kernel.send("%agent key claude")
    question = kernel.client.get_stdin_msg(timeout=30)["content"]
    assert (question["prompt"], question["password"]) == ("ANTHROPIC_API_KEY: ", True)
    kernel.client.input("sk-typed-secret")
    ok(kernel.wait(cell))
    assert "sk-typed-secret" not in str(cell.messages)
    assert ok(kernel.run("'sk-typed-secret' in str(os.environ)")).result == "False"
    assert ok(kernel.run("nbagent.create_provider('claude').secrets")).result == "['sk-typed-secret']"
    ok(kernel.run("from nbagent.providers.keys import keys; keys.forget('ANTHROPIC_API_KEY')"))


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


def test_colabs_secrets_are_known_to_other_threads_once_the_extension_is_loaded(kernel):
    ok(kernel.run(COLAB))
    ask = "await asyncio.to_thread(lambda: nbagent.create_provider('qwen').secrets)"
    assert ok(kernel.run(ask)).result == "[]"
    ok(kernel.run("%reload_ext nbagent"))
    assert ok(kernel.run(ask)).result == "['sk-from-colab']"
    ok(kernel.run("for name in list(sys.modules):\n    if name.split('.')[0] == 'google': del sys.modules[name]"))
    ok(kernel.run("keys._answers.clear()"))


def test_a_broken_env_file_does_not_keep_the_extension_from_loading(kernel, tmp_path):
    (tmp_path / ".env").write_bytes(b"OPENAI_API_KEY=\xff")
    ok(kernel.run(f"before = os.getcwd(); os.chdir({str(tmp_path)!r})"))
    ok(kernel.run("%reload_ext nbagent"))
    assert "is not UTF-8 text: correct it" in kernel.run("%agent model qwen").traceback
    ok(kernel.run("os.chdir(before)"))


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
    ok(kernel.run("agent.provider = asked = ScriptedProvider([RuntimeError('no network'), 'Like so.'])"))
    assert kernel.run(cell).status == "error"
    assert kernel.run("%agent fxi").status == "error"
    assert kernel.run("%agent fix").error == "RuntimeError"
    assert "Like so." in ok(kernel.run("%agent fix")).text
    text = ok(kernel.run("print(asked.requests[-1][0][-1].text)")).stdout
    for part in sent:
        assert part in text
    assert "nbagent/" not in text
    assert "run_code(self" not in text


def test_without_an_error_there_is_nothing_to_explain(kernel):
    ok(kernel.run("from nbagent.notebook.last_error import last_error; import sys\nlast_error.__init__()"))
    ok(kernel.run("sys.last_exc = sys.last_value = None"))
    for _ in range(2):  # the refusal is an error, too
        refused = kernel.run("%agent fix")
        assert "no cell has failed yet" in str(refused.messages)
    ok(kernel.run("sys.last_value = KeyError('from before the extension was loaded')"))
    ok(kernel.run("agent.provider = asked = ScriptedProvider(['.'])\n%agent fix"))
    assert "from before" in ok(kernel.run("print(asked.requests[-1][0][-1].text)")).stdout


def test_background_runs_are_stopped(kernel):
    assert ok(kernel.run("%agent stop")).stdout == "Nothing to stop.\n"
    ok(kernel.run("import threading\nslow = Agent(Gated('begun', 'never')); other = Agent(Gated('begun', 'never'))"))
    ok(kernel.run("tasks = [asyncio.create_task(slow.chat(q)) for q in 'ab'] + [asyncio.create_task(other.chat('c'))]"))
    ok(kernel.run("while not (slow.conversation_history and other.conversation_history): await asyncio.sleep(0.01)"))
    assert ok(kernel.run("%agent stop slow")).stdout == "2 runs stopped.\n"
    ok(kernel.run("_ = await asyncio.wait(tasks[:2])"))
    assert ok(kernel.run("[task.done() and task.cancelled() for task in tasks]")).result == "[True, True, False]"
    assert ok(kernel.run("%agent stop")).stdout == "1 run stopped.\n"
    ok(kernel.run("_ = await asyncio.wait(tasks)"))
    assert ok(kernel.run("slow.trace.runs['status'].tolist()")).result == "['interrupted']"
    assert ok(kernel.run("%agent stop")).stdout == "Nothing to stop.\n"


def test_runs_of_panels_are_stopped_and_the_next_question_works(kernel):
    ok(kernel.run("inner = Agent(Gated('begun', 'never'))\npanel = nbagent.ChatPanel(inner); panel.ask('a')"))
    ok(kernel.run("while len(inner.conversation_history) < 2: await asyncio.sleep(0.01)"))
    assert ok(kernel.run("%agent stop")).stdout == "1 run stopped.\n"
    ok(kernel.run("while inner.trace.runs['status'].tolist() != ['interrupted']: await asyncio.sleep(0.01)"))
    ok(kernel.run("inner.provider = ScriptedProvider(['fine'])"))
    assert ok(kernel.run("inner.chat_sync('b').content")).result == "'fine'"
    ok(kernel.run("panel.close()"))


def test_nesting_is_refused_where_it_loses_cells(kernel):
    if ok(kernel.run("import ipykernel; ipykernel.version_info[0] >= 7")).result == "True":
        refused = kernel.run("%agent nest on")
        assert "loses queued cells and clicks under nest-asyncio" in str(refused.messages)
        assert "Write `await` in the cell" in str(refused.messages)
        assert ok(kernel.run("hasattr(asyncio, '_nest_patched')")).result == "False"
        ok(kernel.run("%agent nest off"))


def test_models_and_help(kernel):
    ok(kernel.run("agent.provider = ScriptedProvider([])"))
    assert ok(kernel.run("%agent models")).result == "['scripted']"
    assert "%agent fix" in ok(kernel.run("%agent help")).stdout


# -- kernel tools -----------------------------------------------------------------------------------------------------


@pytest.fixture
def looking(kernel):
    ok(kernel.run("%agent tools add kernel"))
    return kernel


def test_variables_are_listed_without_secrets(looking):
    listed = calls(looking, "list_variables")
    assert "cities: DataFrame of shape (2, 2)" in listed
    assert "numbers: list of length 4" in listed
    assert "answer: int 42" in listed
    assert "area: function (width: float, height: float = 1.0) -> float" in listed
    assert "openai_api_key: str (hidden)" in listed
    assert "sk-very-secret" not in listed
    assert "get_ipython" not in listed
    assert calls(looking, "list_variables", pattern="cit*") == "cities: DataFrame of shape (2, 2)"


def test_one_variable_is_described(looking):
    assert "Köln" in calls(looking, "describe_variable", name="cities")
    assert "return width * height" in calls(looking, "describe_variable", name="area")
    assert calls(looking, "describe_variable", name="numbers") == "[1, 2, 3, 4]"
    assert "module pandas" in calls(looking, "describe_variable", name="pd")
    assert "sounds like a secret" in calls(looking, "describe_variable", name="openai_api_key")
    assert "did you mean cities?" in calls(looking, "describe_variable", name="Cities")


def test_a_frame_is_peeked_at(looking):
    text = calls(looking, "peek_dataframe", name="cities", rows=1, columns=["people"])
    assert text.startswith("2 rows x 2 columns\ndtypes: people: int64\n")
    assert "331885" not in text
    assert "no column area; it has city, people" in calls(looking, "peek_dataframe", name="cities", columns=["area"])
    assert "is no DataFrame" in calls(looking, "peek_dataframe", name="numbers")


def test_code_is_run_in_the_notebook(looking):
    assert calls(looking, "run_code", code="print('hello')\nfound = answer + 1\nfound") == "hello\n43"
    assert ok(looking.run("found")).result == "43"
    assert calls(looking, "run_code", code="found = 1") == "Done, without output."
    failed = calls(looking, "run_code", code="def f():\n    return 1 / 0\nf()")
    assert "ZeroDivisionError" in failed
    assert "return 1 / 0" in failed
    assert "SyntaxError" in calls(looking, "run_code", code="if")


def test_code_is_not_run_without_a_yes(looking):
    ok(
        looking.run(
            "agent.tool_executor.approver = None\nagent.provider = ScriptedProvider([FunctionCall('run_code', "
            "{'code': 'ran = True'}, 'c'), 'no'])"
        )
    )
    ok(looking.run("%%agent\nrun it", allow_stdin=False))
    assert looking.run("ran").error == "NameError"


def test_code_can_be_interrupted(looking):
    ok(
        looking.run(
            "agent.tool_executor.approver = lambda call, definition: True\nagent.provider = ScriptedProvider("
            "[FunctionCall('run_code', {'code': 'import time\\nprint(1)\\ntime.sleep(600)'}, 'c'), 'no'])"
        )
    )
    cell = looking.send("%%agent\nrun it")
    looking.until(cell, lambda: "1" in cell.stdout)
    looking.interrupt()
    assert looking.wait(cell).error == "KeyboardInterrupt"

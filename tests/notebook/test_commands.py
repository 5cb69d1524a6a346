"""`%agent COMMAND` and the kernel tools in a real kernel."""

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


def test_tools_are_added_and_dropped(kernel):
    table = ok(kernel.run("%agent tools add area shop.price")).result
    assert "Area of a rectangle." in table
    assert "Price of an item." in table
    assert ok(kernel.run("agent.function_registry.names()")).result == "['area', 'shop_price']"
    assert calls(kernel, "shop_price", item="tea") == "9.5"
    ok(kernel.run("def area(width: float) -> float:\n    return -width"))
    assert calls(kernel, "area", width=2) == "-2.0"
    ok(kernel.run("%agent tools drop area"))
    assert (
        ok(kernel.run("%agent tools").__class__ and kernel.run("agent.function_registry.names()")).result
        == "['shop_price']"
    )


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
    ok(kernel.run(f"%agent save {tmp_path}/talk.json"))
    ok(kernel.run("%agent new"))
    assert ok(kernel.run("len(agent.conversation_history)")).result == "0"
    ok(kernel.run(f"%agent load {tmp_path}/talk.json"))
    assert ok(kernel.run("[m.text for m in agent.conversation_history]")).result == "['first', 'one']"


def test_a_key_is_typed_and_stays_out_of_the_outputs(kernel):
    ok(kernel.run("import os; _ = os.environ.pop('ANTHROPIC_API_KEY', None)"))
    cell = kernel.send("%agent key claude")
    question = kernel.client.get_stdin_msg(timeout=30)["content"]
    assert (question["prompt"], question["password"]) == ("ANTHROPIC_API_KEY: ", True)
    kernel.client.input("sk-typed-secret")
    ok(kernel.wait(cell))
    assert "sk-typed-secret" not in str(cell.messages)
    assert ok(kernel.run("os.environ.pop('ANTHROPIC_API_KEY') == 'sk-typed-secret'")).result == "True"


def test_the_last_error_is_explained(kernel):
    ok(kernel.run("agent.provider = asked = ScriptedProvider(['You divided by zero.'])"))
    assert kernel.run("1 / 0").status == "error"
    cell = ok(kernel.run("%agent fix"))
    assert "You divided by zero." in cell.text
    assert "ZeroDivisionError" in ok(kernel.run("asked.requests[0][0][-1].text")).result


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
    assert text.startswith("DataFrame: 2 rows x 2 columns\ndtypes: people: int64\n")
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

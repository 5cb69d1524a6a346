"""The kernel tools in a real kernel: running code, and reading the outputs of cells."""

import base64

import pytest

pytestmark = pytest.mark.kernel

HELPERS = """
from nbagent.notebook.kernel_tools.kernel_tools import kernel_tools
async def call(name, /, **arguments):
    outcome = await agent.tool_executor.run(FunctionCall(name, arguments))
    return outcome.content

def yes(call, definition):
    return True
"""


@pytest.fixture
def kernel(shared):
    shared.ok("agent = Agent(tools=kernel_tools(seconds=30), approve=yes)")
    return shared


def call(kernel, name, /, **arguments):
    """Call a tool. Returns the cell that called it and the content for the model."""
    cell = kernel.ok(f"content = await call({name!r}, **{arguments!r})")
    return cell, kernel.ok("print(content)").stdout.rstrip("\n")


# -- run_code ---------------------------------------------------------------------------------------------------------


def test_the_output_and_value_of_code_are_shown_and_returned(kernel):
    code = "import sys\nprint('said')\nprint('warned', file=sys.stderr)\nlimit = 41\nlimit + 1"
    cell, content = call(kernel, "run_code", code=code)
    assert content == "said\nwarned\n42"
    assert (cell.stdout, cell.stderr, cell.text) == ("said\n", "warned\n", "42")
    assert kernel.value("limit") == 41, "the code has the notebook's variables"
    cell, content = call(kernel, "run_code", code="for n in range(30): print('x' * 1000)\nlist(range(10**6))")
    assert cell.stdout.count("x" * 1000) == 30
    assert len(content) < 30_000


def test_a_table_or_a_plot_is_shown_in_the_cell(kernel):
    cell, content = call(kernel, "run_code", code="import pandas as pd\npd.DataFrame({'a': [1, 2]})")
    assert "text/html" in cell.displays[0]
    assert content.startswith("DataFrame: 2 rows x 1 columns")
    plotting = "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\naxes.plot([1, 2])\nplt.close()\nfigure"
    cell, content = call(kernel, "run_code", code=plotting)
    assert "image/png" in cell.displays[0]
    assert content == "<Figure, shown>"


def test_code_that_does_not_end_is_stopped_in_time(kernel):
    kernel.ok("agent = Agent(tools=kernel_tools(seconds=0.3), approve=yes)")
    stubborn = "print('on it')\nwhile True:\n    try:\n        time.sleep(60)\n    except Exception:\n        pass"
    content = call(kernel, "run_code", code=stubborn)[1]
    assert "the code did not end within 0.3 s and was stopped.\nPrinted before:\non it" in content
    assert call(kernel, "run_code", code="1 + 1")[1] == "2"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("print('so far')\n1 / 0", "ZeroDivisionError: division by zero\nPrinted before:\nso far\nTraceback"),
        ("def f():\n    return missing\nf()", "line 2, in f: return missing"),
        ("if", "SyntaxError"),
        ("raise SystemExit(2)", "SystemExit: 2"),
    ],
)
def test_code_that_raises_is_an_error(kernel, code, says):
    kernel.ok(f"agent.provider = ScriptedProvider([FunctionCall('run_code', {{'code': {code!r}}}, 'c'), 'no'])")
    cell = kernel.ok("%%agent\nrun it")
    assert "✗ error" in cell.html
    is_error, result = kernel.value("agent.trace.tool_calls[['is_error', 'result_text']].astype(str).iloc[-1].tolist()")
    assert is_error == "True"
    assert result.startswith("Error: ")
    assert says in result


def test_code_sees_only_an_explicit_namespace(kernel):
    kernel.ok("mine = {'a': 1}\nagent = Agent(tools=kernel_tools(mine), approve=yes)")
    assert call(kernel, "run_code", code="b = a + 1\nb")[1] == "2"
    assert kernel.ok("mine['b'], 'b' in globals()").result == "(2, False)"
    assert "NameError" in call(kernel, "run_code", code="agent")[1]


# -- read_cell_outputs ------------------------------------------------------------------------------------------------


def number_of(cell):
    return cell.reply["content"]["execution_count"]


def test_the_outputs_of_a_cell_can_be_read(kernel):
    source = "print('one')\nhandle = display({'text/plain': 'old'}, raw=True, display_id=True)\n[1, 2]"
    cell = kernel.ok(source)
    kernel.ok("handle.update({'text/plain': 'shown'}, raw=True)")
    knows = kernel.value("hasattr(get_ipython().history_manager, 'outputs')")
    printed = "Printed:\none\n" if knows else ""  # from IPython 9 on
    content = call(kernel, "read_cell_outputs", number=number_of(cell))[1]
    assert content == f"In [{number_of(cell)}]:\n{source}\n{printed}Displayed:\nshown\nReturned:\n[1, 2]"
    failed = call(kernel, "read_cell_outputs", number=number_of(kernel.run("x = 1\nmissing / 2")))[1]
    assert "Raised:\nError: NameError: name 'missing' is not defined" in failed
    assert "line 2, in <module>: missing / 2" in failed
    silent = kernel.ok("nothing = 1")
    assert call(kernel, "read_cell_outputs", number=number_of(silent))[1].endswith("nothing = 1\nNo output is known.")
    assert "there is no cell In [9999]: the last one is In [" in call(kernel, "read_cell_outputs", number=9999)[1]


def test_the_last_cell_with_output_is_read_and_its_plot_is_an_image(kernel):
    kernel.ok("agent.provider = ScriptedProvider([FunctionCall('read_cell_outputs', {}, 'c'), 'A line.'])")
    kernel.ok("%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([3, 1, 2]);")
    kernel.ok("nothing = 1")
    kernel.ok("%%agent\nWhat does the plot show?")
    content = "agent.conversation_history[2].content"
    assert kernel.ok(f"[part['type'] for part in {content}]").result == "['text', 'text', 'image']"
    image = kernel.ok(f"print({content}[2]['data'])").stdout
    assert base64.b64decode(image).startswith(b"\x89PNG")

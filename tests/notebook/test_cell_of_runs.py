"""Each run knows its prompt's cell, however the prompt was sent."""

import pytest

pytestmark = pytest.mark.kernel

HELPERS = """
import threading
from nbagent import Trace, compare_sync
def say(n=50): return ScriptedProvider(['7' for _ in range(n)])
@tool
def ask_in_thread() -> str:
    'Ask another agent.'
    return str(Agent(say(), trace=asker.trace).chat_sync('inner'))
asker = Agent(say(0), tools=[ask_in_thread])
a = Agent(say(), trace=asker.trace)
def threaded():
    threads = [threading.Thread(target=a.chat_sync, args=('x',)) for _ in range(2)]
    [t.start() for t in threads]; [t.join() for t in threads]
def calling():
    asker.provider = ScriptedProvider([FunctionCall('ask_in_thread', {}), 'done'])
def ways():
    return [(run['cell_id'], run['execution_count']) for run in a.trace.rows('runs')[seen:]]
"""

WAYS = {
    "magic": "%%agent a\nx",
    "chat_sync": "a.chat_sync('x')",
    "await": "await a.chat('x')",
    "for": "for _ in a.chat_stream('x'): pass",
    "gather": "await asyncio.gather(a.chat('x'), a.fork().chat('y'))",
    "compare": "compare_sync({'one': a}, ['x'], progress=False)",
    "threads": "threaded()",
    "sub-agent in a thread": "calling(); asker.chat_sync('x')",
    "timed": "%%time\na.chat_sync('x')",
}


@pytest.fixture
def kernel(shared):
    shared.ok("seen = len(a.trace.runs)")
    return shared


def count_of(cell):
    return cell.of("execute_input")[-1]["execution_count"]


def check(kernel, way):
    asked = kernel.ok(WAYS[way], cell_id=f"cell-{way}")
    assert set(kernel.value("ways()")) == {(f"cell-{way}", count_of(asked))}


@pytest.mark.parametrize("way", WAYS)
def test_every_kind_of_prompt_knows_its_cell(kernel, way):
    check(kernel, way)


def test_without_the_extension_too(kernel):
    kernel.ok("%unload_ext nbagent")
    try:
        check(kernel, "threads")
    finally:
        kernel.ok("%load_ext nbagent")


def test_without_ids_of_cells_the_number_of_the_cell_counts(kernel):
    asked = kernel.ok("await a.chat('x')")
    assert kernel.value("ways()") == [(f"In[{count_of(asked)}]", count_of(asked))]


def test_a_click_belongs_to_no_cell(kernel):
    shown = kernel.ok(
        "import ipywidgets\nb = ipywidgets.Button(description='ask')\nb.on_click(lambda _: a.chat_sync('x'))\nb"
    )
    comm = kernel.widget(shown, description="ask")
    kernel.tell(comm, method="custom", content={"event": "click"})
    assert kernel.value("ways()") == [(None, None)]

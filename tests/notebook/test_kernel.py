"""`%%agent` in a real kernel: streaming, interrupts, queued cells, live tools, and output in the right cell."""

import re

import pytest
from support.kernels import TIMEOUT

pytestmark = pytest.mark.kernel


@pytest.fixture
def kernel(shared):
    """The kernel of this file, with a new agent and without the tools of other tests."""
    shared.run(
        "for name in list(nbagent.live.names()): nbagent.live.unregister(name)\nagent = Agent(tools=nbagent.live)"
    )
    return shared


def script(kernel, *turns, **options):
    extra = "".join(f", {key}={value!r}" for key, value in options.items())
    kernel.ok(f"agent.provider = ScriptedProvider([{', '.join(turns)}]{extra})")


DOING = {
    "model": "agent.provider = Gated('so far', 'never')",
    "main thread tool": "@tool(main_thread=True)\ndef wait():\n    open({mark!r}, 'w').close()\n    time.sleep(600)",
}


@pytest.mark.parametrize(("doing", "prefix"), [("model", ""), ("main thread tool", ""), ("model", "%%time\n")])
def test_interrupt(kernel, tmp_path, doing, prefix):
    mark = tmp_path / "started"
    script(kernel, "FunctionCall('wait', {}, 'c1')")
    kernel.ok(DOING[doing].format(mark=str(mark)))
    cell = kernel.send(prefix + "%%agent\ngo")
    kernel.until(cell, lambda: mark.exists() or "so far" in cell.text)
    kernel.interrupt()
    assert kernel.wait(cell).error == "KeyboardInterrupt"
    assert "Interrupted." in cell.text
    assert "File " not in cell.traceback, "no traceback of our internals"
    if doing == "model":
        last = "agent.conversation_history[-1].text, agent.conversation_history[-1].interrupted"
        assert kernel.value(last) == ("so far", True)
    script(kernel, "'still here'")
    assert "still here" in kernel.ok("%%agent\nand now?").text
    assert kernel.value("agent.trace.runs['status'].tolist()") == ["interrupted", "ok"]


#: Code that is silent for ten minutes: an event loop that nothing wakes does not notice ipykernel's interrupt.
SILENT = """
async def silent(messages, functions):
    open({mark!r}, 'w').close()
    await asyncio.sleep(600)
agent.provider = ScriptedProvider(silent)"""


def test_a_cell_that_awaits_is_interrupted(kernel, tmp_path):
    mark = tmp_path / "started"
    kernel.ok(SILENT.format(mark=str(mark)))
    cell = kernel.send("await agent.chat('go')")
    kernel.until(cell, mark.exists)
    kernel.interrupt()
    assert kernel.wait(cell).error == "CancelledError"
    script(kernel, "'still here'")
    assert kernel.value("(await agent.chat('and now?')).content") == "still here"


LOOPING = """
@tool
def count() -> str:
    print('begun', flush=True)
    while True:
        time.sleep(0.01)
        print('.', end='', flush=True)
"""


@pytest.mark.parametrize("prefix", ["", "%%time\n"], ids=["async cell", "background loop"])
def test_an_interrupted_sync_tool_stops(kernel, prefix):
    script(kernel, "[FunctionCall('count', {}, 'c1'), FunctionCall('count', {}, 'c2')]")
    kernel.ok(LOOPING)
    cell = kernel.send(prefix + "%%agent\ngo")
    kernel.until(cell, lambda: "..." in cell.stdout and cell.stdout.count("begun") == 2)
    kernel.interrupt()
    assert kernel.wait(cell).error == "KeyboardInterrupt"
    kernel.ok("import sys")
    assert kernel.value("[t for t in sys._current_frames().values() if t.f_code.co_name == 'count']") == []
    assert len(re.findall('nbagent-bad">interrupted</span> ', cell.html)) == 2
    table = kernel.value("agent.trace.tool_calls[['error_type', 'result_text']].values.tolist()")
    assert table == [["interrupted", "No result: the call was interrupted before it finished."]] * 2
    assert kernel.ok("time.sleep(0.1)").stdout == ""


def test_a_queued_cell_runs_after_the_first(kernel, tmp_path):
    gate = tmp_path / "go"
    kernel.ok(f"agent.provider = Gated('a ', 'b', {str(gate)!r})")
    first = kernel.send("%%agent\nx")
    second = kernel.send("print('second', len(agent.conversation_history))")
    third = kernel.send("%%agent\ny")
    kernel.until(first, lambda: "a" in first.text)
    assert second.reply is None
    gate.touch()
    for cell in (first, second, third):
        kernel.ok(cell)
    assert second.stdout == "second 2\n"
    assert "a b" in third.text


def test_an_interrupted_approval_does_not_eat_the_next_answer(kernel):
    script(kernel, "FunctionCall('wipe', {}, 'c')")
    kernel.ok("@tool(approve=True)\ndef wipe() -> str:\n    return 'wiped'")
    cell = kernel.send("%%agent\nwipe")
    kernel.client.get_stdin_msg(timeout=TIMEOUT)
    kernel.interrupt()
    assert kernel.wait(cell).error == "KeyboardInterrupt"
    for answer in ("one", "two", "three"):
        asking = kernel.send("print(input('name? '))")
        kernel.client.get_stdin_msg(timeout=TIMEOUT)
        kernel.client.input(answer)
        assert kernel.ok(asking).stdout == f"{answer}\n"


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("%%agent\n", "%%agent is a cell magic, but the cell body is empty"),
        ("%%agent\n  \n", "has no prompt"),
        ("thing = 3\nget_ipython().run_cell_magic('agent', 'thing', 'x')", "thing: expected an Agent, got int"),
        ("%%agent --max-iterations -1\nx", "max_iterations"),
        ("%%agent -m claude:claude-sonnet-5\nx", "ANTHROPIC_API_KEY"),
    ],
)
def test_a_wrong_cell_raises_before_any_request(kernel, cell, says):
    script(kernel, "'x'")
    wrong = kernel.run(cell)
    assert wrong.status == "error"
    assert says in str(wrong.messages)
    assert len(str(wrong.messages).split("File ")) < 3, "no traceback of our internals"
    assert kernel.value("agent.provider.requests") == []


def test_a_providers_failure_is_one_readable_block_and_fails_the_cell(kernel):
    kernel.ok("from nbagent.errors import RateLimitError")
    script(kernel, "RateLimitError('too many requests', provider='openai', model='gpt-5.6', status=429)")
    cell = kernel.run("%%agent\nx")
    assert (cell.status, cell.error) == ("error", "RateLimitError")
    assert "openai gpt-5.6: too many requests (status 429)" in cell.traceback
    assert "File" not in cell.traceback


STUBBORN = """
class Stubborn(LLMProvider):
    '''Does not give up when it is cancelled, for a while.'''
    provider_name, model_name = "scripted", "stubborn"
    def supports_function_calling(self): return True
    async def chat(self, messages, functions=None, **kwargs):
        print("asked")
        while True:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                print("cancelled")
                await asyncio.sleep(60)
                raise
agent.provider = Stubborn()
"""


def test_a_second_interrupt_does_not_wait(kernel):
    kernel.ok(STUBBORN)
    cell = kernel.send("%%agent\ngo")
    kernel.until(cell, lambda: "asked" in cell.stdout)
    kernel.interrupt()
    kernel.until(cell, lambda: "cancelled" in cell.stdout)
    assert cell.reply is None
    kernel.interrupt()
    assert kernel.wait(cell).error == "KeyboardInterrupt"
